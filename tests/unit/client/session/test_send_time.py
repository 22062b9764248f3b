"""A device sends at a time that is drawn once, uniformly, and says nothing of when it was answered but "before"."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from hubbub.client import Device, NoRound, Recorder, UsageError
from hubbub.client.session.send_time import LOOK_SECONDS, RESERVE_SECONDS, draw_send_time, wait_until
from hubbub.client.state.rounds import RoundRef
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Task
from support.fake_shuffler import Clock, FakeShuffler
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import START

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
HOURLY = Schedule(START, length=3600, grace=600, rounds=3)

Make = Callable[..., Device]


def share(fraction: float) -> Callable[[int], bytes]:
    """Randomness that draws that share of what is left."""
    return lambda count: int(fraction * 2**64).to_bytes(count, "big")


# Drawing


def test_the_moment_is_that_share_of_what_is_left_which_was_drawn() -> None:
    for now, first, last in ((START + 900, START + 900, START + 3600), (START - 5000, START, START + 3600)):
        for fraction in (0.0, 0.25, 0.5, 0.999):
            drawn = draw_send_time(HOURLY, 0, now, share(fraction))
            assert drawn == pytest.approx(first + fraction * (last - first), abs=1e-3)
    assert draw_send_time(HOURLY, 2, START, share(0.5)) == START + 2.5 * 3600
    assert draw_send_time(HOURLY, 0, START, lambda count: b"\xff" * count) <= START + 3600


def test_moments_from_the_operating_system_are_uniform() -> None:
    """Kolmogorov and Smirnov, 20,000 draws: false alarms below 1e-9 (Massart). A tenth left out is seen."""
    draws = 20_000
    drawn = sorted((draw_send_time(HOURLY, 0, START, os.urandom) - START) / 3600 for _ in range(draws))
    distance = max(max((place + 1) / draws - each, each - place / draws) for place, each in enumerate(drawn))
    assert distance < math.sqrt(math.log(2 / 1e-9) / (2 * draws)) < 0.025
    assert max(later - earlier for earlier, later in pairwise(drawn)) < 0.01


@pytest.mark.parametrize("grace", [0, 1, 30, 60, 86_400])
def test_whatever_is_drawn_the_round_still_takes_it_and_tries_have_time(grace: int) -> None:
    schedule = replace(HOURLY, grace=grace)
    for now in (START, START + 1800.5, START + 3590):
        latest = draw_send_time(schedule, 0, now, lambda count: b"\xff" * count)
        left = schedule.cut(0) - latest
        assert now <= latest <= schedule.ends(0)
        assert left >= min(RESERVE_SECONDS, (schedule.cut(0) - now) / 10) - 1e-6


def test_after_a_round_s_end_nothing_is_left_to_draw_from() -> None:
    for now in (START + 3600, START + 3700.5, START + 90_000):
        assert draw_send_time(HOURLY, 0, now, share(0.5)) == now


async def test_a_clock_that_is_set_while_a_moment_is_waited_for_is_looked_at() -> None:
    now, slept = 1000.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds if len(slept) < 3 else 86_400  # the machine sleeps

    assert await wait_until(1000 + 5 * LOOK_SECONDS, lambda: now, sleep)
    assert slept == [LOOK_SECONDS] * 3
    assert not await wait_until(1000.0, lambda: now, sleep)


# Submitting


async def test_submitting_sends_at_once_unless_it_is_told_to_wait(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    before = clock.now
    await device(name="a").submit(ANSWERS)
    assert clock.now == before
    assert (await device(name="b", random=halves(0.5)).submit(ANSWERS, spread=True)).used
    assert clock.now == pytest.approx(before + (START + 3600 - before) / 2, abs=1e-3)
    assert len(shuffler.held) == 2


def halves(fraction: float) -> Callable[[int], bytes]:
    """The operating system's randomness, but for moments, which are the only draws of eight bytes."""
    return lambda count: share(fraction)(count) if count == 8 else os.urandom(count)


async def test_nothing_is_asked_or_sent_before_the_moment_which_stays_the_same_after_a_restart(
    device: Make, shuffler: FakeShuffler, clock: Clock, task: Task
) -> None:
    """Killed while it waits, a device goes on with the same reports, for the same moment."""
    waiting = asyncio.Event()

    async def never(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    first = device()
    first._session.retrying = replace(first._session.retrying, sleep=never)
    running = asyncio.create_task(first.submit(ANSWERS, spread=True))
    await waiting.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    kept = first._state.find(RoundRef(task.id, 0), [""])[""]
    assert kept.send_time is not None
    assert shuffler.fetched == shuffler.seen == []
    again = device()
    receipt = await again.submit({"carrier": "AA"}, spread=True)
    assert not receipt.used
    assert receipt.submission_id == kept.submission_id
    assert clock.now == pytest.approx(kept.send_time)
    assert len(shuffler.held) == 1


async def test_what_waits_for_its_moment_is_resent_then_or_where_somebody_says_so(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    one = device(random=halves(0.5))
    assert one.keep(ANSWERS, spread=True)
    send_time = one.status().current.send_time  # type: ignore[union-attr]
    assert send_time is not None
    assert await one.resend() == []
    assert shuffler.fetched == []
    clock.now = send_time
    assert len(await one.resend()) == 1
    assert one.status().current.send_time is None  # type: ignore[union-attr]
    clock.now = START + 3700.0
    assert one.keep(ANSWERS, spread=True)
    assert await one.resend() == []
    assert len(await one.resend(early=True)) == 1
    assert len(shuffler.held) == 2


async def test_who_submits_without_waiting_sends_what_was_kept_for_later(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    assert one.keep(ANSWERS, spread=True)
    assert not (await one.submit(ANSWERS)).used
    assert len(shuffler.held) == 1


async def test_opting_out_while_a_moment_is_waited_for_sends_nothing(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    one = device(random=halves(0.5))

    async def opt_out(seconds: float) -> None:
        one.opt_out()
        await clock.sleep(seconds)

    one._session.retrying = replace(one._session.retrying, sleep=opt_out)
    with pytest.raises(NoRound, match="erased on this device before they were sent"):
        await one.submit(ANSWERS, spread=True)
    assert shuffler.fetched == shuffler.seen == []


async def test_opting_out_between_two_tries_sends_nothing_more(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    shuffler.failures.extend([RuntimeError("down")] * 2)
    one = device()

    async def opt_out(seconds: float) -> None:
        one.opt_out()
        await clock.sleep(seconds)

    one._session.retrying = replace(one._session.retrying, sleep=opt_out)
    with pytest.raises(NoRound, match="erased"):
        await one.submit(ANSWERS)
    assert (len(shuffler.seen), shuffler.held) == (1, {})


# Recording


async def test_a_recorder_waits_for_the_moment_and_the_next_run_goes_on(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    one = device(random=halves(0.75))
    async with Recorder(one) as recorder:
        recorder.record(ANSWERS)
        assert not await asyncio.to_thread(recorder.flush, 30)
        assert (recorder.counts.kept, recorder.counts.acknowledged) == (1, 0)
    assert shuffler.fetched == []
    current = one.status().current
    assert current is not None
    assert current.send_time is not None
    async with Recorder(device()) as later:
        assert not await asyncio.to_thread(later.flush, 30)
        clock.now = current.send_time
        assert await asyncio.to_thread(later.flush, CALL_SECONDS)
        assert later.counts.acknowledged == 1
    assert len(shuffler.held) == 1


async def test_a_recorder_wakes_by_itself_when_the_moment_comes(device: Make, shuffler: FakeShuffler) -> None:
    """By a clock that goes: the first try finds nothing due, and nobody else asks for a second one."""
    started, loop, submit = time.monotonic(), asyncio.get_running_loop(), shuffler.submit
    sent: asyncio.Future[float] = loop.create_future()

    def clock() -> float:
        return START + 50.0 + time.monotonic() - started

    async def noted(*arguments: Any) -> Any:
        sent.set_result(clock())
        return await submit(*arguments)

    shuffler.submit = noted  # type: ignore[method-assign]
    one = device(random=halves(0.5 / 3550), clock=clock)
    async with Recorder(one) as recorder:
        recorder.record(ANSWERS)
        async with asyncio.timeout(PATIENCE):
            at = await sent
        send_time = one._state.find(RoundRef(one.task.id, 0), [""])[""].send_time
    assert send_time is not None
    assert START + 50.5 <= send_time <= at


def test_whether_to_spread_is_yes_or_no(settings: dict[str, Any]) -> None:
    wrong: Any = "yes"
    with pytest.raises(UsageError, match="spread is of type str; give True or False"):
        Recorder(Device(**settings, shuffler="127.0.0.1:1"), spread=wrong)
