"""Verifies all certificates of a task, each alone and all together: one chain, no gap, no round stated twice.

The task's batch records attest its releases, so the last certificate lists every round released before its own. The
other certificates must be of exactly these releases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hubbub.protos.errors import remedy_of
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.release_chain import Release
from hubbub.verification.certificate import (
    NotACertificate,
    Pins,
    VerificationError,
    Verified,
    other_document,
    verify,
)
from hubbub.verification.results import RecomputedResults, recompute
from hubbub.verification.results_files import ResultsFile, read_every
from hubbub.verification.shared_successions import verify_together


@dataclass(frozen=True)
class VerifiedCertificate:
    """A certificate that is valid by itself, and its file."""

    path: Path
    document: bytes = field(repr=False)
    verified: Verified

    @property
    def round(self) -> int:
        """The certificate's round."""
        return int(self.verified.content["round"])

    @property
    def history(self) -> dict[int, Any]:
        """The statement of each round that the certificate composes; its own is last."""
        return {stated["round"]: stated for stated in self.verified.content["all_rounds"]["history"]}

    @property
    def chain(self) -> list[Release]:
        """The releases before its round, and its own."""
        return [*self.verified.releases, self.verified.release]

    @property
    def uncounted(self) -> list[int]:
        """The rounds that were released before it, and never counted."""
        return list(self.verified.content["uncounted"])


@dataclass(frozen=True)
class Problem:
    """A problem, with its file and round; None if it is not of one file or one round."""

    file: Path | None
    round: int | None
    text: str

    def __str__(self) -> str:
        where = [] if self.file is None else [str(self.file)]
        where += [] if self.round is None else [f"round {self.round}"]
        return f"{', '.join(where)}: {self.text}" if where else self.text


@dataclass(frozen=True)
class CertificateHistory:
    """A task's certificates in the order of their rounds' releases, and the problems among them."""

    certificates: tuple[VerifiedCertificate, ...]
    problems: tuple[Problem, ...]

    @property
    def last(self) -> VerifiedCertificate:
        """The certificate that composes most."""
        return self.certificates[-1]


@dataclass(frozen=True)
class Histories:
    """All findings: a history for each task, the problems of single files, and the skipped files."""

    histories: tuple[CertificateHistory, ...]
    alone: tuple[Problem, ...]
    skipped: tuple[Path, ...]
    results: tuple[RecomputedResults, ...] = ()
    """Files of results that agree with their certificates."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems."""
        return (*self.alone, *(problem for history in self.histories for problem in history.problems))


def read_histories(
    paths: Sequence[Path],
    pins: Pins,
    progress: Callable[[str], None] = lambda _: None,
) -> Histories:
    """Check the certificates and results in these files and in the `.json` files of these folders, alone and together.

    The successions of one certificate count for all. `progress` is called with the next file. In a folder, JSON of
    another kind is skipped. A file that is named itself must be a certificate, or results, which contain one.

    Raises:
        NotACertificate: if there is no certificate at all.
    """
    given, shared = _read(paths), _SharedRounds()

    def check(document: bytes, more: tuple[Succession, ...]) -> Verified:
        progress(given.documents[document][0])
        return shared.of(verify(document, pins, more))

    checked = dict(zip(given.documents, verify_together(list(given.documents), check), strict=True))
    held = [
        VerifiedCertificate(path, document, valid)
        for path, document in given.copies
        if isinstance(valid := checked[document], Verified)
    ]
    wrong = [
        Problem(Path(given.documents[document][0]), None, str(error))
        for document, error in checked.items()
        if isinstance(error, VerificationError)
    ]
    if not held and not wrong and not given.unread:
        where = ", ".join(map(str, paths))
        raise NotACertificate(f"no certificate in {where}; `hubbub results --certificate FILE` saves one")
    found = list(recompute(given.results, {each.document for each in held}))
    differing = [Problem(None, None, str(each)) for each in found if isinstance(each, VerificationError)]
    again = tuple(each for each in found if isinstance(each, RecomputedResults))
    others = [*_unmatched(paths, held, given.results), *_empty(paths, given.seen, given.skipped)]
    alone = (*given.unread, *wrong, *others, *differing)
    return Histories(_by_task(held), alone, tuple(given.skipped), again)


class _SharedRounds:
    """Keeps once what several certificates state of a round: those of a year state each round half a year of times."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def of(self, verified: Verified) -> Verified:
        """Return an equal one, whose statements of rounds are those of the certificates before wherever they agree."""
        content, task = verified.content, verified.task.id
        rounds = [self._one(("stated", task, each["round"]), each) for each in content["all_rounds"]["history"]]
        listed = [self._one(("listed", task, each["round"]), each) for each in content["releases"]]
        releases = tuple(self._one(("released", task, each.round), each) for each in verified.releases)
        of_rounds = {"all_rounds": {**content["all_rounds"], "history": rounds}, "releases": listed}
        return replace(verified, content={**content, **of_rounds}, releases=releases)

    def _one(self, key: tuple[object, ...], value: Any) -> Any:
        known = self._known.setdefault(key, value)
        # Checked to be whole numbers and texts, so what is equal is also written alike.
        return known if known == value else value


@dataclass(frozen=True)
class _GivenFiles:
    """What the named files and folders have.

    `documents` has each different certificate with the name of its place and its file; `copies` has every file that
    has one.
    """

    documents: dict[bytes, tuple[str, Path]] = field(default_factory=dict, repr=False)
    copies: list[tuple[Path, bytes]] = field(default_factory=list, repr=False)
    results: list[ResultsFile] = field(default_factory=list)
    seen: list[Path] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    unread: list[Problem] = field(default_factory=list)

    def add(self, path: Path, document: bytes, place: str) -> None:
        """Add a certificate."""
        self.documents.setdefault(document, (place, path))
        self.copies.append((path, document))


def _read(paths: Sequence[Path]) -> _GivenFiles:
    given = _GivenFiles()
    for path, named in _files(paths):
        given.seen.append(path)
        with _noted(path, given.unread):
            if not named and path.is_fifo():
                # It might never end, and anybody may have put it there.
                raise VerificationError(
                    "it is a pipe, not a file; give its own path to read it all the same, or remove it"
                )
            document = path.read_bytes()
            results = read_every(path, document)
            if results:
                given.results.extend(results)
            elif not named and other_document(document):
                given.skipped.append(path)
            else:
                given.add(path, document, str(path))
    for file in given.results:
        # Results contain their round's certificate, which is part of the history even if no file has it alone.
        if file.certificate not in given.documents:
            given.add(file.path, file.certificate, file.name)
    return given


def _by_task(held: Sequence[VerifiedCertificate]) -> tuple[CertificateHistory, ...]:
    tasks: dict[bytes, list[VerifiedCertificate]] = {}
    for each in held:
        tasks.setdefault(each.verified.task.id, []).append(each)
    return tuple(_history(of) for of in tasks.values())


def _unmatched(
    paths: Sequence[Path], held: Sequence[VerifiedCertificate], files: Sequence[ResultsFile]
) -> list[Problem]:
    """Return a problem for each file of results whose certificate is not among the named ones, if any were named."""
    named = set(paths) - {file.path for file in files}
    certificates = [each for each in held if each.path in named]
    beside = [file for file in files if file.path in paths]
    if not certificates or not beside:
        return []
    tasks = {each.verified.task.id for each in certificates}
    if {file.certificate for file in beside}.isdisjoint(each.document for each in certificates):
        tasks = set()
    of = {each.document: each for each in held}
    given = " and ".join(f"{each.path} is of {_of(each)}" for each in certificates)
    return [
        Problem(
            file.path,
            None,
            f"the certificate in these results is none of those given: it is of {_of(of[file.certificate])}, and "
            f"{given}; give each certificate with its own results",
        )
        for file in beside
        if file.certificate in of and of[file.certificate].verified.task.id not in tasks
    ]


def _empty(paths: Sequence[Path], files: Sequence[Path], skipped: Sequence[Path]) -> Iterator[Problem]:
    """Find folders that were named and have nothing to check: beside others they would count as valid."""
    looked_at = {file.parent for file in files if file not in skipped}
    for path in paths:
        if path.is_dir() and path not in looked_at:
            lacks = "the folder has no certificate and no results"
            yield Problem(path, None, f"{lacks}, so nothing in it was checked; name another, or leave it out")


def _of(certificate: VerifiedCertificate) -> str:
    task = certificate.verified.task
    return f"task {task.name} ({task.id.hex()[:12]}), round {certificate.round}"


@contextlib.contextmanager
def _noted(path: Path, problems: list[Problem]) -> Iterator[None]:
    """Record the problem of a file, so that the other files are still checked."""
    try:
        yield
    except OSError as error:
        problems.append(Problem(path, None, f"it cannot be read: {error.strerror or error}; {remedy_of(error)}"))
    except VerificationError as error:
        problems.append(Problem(path, None, str(error)))


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file once, and whether it was named itself."""
    seen: set[Path] = set()
    for path in paths:
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            if file not in seen:
                seen.add(file)
                yield file, file == path


def _history(held: Sequence[VerifiedCertificate]) -> CertificateHistory:
    ordered = sorted(held, key=lambda each: (len(each.chain), each.round))
    last = ordered[-1]
    problems = [
        *_twice(ordered),
        *_counts(ordered),
        *_totals(ordered),
        *_one_chain(ordered, last),
        *_gaps(ordered, last),
    ]
    return CertificateHistory(tuple(ordered), tuple(problems))


def _twice(held: Sequence[VerifiedCertificate]) -> Iterator[Problem]:
    """Find certificates of one round that differ; the same bytes in two files are a copy."""
    first: dict[int, VerifiedCertificate] = {}
    for each in held:
        other = first.setdefault(each.round, each)
        if other.document != each.document:
            yield Problem(each.path, each.round, f"{other.path} is a different certificate of this round")


def _counts(held: Sequence[VerifiedCertificate]) -> Iterator[Problem]:
    """Find rounds of which two certificates state different counts."""
    first = {each.round: (each.history[each.round], each) for each in reversed(held)}
    for each in held:
        for number, stated in each.history.items():
            counts, source = first.setdefault(number, (stated, each))
            if counts != stated:
                yield Problem(each.path, number, f"its counts differ from those in {source.path}")


def _totals(held: Sequence[VerifiedCertificate]) -> Iterator[Problem]:
    """Find totals below the proven cost of a single earlier round: no bound on all rounds can be so low."""
    # Not compared with earlier totals: a later bound may be tighter, and then it is better for both.
    known, of = 0.0, None
    for each in held:
        lower = each.verified.content["round_total"]["epsilon_lower"] or 0.0
        if lower > known:
            known, of = lower, each
        total = each.verified.content["all_rounds"]["epsilon_upper"]
        if of is not None and total < known:
            text = f"epsilon is {total} over all rounds, but at least {known} for round {of.round} alone by {of.path}"
            yield Problem(each.path, each.round, text)


def _one_chain(held: Sequence[VerifiedCertificate], last: VerifiedCertificate) -> Iterator[Problem]:
    """Find certificates whose releases are not the beginning of the last one's."""
    whole = last.chain
    for each in held:
        for position, (own, other) in enumerate(zip(each.chain, whole, strict=False)):
            if own != other:
                now = f"round {other.round}" if own.round != other.round else "the same round with other batches"
                text = f"it is not of one history with {last.path}: at position {position} of the releases, this "
                yield Problem(each.path, own.round, f"{text}certificate has round {own.round}, the other has {now}")
                break


def _gaps(held: Sequence[VerifiedCertificate], last: VerifiedCertificate) -> Iterator[Problem]:
    """Find rounds that the last certificate composes but that have no certificate here, although one was made."""
    rounds = {each.round for each in held}
    for number in last.history:
        if number not in rounds and number not in last.uncounted:
            yield Problem(None, number, f"its certificate is missing: {last.path} includes this round")
        if number in rounds and number in last.uncounted:
            yield Problem(last.path, number, "it states that the round was never counted, but a certificate exists")
