"""A task's derived numbers: schedule, symbols, id."""

import hashlib
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import TaskError
from hubbub.protos.keys import Role
from hubbub.protos.task import Histogram, Query, Schedule, Sum
from support.samples import START, Parties, sample_task

SCHEDULES = st.builds(
    Schedule, st.integers(0, 2**40), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 1000)
)


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
        (Query(Histogram("a", ("x", "y", "z")), 1), 3, 3, None),
        (Query(Histogram("a", ("x", "y", "z"), optional=True), 1), 3, 4, 3),
        (Query(Histogram("a", ("x",), optional=True), 1), 1, 2, 1),
        (Query(Sum("a", 0.0, 1.0), 1, levels=7), 8, 8, None),
        (Query(Sum("a", 0.0, 1.0, optional=True), 1, levels=7), 8, 9, 8),
        (Query(Sum("a", 0.0, 1.0), 1, levels=1), 2, 2, None),
    ],
)
def test_no_answer_is_one_more_symbol_and_the_last(
    query: Query, answers: int, symbols: int, no_answer: int | None
) -> None:
    assert (query.answers, query.symbols, query.no_answer) == (answers, symbols, no_answer)


def test_gamma_is_the_exact_fraction() -> None:
    assert Query(Histogram("a", ("x", "y")), 3).gamma_fraction == Fraction(3, 2**32)


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
        replace(TASK, queries=(replace(query, gamma=query.gamma + 1), delay)),
        replace(TASK, queries=(query, replace(delay, levels=8))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, upper=181.0)))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, unit="hours")))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, optional=False)))),
        replace(TASK, queries=(query, replace(delay, question=replace(delay.question, weight=2.0)))),
        replace(TASK, suite="another"),
        *(
            replace(TASK, identities=replace(TASK.identities, **{role.value: Parties.generate().operator.public}))
            for role in Role
        ),
    ]
    assert len({TASK.id, *(other.id for other in others)}) == len(others) + 1


def test_query_is_found_by_its_name() -> None:
    assert [TASK.query_index(query.name) for query in TASK.queries] == [0, 1]
    with pytest.raises(TaskError, match=r"no query 'speed'; it asks carrier, delay"):
        TASK.query_index("speed")
