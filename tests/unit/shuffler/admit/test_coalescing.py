"""Calls of one submission each are answered together, each with its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.shuffler.admit.coalescing import Coalescer
from support.patience import CALL_SECONDS

HERE, THERE = Destination(bytes(32), 0, bytes(32)), Destination(bytes(32), 1, bytes(32))


def submission(number: int) -> Submission:
    return Submission(number.to_bytes(16, "big"), b"sealed")


class Held:
    """Answers what it is brought once it is let: even ids are received, odd ones refused."""

    def __init__(self) -> None:
        self.calls: list[tuple[Destination, int]] = []
        self.let = asyncio.Event()
        self.brought = asyncio.Semaphore(0)

    async def answer_all(self, to: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        self.calls.append((to, len(submissions)))
        self.brought.release()
        await self.let.wait()
        return [answer_to(to, each) for each in submissions]


def answer_to(to: Destination, submission: Submission) -> Answer:
    if submission.id[-1] % 2:
        return Refusal(Reason.UNOPENABLE, str(submission.id[-1]))
    return Receipt(submission.id, to.round)


async def test_calls_of_one_moment_are_brought_together_and_answered_each_its_own() -> None:
    held = Held()
    held.let.set()
    gathering = Coalescer(held.answer_all)
    each = [submission(number) for number in range(20)]
    answers = await asyncio.gather(*(gathering.answer(HERE, one) for one in each))
    assert held.calls == [(HERE, 20)]
    assert [repr(answer) for answer in answers] == [repr(answer_to(HERE, one)) for one in each]


async def test_as_many_as_are_enough_do_not_wait_for_more() -> None:
    held = Held()
    # So long that the test would time out.
    gathering = Coalescer(held.answer_all, seconds=1e6)
    callers = [asyncio.ensure_future(gathering.answer(HERE, submission(0)))]
    await held.brought.acquire()
    # The more are on their way, the more go together.
    for count in (25, 25, 25, 25, 33, 44, 59, 78, 100, 100):
        callers += [asyncio.ensure_future(gathering.answer(HERE, submission(number))) for number in range(count)]
        await held.brought.acquire()
        assert held.calls[-1] == (HERE, count)
    held.let.set()
    await asyncio.gather(*callers)
    assert len(callers) == sum(count for _to, count in held.calls)


async def test_each_round_is_a_call_of_its_own() -> None:
    held = Held()
    held.let.set()
    gathering = Coalescer(held.answer_all)
    answers = await asyncio.gather(
        gathering.answer(HERE, submission(0)),
        gathering.answer(THERE, submission(2)),
        gathering.answer(HERE, submission(4)),
    )
    assert sorted(held.calls, key=lambda call: call[0].round) == [(HERE, 2), (THERE, 1)]
    assert [answer.round for answer in answers if isinstance(answer, Receipt)] == [0, 1, 0]


async def test_nobody_waits_for_what_is_in_work_before() -> None:
    held = Held()
    gathering = Coalescer(held.answer_all, seconds=0.0)
    first = asyncio.ensure_future(gathering.answer(HERE, submission(0)))
    await held.brought.acquire()
    second = asyncio.ensure_future(gathering.answer(HERE, submission(2)))
    await held.brought.acquire()
    held.let.set()
    assert await asyncio.gather(first, second) == [Receipt(submission(0).id, 0), Receipt(submission(2).id, 0)]


async def test_who_goes_away_takes_nothing_from_the_others() -> None:
    held = Held()
    gathering = Coalescer(held.answer_all)
    gone, left = (asyncio.ensure_future(gathering.answer(HERE, submission(number))) for number in (0, 2))
    await held.brought.acquire()
    gone.cancel()
    held.let.set()
    assert await left == Receipt(submission(2).id, 0)
    assert gone.cancelled()
    assert held.calls == [(HERE, 2)]


async def test_what_fails_for_one_fails_for_all_and_those_after_are_answered() -> None:
    held = Held()
    held.let.set()
    failing = True

    async def answer_all(to: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        if failing:
            raise OSError("no process left")
        return await held.answer_all(to, submissions)

    gathering = Coalescer(answer_all)
    calls = [gathering.answer(HERE, submission(number)) for number in range(3)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(error) for error in errors] == ["no process left", *["failed with 2 others: no process left"] * 2]
    failing = False
    assert await gathering.answer(HERE, submission(0)) == Receipt(submission(0).id, 0)


async def test_an_answer_too_few_is_nobodys() -> None:
    async def answer_all(to: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        return [answer_to(to, each) for each in submissions[1:]]

    gathering = Coalescer(answer_all)
    calls = [gathering.answer(HERE, submission(number)) for number in range(3)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, RuntimeError, RuntimeError]


async def test_nobody_waits_where_the_work_is_cancelled() -> None:
    async def answer_all(_to: Destination, _submissions: Sequence[Submission]) -> list[Answer]:
        raise asyncio.CancelledError

    gathering = Coalescer(answer_all)
    calls = [gathering.answer(HERE, submission(number)) for number in range(3)]
    async with asyncio.timeout(CALL_SECONDS):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 3


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_a_call_that_comes_alone_waits_for_nobody(seconds: float) -> None:
    held = Held()
    held.let.set()
    async with asyncio.timeout(CALL_SECONDS):
        assert await Coalescer(held.answer_all, seconds).answer(HERE, submission(0)) == Receipt(submission(0).id, 0)
