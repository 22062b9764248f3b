"""Opens results that were saved: files of `hubbub results --json`, of one round or of many, or folders of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hubbub.accountant.errors import listed, shown
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.counts import Counted, check_published, read_certified
from hubbub.protos.records.results import QueryResult, QueryState, RoundId, RoundResults
from hubbub.protos.records.results_document import parse_certificate
from hubbub.protos.records.sums import sums_of
from hubbub.protos.task.signed_task import SignedTask
from hubbub.queries.estimation.estimates import BEGINNING, Estimate, Estimates, Row
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.texts.lookup import Decodable
from hubbub.results.checked import NotVerified, Trust, check_signed, check_task_signed, checked_verify, recomputed
from hubbub.results.selection import Named, check_one_task, check_task, chosen_rounds, matches, word_of
from hubbub.results.table import ResultsTable
from hubbub.verification.certificate import VerificationError
from hubbub.verification.pins import Pins, pins_of
from hubbub.verification.results import query_result_in
from hubbub.verification.results_files import ResultsFile, json_files, read_every


@dataclass(frozen=True)
class _SavedRound:
    file: ResultsFile
    results: RoundResults
    counted: tuple[Counted, ...]


class SavedResults:
    """Saved rounds of one task or several; `open_saved` makes it."""

    def __init__(self, rounds: Iterable[_SavedRound], pins: Pins, verify: bool) -> None:
        self._rounds = sorted(rounds, key=lambda each: (each.results.id.task_name, each.results.id.round))
        self._pins, self._verify = pins, verify

    def __repr__(self) -> str:
        """Return what was opened, and whether `read` verifies it."""
        tasks = listed(each.name for each in self.tasks())
        return (
            f"<{len(self._rounds)} saved rounds of {tasks}; read() {'verifies' if self._verify else 'does not verify'}>"
        )

    def tasks(self) -> tuple[ListedTask, ...]:
        """Return the tasks that rounds are of, by their names."""
        return tuple(
            dict.fromkeys(ListedTask(each.results.id.task_id, each.results.id.task_name) for each in self._rounds)
        )

    def task(self, task: Named = None) -> SignedTask:
        """Return a task, checked to be signed by the operator and the shuffler it names.

        Raises:
            UsageError: if no task or several match.
            SignatureError: if a signature is wrong, or a signer is not the pinned one.
        """
        found = self._of(task)
        check_one_task([each.results.id for each in found], word_of(task))
        signed = SignedTask.from_json(parse_certificate(found[-1].file.certificate)["body"]["task"])
        if self._verify:
            check_task_signed(signed, self._pins, lambda: [each.file.certificate for each in found])
        return signed

    def rounds(self, task: Named = None) -> tuple[RoundId, ...]:
        """Return the rounds of a task, rising; of all tasks if it is None.

        Raises:
            UsageError: if there is no such task.
        """
        return tuple(each.results.id for each in self._of(task))

    def _of(self, task: Named) -> list[_SavedRound]:
        word = word_of(task)
        check_task(word, self.tasks())
        return [each for each in self._rounds if matches(each.results.id, word)]

    def read(self, task: Named = None, rounds: Iterable[int] | None = None) -> ResultsTable:
        """Return the published rows of a task's rounds: of all, or of those named.

        Args:
            task: the task's name, its id in hex, or one of `tasks()`; it can be left out if there is one task.
            rounds: the numbers of the rounds; None for all.

        Raises:
            UsageError: if no task or several match, or a round is not there.
            NotVerified: if a certificate is not valid, or results differ from theirs.
        """
        found = self._of(task)
        check_one_task([each.results.id for each in found], word_of(task))
        chosen = chosen_rounds([each.results.id for each in found], rounds)
        shown = [each.results for each in found if each.results.id.round in chosen]
        if not self._verify:
            return ResultsTable(shown, Trust(verified=False))
        # Estimates over time also follow from earlier rounds, which must be valid too.
        needed = chosen | {number for each in shown for query in each.queries for number in query.rounds}
        read = [each for each in found if each.results.id.round in needed]
        unpinned = check_signed(
            [each.results for each in read],
            self._pins,
            lambda: [each.results for each in found if each.results.id.round not in needed],
        )
        try:
            left = recomputed([each.file for each in read])
        except VerificationError as error:
            raise NotVerified(str(error)) from error
        return ResultsTable(shown, Trust(True, unpinned, left))


def open_saved(*paths: str | Path, keys: str | Path | Pins | None = None, verify: bool = True) -> SavedResults:
    """Open results that `hubbub results --json` saved, of one round or (`--all`) of many, or folders of such files.

    Args:
        paths: files, or folders whose `.json` files are opened; JSON of another kind is left out there.
        keys: a folder of the public keys that you know (`keys_in`), or these keys; without, nothing is pinned.
        verify: whether `read` verifies; if not, each table says so.

    Proofs of the transparency log that a task demands are taken from the folders of `paths` and of `keys`.

    Raises:
        UsageError: if there are no results in these files, or in one of these folders, or `keys` has no keys, or an
            argument has the wrong type.
        NotVerified: if a named file has no readable results, or a round is there twice with different content.
    """
    known = pins_of(keys)
    pins = replace(known, log_proofs=known.log_proofs.beside(path for path in paths if isinstance(path, str | Path)))
    checked_verify(verify)
    for path in paths:
        if not isinstance(path, str | Path):
            raise UsageError(f"a path is a text or a Path, not {shown(path)}; if it is a list, call open_saved(*paths)")
    held: dict[tuple[bytes, int], _SavedRound] = {}
    found = {path: list(_files(Path(path))) for path in paths}
    # Whoever names a folder counts on what is in it.
    lacking = [str(path) for path, files in found.items() if not files]
    if lacking or not found:
        where = ", ".join(lacking) or "no file"
        raise UsageError(f"no results in {where}; save some with `hubbub results --all --json`")
    for file in (each for files in found.values() for each in files):
        round_ = _saved_round(file)
        key = (round_.results.id.task_id, round_.results.id.round)
        if key in held and not _same(held[key].file, file):
            raise NotVerified(
                f"{held[key].file.path} and {file.path} have different results of round {key[1]}; remove one of them"
            )
        held[key] = round_
    return SavedResults(_over_rounds(held), pins, verify)


def _same(one: ResultsFile, other: ResultsFile) -> bool:
    return one.document == other.document and one.certificate == other.certificate


def _files(path: Path) -> Iterator[ResultsFile]:
    is_folder = path.is_dir()
    for each in json_files(path):
        try:
            found = read_every(each, each.read_bytes())
        except OSError as error:
            raise NotVerified(f"cannot read {each}: {error.strerror}; name a readable file") from error
        except VerificationError as error:
            raise NotVerified(f"{each}: {error}") from error
        if not found and not is_folder:
            raise NotVerified(f"{each} has no results; `hubbub results --json` saves them")
        yield from found


def _saved_round(file: ResultsFile) -> _SavedRound:
    """Return the round in a file, its counts checked to be those of its certificate; estimates follow later."""
    try:
        certified = read_certified(file.certificate)
        queries = tuple(query_result_in(each) for each in file.document["queries"])
        counted = tuple(check_published(queries, certified.task, certified.content["round"], certified))
    except (HubbubError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise NotVerified(f"{file.path}: the results do not agree with their certificate: {error!s:.300}") from error
    which = RoundId(certified.task.id, certified.task.name, certified.content["round"])
    return _SavedRound(file, RoundResults(which, queries, file.certificate), counted)


def _over_rounds(held: Mapping[tuple[bytes, int], _SavedRound]) -> Iterator[_SavedRound]:
    """Yield the rounds with their estimates, computed from their counts and those of the earlier rounds behind them.

    Raises:
        NotVerified: naming the rounds that are missing.
    """
    for (task_id, number), each in held.items():
        certified = read_certified(each.file.certificate)
        task, queries = certified.task, []
        for index, (query, result) in enumerate(zip(task.queries, each.results.queries, strict=True)):
            missing = [before for before in result.rounds if (task_id, before) not in held]
            if missing:
                raise NotVerified(
                    f"{each.file.path}: estimates of {query.name} in round {number} also follow from rounds "
                    f"{', '.join(map(str, missing))}, which were not opened; open their files too"
                )
            batches = {}
            for before in (*result.rounds, number):
                counted = held[task_id, before].counted[index]
                if counted.tally is not None:
                    batches[before] = Batch(counted.tally, task.privacy.dummies + counted.noise)
            found = None if result.state is QueryState.WITHHELD else query.estimates_over(number, batches)
            if found is not None and isinstance(query.question, Decodable):
                found = _with_texts(found, each.file, index)
            queries.append(_with(result, found))
        sums = sums_of(task, each.counted)
        yield _SavedRound(
            each.file, RoundResults(each.results.id, tuple(queries), each.file.certificate, sums), each.counted
        )


def _with_texts(found: Estimates, file: ResultsFile, index: int) -> Estimates:
    """Return estimates with the texts that the file lists, if any were looked up before it was saved.

    `verification.results` looks them up again, but for those found by prefixes: their trust says that.

    Raises:
        NotVerified: if they cannot be read.
    """
    stated = file.document["queries"][index]
    if not stated.get("notes"):
        return found
    try:
        texts = [Row("count", _estimate(each), str(each["category"])) for each in stated.get("counts", ())]
        beginnings = [
            Row(BEGINNING, _estimate(each), str(each["category"]), at=float(each["at"]))
            for each in stated.get("beginnings", ())
        ]
        everybody = Row("answered", _estimate(stated["answered"]))
        return replace(found, rows=(*texts, *beginnings, everybody), notes=tuple(map(str, stated["notes"])))
    except (KeyError, TypeError, ValueError) as error:
        raise NotVerified(f"{file.name}: the texts of {stated['name']} cannot be read: {error!r:.200}") from error


def _estimate(stated: Mapping[str, Any]) -> Estimate:
    value, error, lower, upper = (stated[name] for name in ("estimate", "standard_error", "lower", "upper"))
    band = [stated[name] for name in ("simultaneous_lower", "simultaneous_upper") if name in stated]
    return Estimate(
        float(value),
        None if error is None else float(error),
        float(lower),
        float(upper),
        (float(band[0]), float(band[1])) if len(band) == 2 else None,
    )


def _with(result: QueryResult, estimates: Any) -> QueryResult:
    # What texts are decoded from is in the table then: a result has its counts in one place.
    counts = b"" if estimates is not None and estimates.table else result.counts
    facts = (result.name, result.state, result.reports, result.valid, result.left_out)
    return QueryResult(*facts, estimates, counts, result.rounds)
