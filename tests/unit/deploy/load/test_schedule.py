"""What is due comes as people do, and processes play all of it between them."""

from __future__ import annotations

import json
import math
import random

import pytest

from hubbub.deploy.load.schedule import LoadSchedule, LoadStep, calls_for, devices_for, due

OPEN = LoadStep(rate=1000.0, seconds=20.0)
CLOSED = LoadStep(rate=0.0, seconds=20.0, users=30, think=2.0)


def test_arrivals_are_a_poisson_process() -> None:
    drawn = random.Random(7)
    found = list(due(OPEN, 1, drawn))
    assert found == sorted(found)
    assert found[0] > 0
    assert found[-1] < 20.0
    # Counts of 20,000 such seconds have the mean 1000 and the variance 1000; five standard errors are allowed for.
    seconds = [sum(1 for at in found if int(at) == second) for second in range(20)]
    mean = sum(seconds) / 20
    assert abs(mean - 1000) < 5 * math.sqrt(1000 / 20)
    variance = sum((count - mean) ** 2 for count in seconds) / 19
    assert 200 < variance < 3000


def test_devices_of_a_call_are_due_together() -> None:
    found = list(due(OPEN, 100, random.Random(1)))
    assert abs(len(found) - 200) < 5 * math.sqrt(200)


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize("step", [OPEN, CLOSED])
def test_processes_play_all_of_an_offer_between_them(step: LoadStep, processes: int) -> None:
    (mine,) = LoadSchedule((step,)).share(processes).steps
    assert math.isclose(processes * mine.rate, step.rate)
    assert processes * mine.users >= step.users
    assert (mine.seconds, mine.think) == (step.seconds, step.think)


@pytest.mark.parametrize(("step", "per_call"), [(OPEN, 1), (OPEN, 100), (CLOSED, 1), (CLOSED, 10)])
def test_as_many_devices_are_ready_as_surely_come(step: LoadStep, per_call: int) -> None:
    ready = calls_for(step, per_call)
    for seed in range(20):
        drawn = random.Random(seed)
        if step.rate:
            assert len(list(due(step, per_call, drawn))) <= ready
        else:
            assert _of_users_who_are_answered_at_once(step, drawn) <= ready


def _of_users_who_are_answered_at_once(step: LoadStep, drawn: random.Random) -> int:
    calls = 0
    for _ in range(step.users):
        at = drawn.expovariate(1 / step.think)
        while at < step.seconds:
            calls, at = calls + 1, at + drawn.expovariate(1 / step.think)
    return calls


def test_every_process_has_devices_for_its_share() -> None:
    schedule = LoadSchedule((OPEN, CLOSED), per_call=3)
    for processes in (1, 2, 5):
        share = schedule.share(processes)
        each = sum(3 * calls_for(step, 3) for step in share.steps)
        assert devices_for(schedule, processes) == processes * each


def test_an_offer_is_read_as_it_was_written() -> None:
    schedule = LoadSchedule((OPEN, CLOSED), per_call=3, timeout=2.5)
    assert LoadSchedule.of(json.loads(json.dumps(schedule.content()))) == schedule
