"""Devices that submit one by one are each dealt with once, and counted as a fleet counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from hubbub.client import AnswerError, Device, Refusal, Unreachable
from hubbub.deploy.load.individually import AT_ONCE, submit_individually
from hubbub.protos.refusals import Reason

FAILURES: dict[str, Exception] = {
    "3": Refusal(Reason.ID_CONFLICT, "once a round"),
    "4": AnswerError("no such answer"),
    "5": Refusal(Reason.ID_CONFLICT, "twice"),
}


class FakeDevices:
    """Makes devices that note who submits, how many at a time, and fail as they are told."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        self.failures, self.came = failures, list[tuple[str, int]]()
        self.connected = self.most = 0

    def device(self, name: str) -> Device:
        users = self

        class Fake:
            async def __aenter__(self) -> Fake:
                users.connected += 1
                users.most = max(users.most, users.connected)
                return self

            async def __aexit__(self, *_: object) -> None:
                users.connected -= 1

            async def submit(self, answers: dict[str, Any], round_number: int) -> None:
                await asyncio.sleep(0)
                users.came.append((answers["name"], round_number))
                if name in users.failures:
                    raise users.failures[name]

        return cast(Device, Fake())

    async def come(self, count: int, progress: Callable[[int], None]) -> Any:
        answers = ((str(number), {"name": str(number)}) for number in range(count))
        return await submit_individually(answers, self.device, 7, progress)


async def test_each_device_comes_once_and_refusals_are_counted_by_reason() -> None:
    users, dealt = FakeDevices(FAILURES), list[int]()
    summary = await users.come(50, dealt.append)
    assert sorted(users.came) == sorted((str(number), 7) for number in range(50))
    assert (users.most, users.connected, len(dealt)) == (AT_ONCE, 0, 50)
    assert (summary.accepted, dict(summary.refused)) == (47, {"id_conflict": 2, "bad_answer": 1})
    assert summary.messages == {"id_conflict": "once a round", "bad_answer": "no such answer"}


async def test_a_shuffler_that_cannot_be_reached_ends_it_with_one_error() -> None:
    with pytest.raises(Unreachable, match="gone"):
        await FakeDevices({"9": Unreachable("gone")}).come(50, lambda _: None)
