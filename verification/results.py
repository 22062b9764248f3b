"""Checks saved results of a round against its certificate.

A file of results has the counts of each published query and the round's certificate; `results_files` reads it. The
counts are compared with the certificate's digest. The estimates follow from the counts and the task alone, so they are
recomputed. So are the sums of numbers that are asked by digits, from the counts of all their digits. Estimates of a
longitudinal query also follow from the counts of earlier rounds. They are recomputed if the results of those rounds are
given; otherwise a problem names the missing rounds.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubbub.protos.errors import HubbubError
from hubbub.protos.records.counts import Certified, Counted, CountsDiffer, check_published, read_certified
from hubbub.protos.records.results import QueryResult, QueryState
from hubbub.protos.records.results_document import (
    SUMS,
    estimates_document,
    sum_document,
    times_of,
)
from hubbub.protos.records.sums import sums_of
from hubbub.protos.strict_json import as_json
from hubbub.protos.task.task import Task
from hubbub.queries.errors import shown
from hubbub.queries.estimation.bands import in_band, rate_of
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.query import Query
from hubbub.queries.texts.lookup import Decodable, count_of_text, found_words
from hubbub.verification.certificate import VerificationError
from hubbub.verification.first_difference import check_counts, check_numbers, difference, odd_members, typed
from hubbub.verification.results_files import TIMES, ResultsFile

_COUNTS = frozenset({"left_out", "name", "reports", "state", "tally", "valid"})
_ABOUT = frozenset({"left_out", "name", "reports", "state", "valid"})
BY_PREFIXES = "texts of several rounds' prefixes; find them again with hubbub results --prefixes"

_BANDS = {"simultaneous_lower", "simultaneous_upper"}
_TEXTS = {"answered", "beginnings", "counts", "kind", "notes"}
_LOOKED_UP = re.compile(r"^of ([0-9]{1,3}(?:,[0-9]{3}){0,2}) looked up, ")


@dataclass(frozen=True)
class RecomputedResults:
    """The findings about a file of results.

    `queries` are those whose recomputed estimates are the same, the sums by digits included; `left` are those that were
    not recomputed, with the reason.
    """

    path: Path
    task: str
    round: int
    queries: tuple[str, ...]
    left: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return it as `hubbub verify --json` shows it."""
        return {
            "file": str(self.path),
            "task": self.task,
            "round": self.round,
            "recomputed": list(self.queries),
            "not_recomputed": dict(self.left),
        }

    def as_text(self) -> str:
        """Return it as one line for people."""
        again = f"; estimates follow from them: {', '.join(self.queries)}" if self.queries else ""
        left = "".join(f"; not recomputed: {name} ({why})" for name, why in self.left.items())
        return (
            f"{self.path}: {self.task}, round {self.round}: the counts are those of the certificate in it{again}{left}"
        )


def recompute(
    files: Sequence[ResultsFile], verified: Collection[bytes]
) -> Iterator[RecomputedResults | VerificationError]:
    """Check files of results against the certificates in them, which must be in `verified`; yield each finding.

    A problem is yielded as an error that names the file, so that the other files are still checked.
    """
    held: dict[tuple[bytes, int], list[Counted]] = {}
    sound: list[tuple[ResultsFile, Certified]] = []
    for file in files:
        try:
            certified = read_certified(file.certificate)
            key = (certified.task.id, certified.content["round"])
            if file.certificate not in verified:
                raise CountsDiffer("the certificate in it is not valid")
            results = list(map(query_result_in, typed(file.document["queries"], list, "queries")))
            held[key] = check_published(results, certified.task, key[1], certified)
            _check_about(file.document, certified)
        except (HubbubError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            yield _problem(file, error)
        else:
            sound.append((file, certified))
    for file, certified in sound:
        try:
            yield _recomputed(file, certified, held)
        except (HubbubError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            yield _problem(file, error)


def _problem(file: ResultsFile, error: Exception) -> VerificationError:
    text = str(error) if isinstance(error, HubbubError) else f"they cannot be read: {error!r:.200}"
    return VerificationError(
        f"{file.name}: the results do not agree with their certificate: {text}. Save them again; if they still "
        "differ, ask the analyzer's party whether its store was changed"
    )


def query_result_in(stated: Mapping[str, Any]) -> QueryResult:
    """Return a query's counts from a file of results, without its estimates.

    Raises:
        CountsDiffer: if counts are missing, or not in base64.
        KeyError, TypeError, ValueError: if it has another form.
    """
    check_counts(stated)
    tally = stated.get("tally", {})
    try:
        counts = base64.b64decode(tally.get("counts", ""), validate=True)
    except binascii.Error as error:
        raise CountsDiffer(f"{stated['name']}: its counts are not in base64") from error
    state, facts = QueryState(stated["state"]), (stated["reports"], stated["valid"], stated["left_out"])
    if state is QueryState.PUBLISHED and not counts:
        raise CountsDiffer(f"{stated['name']}: its counts are missing")
    return QueryResult(stated["name"], state, *facts, None, counts, tuple(tally.get("rounds", ())))


def _check_about(document: Mapping[str, Any], certified: Certified) -> None:
    about = {"task": {"id": certified.task.id.hex(), "name": certified.task.name}, "round": certified.content["round"]}
    found = difference(about, {name: document[name] for name in about})
    if found is not None:
        raise CountsDiffer(f"they name another task or round than their certificate: {found}")
    times = times_of(certified.task.schedule, certified.content["round"])
    for name in sorted(TIMES & document.keys()):
        if document[name] != times[name]:
            raise CountsDiffer(f"{name} is {shown(document[name])}, but {shown(times[name])} follows from the task")


def _recomputed(
    file: ResultsFile, certified: Certified, held: Mapping[tuple[bytes, int], Sequence[Counted]]
) -> RecomputedResults:
    task, number = certified.task, certified.content["round"]
    again, left = [], {}
    for index, (query, stated) in enumerate(zip(task.queries, file.document["queries"], strict=True)):
        if stated["state"] != QueryState.PUBLISHED:
            _check_withheld(query, stated)
            continue
        batches = _batches(certified, index, stated, held)
        reason = None
        if not {"notes", "counts", "beginnings"}.isdisjoint(stated) and isinstance(query.question, Decodable):
            reason = _check_texts(query, query.question, number, batches[number], stated)
        else:
            _check_estimates(query, number, batches, stated)
        if reason is None:
            again.append(query.name)
        else:
            left[query.name] = reason
    again += _check_sums(file.document, task, held[task.id, number])
    return RecomputedResults(file.path, task.name, number, tuple(again), left)


def _check_sums(document: Mapping[str, Any], task: Task, counted: Sequence[Counted]) -> list[str]:
    """Check the sums by digits in a file of results; return the names of those that were recomputed."""
    sums = sums_of(task, counted)
    stated = document.get(SUMS, [])
    if bool(sums) != (SUMS in document) or [each["name"] for each in stated] != [each.name for each in sums]:
        raise CountsDiffer("its sums are not those of the numbers that the task asks by digits")
    for each, given in zip(sums, stated, strict=True):
        _check_same(each.name, sum_document(each), given)
    return [each.name for each in sums if each.estimates is not None]


def _check_withheld(query: Query, stated: Mapping[str, Any]) -> None:
    wrong = odd_members(stated, _ABOUT)
    if wrong is not None:
        raise CountsDiffer(f"{query.name}: it is withheld, so it has no numbers, but {wrong}")


def _batches(
    certified: Certified, index: int, stated: Mapping[str, Any], held: Mapping[tuple[bytes, int], Sequence[Counted]]
) -> dict[int, Batch]:
    """Return the batches that a query's estimates follow from: its round's, and those of the earlier rounds named."""
    task, number = certified.task, certified.content["round"]
    rounds = [*stated["tally"]["rounds"], number]
    missing = [each for each in rounds if (task.id, each) not in held]
    if missing:
        named = ", ".join(map(str, missing))
        raise CountsDiffer(
            f"{stated['name']}: its estimates also follow from these rounds, whose results are not here: {named}; give "
            "them too"
        )
    found = {each: held[task.id, each][index] for each in rounds}
    for earlier, valid in certified.content["history"]:
        if earlier in found and found[earlier].valid != valid[index]:
            raise CountsDiffer(
                f"{stated['name']}: {valid[index]} valid reports of round {earlier} were composed with it, but the "
                f"results of that round have {found[earlier].valid}"
            )
    return {
        number: Batch(each.tally, task.privacy.dummies + each.noise)
        for number, each in found.items()
        if each.tally is not None
    }


def _check_texts(query: Query, question: Decodable, number: int, batch: Batch, stated: Mapping[str, Any]) -> str | None:
    """Check a query whose texts were looked up; return the reason if they cannot be looked up again."""
    wrong = odd_members(stated, _COUNTS | {"answered", "kind"}, _TEXTS)
    if wrong is not None:
        raise CountsDiffer(f"{query.name}: no lookup writes such members: {wrong}")
    plain = estimates_document(query.estimates_over(number, {number: batch}))
    _check_same(query.name, plain["kind"], stated["kind"], "kind")
    check_numbers(query.name, {name: value for name, value in stated.items() if name not in _COUNTS})
    if getattr(question, "prefixes", ()):
        people = query.debiased(batch.tally, batch.dummies).reports
        answered = _with_bands_of(stated["answered"], plain["answered"], people)
        _check_same(query.name, answered, stated["answered"], "answered")
        return BY_PREFIXES
    named = [each["category"] for each in stated.get("counts", [])]
    found = estimates_document(question.decode(query.debiased(batch.tally, batch.dummies), named, number))
    looked_up = [_LOOKED_UP.search(note) for note in stated.get("notes", [])]
    if len(looked_up) != 1 or looked_up[0] is None or "beginnings" in stated:
        raise CountsDiffer(f"{query.name}: it does not state how many texts were looked up")
    # The note has the number of texts that were looked up, which makes the band wider and changes no count.
    count = int(looked_up[0][1].replace(",", ""))
    if not len(named) <= count or stated["notes"] != [found_words(len(named), count)]:
        raise CountsDiffer(f"{query.name}: its notes state another number of texts than its table has")
    debiased, rate = query.debiased(batch.tally, batch.dummies), rate_of(count + 1)
    again = [_banded(each, debiased, rate) for each in found.get("counts", [])]
    _check_same(query.name, again, stated.get("counts", []), "counts")
    _check_same(query.name, _banded(found["answered"], debiased, rate), stated["answered"], "answered")
    return None


def _with_bands_of(stated: Mapping[str, Any], computed: Mapping[str, Any], people: int) -> dict[str, Any]:
    """Return the computed number with the stated band, which follows from a number of look-ups that nobody knows."""
    band = {name: value for name, value in stated.items() if name in _BANDS}
    if any(not 0 <= value <= people for value in band.values()):
        raise CountsDiffer(f"answered has the band {shown(band)}, but there are from 0 to {people} people")
    return {name: value for name, value in computed.items() if name not in _BANDS} | {
        name: float(value) for name, value in band.items()
    }


def _banded(numbers: Mapping[str, Any], debiased: Debiased, rate: float) -> dict[str, Any]:
    if not numbers["standard_error"]:
        return dict(numbers)
    banded = in_band(count_of_text(debiased, numbers["estimate"], numbers["standard_error"] ** 2), rate)
    lower, upper = banded.simultaneous or (banded.lower, banded.upper)
    return {**numbers, "simultaneous_lower": lower, "simultaneous_upper": upper}


def _check_estimates(query: Query, number: int, batches: Mapping[int, Batch], stated: Mapping[str, Any]) -> None:
    given = {name: value for name, value in stated.items() if name not in _COUNTS}
    _check_same(query.name, estimates_document(query.estimates_over(number, batches)), given)


def _check_same(name: str, computed: Any, given: Any, where: str = "") -> None:
    found = difference(as_json(computed), given, where)
    if found is not None:
        raise CountsDiffer(f"{name}: {found}")
