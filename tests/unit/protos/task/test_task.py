"""Schedule, symbols, lengths, id."""

import hashlib
import math
import os
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.mechanisms import KRR, RAPPOR
from hubbub.protos.errors import TaskError
from hubbub.protos.identity.keys import CORE_ROLES
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import MAXIMUM_REPORTS, is_large, largest_delta
from hubbub.queries.errors import AnswerError
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from support.krr_queries import INNER_BYTES, krr_query, unary_query
from support.samples import HALF, START, Parties, sample_task

SCHEDULES = st.builds(
    Schedule, st.integers(0, 2**40), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 1000)
)


@given(st.integers(2, MAXIMUM_REPORTS))
def test_the_largest_delta_is_not_large_and_hardly_more_is(reports: int) -> None:
    largest = largest_delta(reports)
    assert not is_large(largest, reports)
    assert is_large(largest * (1 + 1e-15), reports)
    assert largest * reports == pytest.approx(0.1, rel=1e-15)


@given(SCHEDULES, st.integers(0, 999))
def test_rounds_follow_each_other_without_gap(schedule: Schedule, number: int) -> None:
    assert schedule.ends(number) == schedule.opens(number + 1) == schedule.opens(number) + schedule.length
    assert schedule.cut(number) - schedule.ends(number) == schedule.grace
    assert schedule.opens(0) == schedule.start


@given(SCHEDULES, st.integers(-5, 1005), st.floats(0, 1, exclude_max=True))
def test_round_at_is_the_one_whose_time_it_is(schedule: Schedule, number: int, share: float) -> None:
    now = schedule.opens(number) + math.floor(share * schedule.length)
    assert schedule.round_at(now) == (number if 0 <= number < schedule.rounds else None)


def test_round_changes_exactly_at_its_end() -> None:
    schedule = Schedule(START, length=60, grace=5, rounds=2)
    moments = [START - 1e-3, START, START + 59.999, START + 60, START + 119.999, START + 120]
    assert [schedule.round_at(now) for now in moments] == [None, 0, 0, 1, 1, None]


@pytest.mark.parametrize(
    ("query", "answers", "symbols", "no_answer"),
    [
        (krr_query(Histogram("a", ("x", "y", "z")), 1), 3, 3, None),
        (krr_query(Histogram("a", ("x", "y", "z"), optional=True), 1), 3, 4, 3),
        (krr_query(Histogram("a", ("x",), optional=True), 1), 1, 2, 1),
        (krr_query(Number("a", 0.0, 1.0), 1, levels=7), 8, 8, None),
        (krr_query(Number("a", 0.0, 1.0, optional=True), 1, levels=7), 8, 9, 8),
        (krr_query(Number("a", 0.0, 1.0), 1, levels=1), 2, 2, None),
    ],
)
def test_no_answer_is_one_more_symbol_and_the_last(
    query: Query, answers: int, symbols: int, no_answer: int | None
) -> None:
    assert (query.question.answers, query.symbols) == (answers, symbols)
    if no_answer is None:
        with pytest.raises(AnswerError, match="not optional"):
            query.encode(None, os.urandom)
    else:
        assert query.encode(None, os.urandom) == no_answer == query.symbols - 1


def test_gamma_is_the_exact_fraction() -> None:
    mechanism = krr_query(Histogram("a", ("x", "y")), 3).mechanism
    assert isinstance(mechanism, KRR)
    assert mechanism.gamma == Fraction(3, 2**32)


def test_unary_probabilities_are_the_exact_fractions() -> None:
    mechanism = unary_query(Histogram("a", ("x", "y")), 2**32 - 1, 3).mechanism
    assert isinstance(mechanism, RAPPOR)
    assert (mechanism.truthful, mechanism.other) == (Fraction(2**32 - 1, 2**32), Fraction(3, 2**32))


PARTIES = Parties.generate()
TASK = sample_task(PARTIES)


def test_id_is_the_hash_of_the_canonical_bytes() -> None:
    assert TASK.id == hashlib.sha256(TASK.canonical).digest()
    assert len(TASK.id) == 32


def test_every_part_is_in_the_id() -> None:
    query, delay = TASK.queries
    others = [
        replace(TASK, name="other"),
        replace(TASK, minimum_reports=21),
        replace(TASK, schedule=replace(TASK.schedule, start=START + 1)),
        replace(TASK, schedule=replace(TASK.schedule, length=3601)),
        replace(TASK, schedule=replace(TASK.schedule, grace=61)),
        replace(TASK, schedule=replace(TASK.schedule, rounds=4)),
        replace(TASK, schedule=replace(TASK.schedule, close="operator")),
        replace(TASK, privacy=replace(TASK.privacy, epsilon=9.0)),
        replace(TASK, privacy=replace(TASK.privacy, delta=1e-3)),
        replace(TASK, privacy=replace(TASK.privacy, epsilon_local=19.0)),
        replace(TASK, privacy=replace(TASK.privacy, honest_share=0.5)),
        replace(TASK, privacy=replace(TASK.privacy, epsilon_total=3.0)),
        replace(TASK, privacy=replace(TASK.privacy, dummies=1)),
        replace(TASK, queries=(query,)),
        replace(TASK, queries=(delay, query)),
        replace(TASK, queries=(krr_query(query.question, HALF + 1), delay)),
        replace(TASK, queries=(query, krr_query(delay.question, HALF, 8))),
        replace(TASK, queries=(unary_query(query.question, HALF, 1), delay)),
        replace(TASK, queries=(unary_query(query.question, HALF + 1, 1), delay)),
        replace(TASK, queries=(unary_query(query.question, HALF, 2), delay)),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, upper=181.0)))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, unit="hours")))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, optional=False)))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, weight=2.0)))),
        replace(TASK, suite="another"),
        *(
            replace(TASK, identities=replace(TASK.identities, **{role.value: Parties.generate().operator.public}))
            for role in CORE_ROLES
        ),
    ]
    assert len({TASK.id, *(other.id for other in others)}) == len(others) + 1


def test_inner_envelopes_are_as_long_as_the_reports_of_their_randomizers() -> None:
    carrier, delay = (query.question for query in TASK.queries)
    nine = unary_query(delay, HALF, 1, levels=7)
    eight = unary_query(replace(delay, optional=False), HALF, 1, levels=7)
    task = replace(TASK, queries=(krr_query(carrier, HALF), nine, eight, unary_query(carrier, HALF, 1)))
    assert task.inner_bytes == (INNER_BYTES, *(width + DEFAULT.overhead_bytes for width in (2, 1, 1)))
    assert TASK.inner_bytes == (INNER_BYTES, INNER_BYTES)


def test_query_is_found_by_its_name() -> None:
    assert [TASK.query_index(query.name) for query in TASK.queries] == [0, 1]
    with pytest.raises(TaskError, match=r"no query 'speed'; it asks carrier, delay"):
        TASK.query_index("speed")
