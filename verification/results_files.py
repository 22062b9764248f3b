"""Reads files of results: of one round as `hubbub results --json` writes it, or of all rounds (`--all`).

Nothing is checked here but the form; `results` compares the numbers with the certificate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hubbub.protos.errors import FormatError, SignatureError
from hubbub.protos.identity.documents import canonical
from hubbub.protos.identity.formats import CERTIFICATE, RESULTS, SERIES, Kind
from hubbub.protos.records.results import RoundResults
from hubbub.protos.records.results_document import (
    SUMS,
    numbers_document,
)
from hubbub.protos.strict_json import LARGEST_RESULTS, JsonError, NotJson, as_json, read_json
from hubbub.verification.certificate import VerificationError
from hubbub.verification.first_difference import difference, odd_members

_MEMBERS = {"certificate", "format", "queries", "round", "task"}


TIMES = {"round_begins", "round_ends"}
"""Members of each round of `hubbub results --all --json`, which is a file of results but for them."""


_SERIES_MEMBERS = {"format", "rounds", "task"}


_BEGINNING = 200
"""Bytes at the beginning of a file in which results name their format."""


def _named(kind: Kind) -> str:
    """Return the beginning of every format of a kind."""
    return f"{kind.format.partition('/')[0]}/"


@dataclass(frozen=True)
class ResultsFile:
    """A file of results as it was read: its document but for the certificate, and that certificate's bytes.

    A parsed certificate of a year takes megabytes.

    Of a file of all rounds it is one member of `rounds`, at `place`.
    """

    path: Path
    document: Mapping[str, Any] = field(repr=False)
    certificate: bytes
    place: int | None = None

    @property
    def name(self) -> str:
        """The file, and the place in it, for messages."""
        return str(self.path) if self.place is None else f"{self.path}, rounds[{self.place}]"


def json_files(path: Path) -> list[Path]:
    """Return a file, or the files of a folder that are named `*.json`.

    Folders, pipes and sockets of such a name are left out: nothing was saved there, and a pipe might never end. A link
    that leads nowhere stays, as what it led to may be missed.
    """
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.glob("*.json") if each.is_file() or not each.exists())


def read_every(path: Path, content: bytes) -> tuple[ResultsFile, ...]:
    """Return the results of each round in a file of results, of one round or of all; none if it is something else.

    Raises:
        VerificationError: if its format has another version, if it has no certificate, or if the rounds are not all of
            the task that the file names.
    """
    document = _read(content)
    if _is_of(RESULTS, document):
        return (_results(path, document),)
    return _series(path, document) if _is_of(SERIES, document) else ()


def _read(content: bytes) -> Any:
    """Return a JSON document; None if it cannot be read, and names no format of results."""
    try:
        return read_json(content, largest=LARGEST_RESULTS)
    except JsonError as error:
        # Other programs write NaN into their files. An escape may hide a name, but not in what is no JSON.
        looked_at = content[:_BEGINNING] if isinstance(error, NotJson) else content
        names = [f'"{_named(kind)}'.encode() for kind in (RESULTS, SERIES)]
        escaped = not isinstance(error, NotJson) and b"\\u" in content
        if not escaped and not any(name in looked_at for name in names):
            return None
        # What readers take differently is not looked at further: another reader may see another format in it.
        raise VerificationError(f"it cannot be read as JSON: {error}") from error


def _is_of(kind: Kind, document: Any) -> bool:
    return isinstance(document, dict) and str(document.get("format")).startswith(_named(kind))


def _series(path: Path, document: Mapping[str, Any]) -> tuple[ResultsFile, ...]:
    """Return each round of a file of all rounds' results."""
    try:
        SERIES.check_named(document)
    except FormatError as error:
        raise VerificationError(str(error)) from error
    wrong = odd_members(document, _SERIES_MEMBERS)
    rounds = document.get("rounds")
    if wrong is None and rounds == []:
        raise VerificationError("it has results of no round, so there is nothing to verify; save them again")
    if wrong is None and not (isinstance(rounds, list) and rounds and all(_is_of(RESULTS, each) for each in rounds)):
        wrong = "rounds must be a list of files of results"
    if wrong is not None:
        raise VerificationError(f"these results do not have the members of {SERIES.format}: {wrong}; save them again")
    found = []
    for place, each in enumerate(document["rounds"]):
        try:
            found.append(replace(_results(path, each), place=place))
        except VerificationError as error:
            raise VerificationError(f"rounds[{place}]: {error}") from error
        other = difference(document["task"], each["task"])
        if other is not None:
            raise VerificationError(f"rounds[{place}] is of another task than the file: {other}; save them again")
    return tuple(found)


def _results(path: Path, document: Mapping[str, Any]) -> ResultsFile:
    """Return a document that names a format of results as it was read, with the certificate in it."""
    try:
        RESULTS.check_named(document)
        wrong = odd_members(document, _MEMBERS, {SUMS, *TIMES})
        if wrong is not None:
            raise VerificationError(
                f"these results do not have the members of {RESULTS.format}: {wrong}; save them again"
            )
        certificate = document["certificate"]
        CERTIFICATE.check_named(certificate["body"])
        # The file has white space for people. In canonical form the certificate has the analyzer's bytes again.
        numbers = {name: value for name, value in document.items() if name != "certificate"}
        return ResultsFile(path, numbers, canonical(certificate))
    except FormatError as error:
        raise VerificationError(str(error)) from error
    except (SignatureError, KeyError, TypeError) as error:
        raise VerificationError(
            f"these results have no readable certificate: {error!s:.200}; save them again"
        ) from error


@dataclass(frozen=True)
class OneRound:
    """One certificate, its file, and the files of results that also contain it."""

    path: Path
    certificate: bytes
    results: tuple[ResultsFile, ...]


def one_round(paths: Sequence[Path]) -> OneRound | None:
    """Return the content of files that are all of one certificate; None if there are several, or a folder.

    Raises:
        OSError: if the only file cannot be read.
        VerificationError: if the only file has results without a certificate.
    """
    try:
        found = [] if any(path.is_dir() for path in paths) else [(path, path.read_bytes()) for path in paths]
        files = {path: read_every(path, content) for path, content in found}
    except OSError:
        if len(paths) == 1:
            raise
        return None
    except VerificationError as error:
        if len(paths) == 1:
            raise VerificationError(f"{paths[0]}: {error}") from error
        return None
    results = [each for file in files.values() for each in file]
    alone = [(path, content) for path, content in found if not files[path]]
    held = [*alone, *((file.path, file.certificate) for file in results)]
    if len({certificate for _, certificate in held}) != 1:
        return None
    return OneRound(*held[0], tuple(results))


def as_file(results: RoundResults) -> ResultsFile:
    """Return fetched results as the file that they would be saved to."""
    where = Path(f"round {results.id.round} of task {results.id.task_name}")
    return ResultsFile(where, as_json(numbers_document(results)), results.certificate)
