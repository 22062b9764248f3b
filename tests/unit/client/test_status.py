"""Rounds, what became of its answers, and the local ε, never less than was spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.client import Answer, Device, DeviceRound, DeviceStatus, Reason, Refusal, Unreachable
from hubbub.client.session.rounds import choose_round
from hubbub.client.state.rounds import DONE, StoredSubmission, SubmissionHistory
from hubbub.client.status import Memory, status_of
from hubbub.protos.task.schedule import Schedule, forgotten_after
from hubbub.protos.task.task import Privacy, Task
from support.fake_shuffler import Clock, FakeShuffler
from support.samples import START, Parties, sample_task

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
NOTHING = Memory({}, SubmissionHistory(0, 0, 0), -1, False)

Make = Callable[..., Device]


def answers_of(status: DeviceStatus) -> tuple[Answer | None, Answer | None]:
    return (
        None if status.current is None else status.current.answer,
        None if status.next is None else status.next.answer,
    )


async def test_a_device_tells_its_rounds_and_what_became_of_its_answers(
    device: Make, shuffler: FakeShuffler, clock: Clock, task: Task
) -> None:
    one, offline = device(), device(shuffler="127.0.0.1:1")
    status = one.status()
    assert (status.task, status.task_id, status.waiting, status.opted_out) == (task.name, task.id.hex(), (), False)
    assert status.current == DeviceRound(0, START, START + 3600, START + 3660, Answer.NONE)
    assert status.next == DeviceRound(1, START + 3600, START + 7200, START + 7260, Answer.NONE)
    with pytest.raises(Unreachable):
        await offline.submit(ANSWERS)
    assert answers_of(one.status()) == (Answer.KEPT, Answer.NONE)
    assert one.status().waiting == (0,)
    shuffler.failures.extend([RuntimeError("down")] * 99)
    with pytest.raises(Unreachable):
        await one.resend()
    assert answers_of(one.status()) == (Answer.SEALED, Answer.NONE)
    shuffler.failures.clear()
    await one.resend()
    assert answers_of(one.status()) == (Answer.ACKNOWLEDGED, Answer.NONE)
    assert one.status().waiting == ()


async def test_a_refused_round_names_the_reason(device: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.append(Refusal(Reason.ROUND_FULL, "the round is full"))
    one = device()
    with pytest.raises(Refusal):
        await one.submit(ANSWERS)
    current = one.status().current
    assert current is not None
    assert (current.answer, current.reason) == (Answer.REFUSED, "round_full")
    # It was sealed and sent, so it counts, whatever the shuffler says that it did with it.
    assert one.status().spending.rounds == 1


async def test_the_local_epsilon_of_all_rounds_is_told_also_of_those_that_are_forgotten(
    device: Make, clock: Clock, task: Task
) -> None:
    one = device()
    each = sum(query.mechanism.epsilon_local for query in task.queries)
    spent = []
    for number in range(3):
        clock.now = START + 3600 * number + 1800.0
        spending = one.status().spending
        spent.append((spending.rounds, spending.epsilon_local, spending.epsilon_local_left))
        await one.submit(ANSWERS)
    assert spent == [(number, pytest.approx(each * number), pytest.approx(each * (3 - number))) for number in range(3)]
    clock.now = START + 10**6
    status = one.status()
    assert (status.current, status.next, status.waiting) == (None, None, ())
    assert (status.spending.rounds, status.spending.unsent, status.spending.epsilon_local_left) == (3, 0, 0.0)
    assert device(name="other").status().spending.rounds == 0


async def test_a_round_that_a_clock_set_back_brings_again_is_over(device: Make, clock: Clock) -> None:
    one = device()
    await one.submit(ANSWERS)
    clock.now = START + 3600 * 2.5
    one.status()
    clock.now = START + 100.0
    assert answers_of(one.status()) == (Answer.OVER, Answer.NONE)
    assert one.status().spending.epsilon_local_left == pytest.approx(one.status().spending.epsilon_local_round * 2)


def test_before_the_first_round_it_is_the_next(task: Task) -> None:
    status = status_of(task, NOTHING, START - 10**6)
    assert status.current is None
    assert status.next is not None
    assert status.next.number == 0


def test_what_the_task_promises_is_told_as_it_is(parties: Parties) -> None:
    task = sample_task(parties, privacy=Privacy(epsilon=1.5, delta=1e-7, epsilon_total=4.0))
    status = status_of(task, NOTHING, START + 1.0)
    assert (status.epsilon, status.delta, status.epsilon_total) == (1.5, 1e-7, 4.0)


@given(st.integers(0, 10**5))
def test_local_epsilon_is_never_below_the_exact_sum(task_rounds: int) -> None:
    exact = sum((Fraction(query.mechanism.epsilon_local) for query in TASK.queries), Fraction(0))
    memory = replace(NOTHING, history=SubmissionHistory(task_rounds, task_rounds, 0))
    spending = status_of(TASK, memory, START + 1.0).spending
    assert Fraction(spending.epsilon_local_round) >= exact
    assert exact * task_rounds <= Fraction(spending.epsilon_local) <= exact * task_rounds * (1 + Fraction(1, 2**51))


@given(st.integers(1, 30), st.integers(0, 30), st.floats(-100.0, 2000.0), st.sets(st.integers(0, 29)))
def test_rounds_left_are_those_that_may_still_be_answered(
    length: int, grace: int, elapsed: float, answered: set[int]
) -> None:
    """Checked against the device's own choice of a round, one by one."""
    schedule = Schedule(START, length, grace, 30)
    task = replace(TASK, schedule=schedule)
    now = START + elapsed
    entries = {
        number: StoredSubmission(b"i" * 16, None, DONE)
        for number in answered
        if forgotten_after(schedule, number) >= now
    }
    left = 0
    for number in range(30):
        if number not in entries and now <= forgotten_after(schedule, number):
            assert choose_round(task, number, now) == number
            left += 1
    spending = status_of(task, replace(NOTHING, entries=entries), now).spending
    assert spending.epsilon_local_left == pytest.approx(left * spending.epsilon_local_round)


TASK = sample_task(Parties.generate())
