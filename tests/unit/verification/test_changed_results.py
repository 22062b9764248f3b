"""Every number that a file of results states is changed in its last digit, in its sign and in its type, and refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from unit.verification.test_results import _numbers, _put, checked, documents, results_of

import hubbub.verification.results
from hubbub.accountant.certificate.terms import RoundCounts
from hubbub.analyzer.records import History, ReceivedBatch, counted_of
from hubbub.analyzer.results import results_of as results_of_history
from hubbub.deploy.operator.lookup import decoded
from hubbub.protos.identity.documents import canonical
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.counts import DIGEST, counts_digest
from hubbub.protos.records.release_chain import position_after
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.records.results_document import results_document, series_document
from hubbub.protos.records.significant_digits import (
    CHANCE,
    CHANCE_NOISE,
    IN_ONE_UNIT,
    NOISE,
    follows,
    in_digits,
    size_of,
)
from hubbub.protos.records.sums import sums_of
from hubbub.protos.strict_json import as_json
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import bits_of
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import symbols_of
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.texts.text import DIGESTS, Text
from hubbub.verification.certificate import Pins, VerificationError, verify
from hubbub.verification.first_difference import difference
from hubbub.verification.results import RecomputedResults
from hubbub.verification.results_files import read_every
from support.certificates import content_of, counts, encode
from support.samples import START, sample_task
from support.source_tree import ROOT
from vectors.make_kinds import DEVICES, EIGHTH, KINDS, MINIMUM, WORDS
from vectors.make_signed import PARTIES

Place = tuple[Any, ...]

SUM = Number("income", -1e9, 1e9, "euro", optional=True)
FLOORS = Number("floors", 0.0, 1e7, "steps", digits=3)
THEME = Histogram("theme", ("light", "dark", "none"))
RARE = Histogram("rare", ("a", "b"))
DUMMIES, WITHHELD = 40, 50


@cache
def several() -> RoundResults:
    """A round of several queries with dummies: a sum of a large range, one by digits, and one that is withheld."""
    plain = (SUM, *bits_of(FLOORS), THEME, RARE)
    queries = tuple(
        Query(question, KRandomizedResponse(7 if question is SUM else symbols_of(question), EIGHTH), levels=5)
        if question is SUM
        else Query(question, KRandomizedResponse(symbols_of(question), EIGHTH))
        for question in map(_stepped, plain)
    )
    task = _task("several", queries)
    random = Random("several").randbytes
    valid = [DEVICES - 2, DEVICES, DEVICES - 1, DEVICES, DEVICES, WITHHELD]
    reports = [
        b"".join(
            query.randomizer.randomize(device % 3 % query.randomizer.symbols, random)
            for device in range(number + DUMMIES)
        )
        for query, number in zip(queries, valid, strict=True)
    ]
    return _round(task, valid, reports, DUMMIES)


def _stepped(question: Any) -> Any:
    return question.sized(6) if question is SUM else question


def _task(name: str, queries: tuple[Query, ...]) -> Task:
    privacy = Privacy(epsilon=20.0, delta=1e-2, epsilon_local=60.0, epsilon_total=200.0, dummies=DUMMIES)
    schedule = Schedule(START, length=3600, grace=60, rounds=2)
    return sample_task(PARTIES, name=name, minimum_reports=MINIMUM, schedule=schedule, queries=queries, privacy=privacy)


def _round(task: Task, valid: list[int], reports: list[bytes], dummies: int) -> RoundResults:
    batches = [
        _batch(task, place, good, query.randomizer.tally(sent).counts.astype("<i8").tobytes(), dummies)
        for place, (query, good, sent) in enumerate(zip(task.queries, valid, reports, strict=True))
    ]
    history: History = [(0, batches)]
    counted = [counted_of(task, batch) for batch in batches]
    content = content_of(task, PARTIES, [_counts(task, valid)])
    content[DIGEST] = counts_digest(task, 0, counted).hex()
    number = RoundId(task.id, task.name, 0)
    return RoundResults(number, results_of_history(task, history), encode(content, PARTIES), sums_of(task, counted))


def _batch(task: Task, place: int, valid: int, counted: bytes, dummies: int) -> ReceivedBatch:
    record = BatchRecord(
        *(BatchId(task.id, 0, place), DEVICES, bytes(32), bytes(32), "schedule"),
        dummies=dummies,
        admission=task.admission.mode.value,
        position=position_after(task.id, ()),
    )
    committed = Committed(valid, _left_out(valid))
    arrived = DEVICES + dummies
    document = record.signed_by(PARTIES.shuffler)
    return ReceivedBatch(record.batch, document, DEVICES, dummies, bytes(32), arrived, committed, counted)


def _left_out(valid: int) -> dict[str, int]:
    return {"unopenable": DEVICES - valid} if valid < DEVICES else {}


def _counts(task: Task, valid: list[int]) -> RoundCounts:
    stated = counts(task, 0, DEVICES)
    queries = (
        replace(query, valid=good, left_out=_left_out(good)) for query, good in zip(stated.queries, valid, strict=True)
    )
    return replace(stated, queries=tuple(queries))


CASES = [*KINDS, "looked-up", "several"]


def case(name: str) -> list[dict[str, Any]]:
    """The files of results of all rounds; the last one is changed."""
    if name == "looked-up":
        return documents([decoded(results_of("text")[0], WORDS)])
    return documents([several()] if name == "several" else results_of(name))


def neighbors(value: float) -> Iterator[float]:
    """The numbers that differ by one in the last digit that JSON has of it, and a whole one also by a thousandth."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    steps = {Decimal(10) ** min(exponent, 0)} | ({Decimal("0.001")} if float(value).is_integer() else set())
    yield from (float(Decimal(repr(value)) + side * step) for step in sorted(steps) for side in (1, -1))


@pytest.fixture
def computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates depend on what was counted alone, which stays, so that each is computed once."""
    known: dict[Any, Any] = {}
    plain = Query.estimates_over

    def estimates_over(query: Query, number: int, batches: Any) -> Any:
        key = query.name, number, tuple((place, batch.tally.written()) for place, batch in batches.items())
        if key not in known:
            known[key] = plain(query, number, batches)
        return known[key]

    monkeypatch.setattr(Query, "estimates_over", estimates_over)
    read: dict[bytes, Any] = {}
    certified = hubbub.verification.results.read_certified
    monkeypatch.setattr(
        hubbub.verification.results,
        "read_certified",
        lambda content: read[content] if content in read else read.setdefault(content, certified(content)),
    )


def changed_numbers(document: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Every number of a file of results but for its certificate's, and what it is changed to."""
    for path in _numbers({name: member for name, member in document.items() if name != "certificate"}):
        value = at(document, path)
        if type(value) is bool:
            yield from ((path, other) for other in (not value, int(value), str(value)))
        elif type(value) is int:
            yield from ((path, other) for other in (value + 1, value - 1, float(value), str(value), value == 1, None))
        else:
            yield from ((path, other) for other in neighbors(value))
            yield from ((path, other) for other in ([] if value == 0 else [-value]))
            yield from ((path, other) for other in (str(value), None, value > 0.5, [value]))


def at(document: Any, path: Place) -> Any:
    for key in path:
        document = document[key]
    return document


@pytest.mark.slow
@pytest.mark.sampled("several", "looked-up", "grouped", "digits", "noise", "longitudinal-sampled")
@pytest.mark.usefixtures("computed_once")
@pytest.mark.parametrize("name", CASES)
def test_every_number_changed_by_its_last_digit_its_sign_or_its_type_is_refused(name: str) -> None:
    *before, last = case(name)
    assert all(isinstance(each, RecomputedResults) for each in checked([*before, last]))
    tried, accepted = 0, []
    for path, other in changed_numbers(last):
        found = checked([*before, _put(last, path, lambda _, other=other: other)])
        tried += 1
        if all(isinstance(each, RecomputedResults) for each in found):
            accepted.append((path, at(last, path), other))
    assert accepted == []
    assert tried >= 50


def test_a_false_number_beside_a_sum_of_a_large_range_is_named_with_what_follows() -> None:
    """One tolerance for all members accepted any number of people and a negative error beside such a sum."""
    (document,) = case("several")
    answered = document["queries"][0]["answered"]
    for member, value in (("estimate", 987.98), ("standard_error", -499.0), ("simultaneous_upper", 121.0)):
        problem = refusal(_put(document, ("queries", 0, "answered", member), lambda _, value=value: value))
        expected = f"income: answered.{member} does not follow from the counts: it is {value}, but {answered[member]} "
        assert expected in problem


def test_each_round_of_a_series_is_a_file_of_results_whose_times_are_checked() -> None:
    """`hubbub results --all --json` adds when a round began and ended."""
    (document,) = as_json(series_document([several()])["rounds"])
    (file,) = read_every(Path("one.json"), json.dumps(document).encode())
    assert {"round_begins", "round_ends"} <= file.document.keys()
    (found,) = checked([document])
    assert isinstance(found, RecomputedResults)
    for name, other in (("round_begins", document["round_ends"]), ("round_ends", None), ("round_ends", "tomorrow")):
        assert f"{name} is {other!r}, but '{document[name]}' follows from the task" in refusal(document | {name: other})


def refusal(document: dict[str, Any]) -> str:
    (found,) = checked([document])
    assert isinstance(found, VerificationError)
    return str(found)


@pytest.mark.parametrize(
    ("path", "change", "problem"),
    [
        (("queries", 0, "sum", "estimate"), None, "the member 'estimate' is missing"),
        (("queries", 0, "sum", "more"), 1, "income: sum: the member 'more' is one too many"),
        (("queries", 0, "mean"), None, "income: the member 'mean' is missing"),
        (("queries", 0, "tally", "more"), 1, "income: tally: the member 'more' is one too many"),
        (("queries", 0, "valid"), None, "a query: the member 'valid' is missing"),
        (("queries", 0, "valid"), 118.0, "income: valid must be a whole number, but is 118.0"),
        (("queries", 0, "valid"), True, "income: valid must be a whole number, but is True"),
        (("queries", 0, "left_out", "unopenable"), "2", "left_out.unopenable must be a whole number, but is '2'"),
        (("queries", 0, "left_out", "unopenable"), -2, "left_out.unopenable must not be negative, but is -2"),
        (("queries", 0, "state"), 1, "state must be published or withheld, but is 1"),
        (("queries", 0, "tally", "rounds"), [0.0], "tally.rounds[0] must be a whole number, but is 0.0"),
        (("queries", 5, "tally"), {"counts": "", "rounds": []}, "it has no numbers, but the member 'tally' is one too"),
        (("queries", 5, "sum"), {}, "rare: it is withheld, so it has no numbers, but the member 'sum' is one too many"),
        (("round",), False, "round does not follow from the counts: it is False, but 0 follows"),
        (("task", "more"), 1, "task: the member 'more' is one too many"),
        (("sums", 0, "queries"), ["floors-bit-1"], "queries does not follow from the counts: it has 1 members, but 3"),
        (("sums", 0, "sum", "standard_error"), "1", "sum.standard_error does not follow from the counts: it is '1'"),
        (("sums", 0, "more"), 1, "floors: the member 'more' is one too many"),
    ],
)
def test_members_of_another_type_missing_or_one_too_many_are_named(path: Place, change: Any, problem: str) -> None:
    (document,) = case("several")
    changed: Any = json.loads(json.dumps(document))
    if change is None:
        del at(changed, path[:-1])[path[-1]]
    else:
        at(changed, path[:-1])[path[-1]] = change
    assert problem in refusal(changed)


def test_rows_in_another_order_are_refused() -> None:
    (document,) = case("several")
    document["queries"][4]["counts"].reverse()
    assert "theme: counts[0]." in refusal(document)
    document["queries"][4]["counts"].reverse()
    document["queries"].reverse()
    assert "are of queries rare" in refusal(document)


def test_numbers_that_cannot_be_computed_again_have_the_form_of_numbers() -> None:
    """What was found by prefixes needs the tables of several rounds, and all the same no error is negative."""
    question = Text("drink", prefixes=(2,))
    query = Query(question, HashedResponse(DIGESTS + 1, 64, 8, EIGHTH))
    random = Random("prefixes").randbytes
    sent = b"".join(
        query.randomize(question.symbol(question.said(WORDS[0], 0), 0), random) for _ in range(DEVICES + DUMMIES)
    )
    (document,) = documents([_round(_task("prefixes", (query,)), [DEVICES], [sent], DUMMIES)])
    (stated,) = document["queries"]
    row = {"category": "te…", "at": 0.0, "estimate": 5.0, "standard_error": 2.0, "lower": 1.0, "upper": 9.0}
    stated |= {"beginnings": [row], "notes": ["of 1 looked up, 1 is listed"]}
    (found,) = checked([document])
    assert isinstance(found, RecomputedResults)
    assert list(found.left) == ["drink"]
    for member, value, problem in (
        ("standard_error", -2.0, "beginnings[0].standard_error must not be negative, but is -2.0"),
        ("estimate", "5", "beginnings[0].estimate must be a number, but is '5'"),
        ("upper", True, "beginnings[0].upper must be a number, but is True"),
        ("lower", 11.0, "beginnings[0].lower is 11.0, above upper, 9.0"),
    ):
        assert problem in refusal(_put(document, ("queries", 0, "beginnings", 0, member), lambda _, v=value: v))
    for member, value in (("simultaneous_upper", 1e9), ("simultaneous_lower", -1.0)):
        problem = refusal(_put(document, ("queries", 0, "answered", member), lambda _, v=value: v))
        assert "there are from 0 to 120 people" in problem


def test_every_number_of_the_certificate_changed_by_its_last_digit_is_refused() -> None:
    certificate = results_of("top")[-1].certificate
    verify(certificate, Pins())
    document = json.loads(certificate)
    paths = _numbers(document)
    assert len(paths) >= 40
    for path in paths:
        value = at(document, path)
        others = [not value] if type(value) is bool else [value + 1] if type(value) is int else neighbors(value)
        for other in others:
            changed = canonical(_put(document, path, lambda _, other=other: other))
            with pytest.raises(VerificationError):
                verify(changed, Pins())


# Digits


ROW = {"estimate": 1234.56789012345, "standard_error": 0.000123456789, "lower": 0.0, "upper": 99.99999999999, CHANCE: 1}


def test_the_numbers_of_a_row_have_one_last_place_and_a_chance_its_own() -> None:
    assert in_digits({"counts": [{**ROW, CHANCE: 4.658506441720158e-203}], "range": [0.1234567890123, 1.0]}) == {
        "counts": [
            {
                "estimate": 1234.56789,
                "standard_error": 0.00012,
                "lower": 0.0,
                "upper": 100.0,
                CHANCE: 4.65851e-203,
            }
        ],
        "range": [0.1234567890123, 1.0],
    }


@pytest.mark.parametrize("value", [0.0, 1e-300, 0.1, 999.9999999999, 1e3, 123456789012.0, 1.7e308, 2.0**53])
def test_what_is_stated_follows_from_what_it_was_rounded_from_on_any_machine(value: float) -> None:
    row = {"estimate": value, "standard_error": None}
    stated = in_digits(row)["estimate"]
    for other in (value, value * (1 + 3e-16), math.nextafter(value, 0)):
        assert follows(stated, other, size_of({**row, "estimate": other}, "estimate"), "estimate")
    for wrong in (math.nan, math.inf, -math.inf, -stated if stated else 1.0, stated + max(abs(value) * 1e-8, 1e-323)):
        assert not follows(wrong, value, abs(value), "estimate")


@pytest.mark.parametrize(("value", "size"), [(0.0, 500.0), (3.0, 500.0), (1e-300, 1e-300), (487.25, 500.0)])
@pytest.mark.parametrize("share", [NOISE / 3, -NOISE / 3, CHANCE_NOISE / 3])
def test_more_digits_than_are_stated_do_not_follow(value: float, size: float, share: float) -> None:
    name = CHANCE if size < 1 else "estimate"
    assert follows(value, value, size, name)
    assert not follows(value + size * share, value, size, name)


def test_where_two_roundings_are_as_near_both_follow_and_no_other() -> None:
    middle = 1.000000005
    for stated, right in ((1.00000000, True), (1.00000001, True), (0.99999999, False), (1.00000002, False)):
        assert follows(stated, middle, 1.0, "estimate") is right
    assert not follows(1.00000001, 1.00000000499, 1.0, "estimate")


def test_the_room_of_a_row_is_that_of_its_own_largest_number() -> None:
    computed = {"a": {**ROW, "estimate": 5.25}, "b": {**ROW, "upper": 1e12}}
    stated = in_digits(computed)
    assert difference(computed, stated) is None
    for name in IN_ONE_UNIT[:4]:
        other = _put(stated, ("a", name), lambda value: value + 1e-5)
        assert f"a.{name} does not follow" in str(difference(computed, other))


def test_the_shipped_example_states_no_more_digits_than_can_be_checked() -> None:
    document = json.loads((ROOT / "docs" / "examples" / "commute" / "results.json").read_text())
    for query in document["queries"]:
        assert in_digits(query) == query


def test_results_are_stated_in_digits() -> None:
    for query in results_document(several())["queries"]:
        assert in_digits(query) == query
