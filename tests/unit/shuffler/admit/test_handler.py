"""Which submissions are answered together, and what is timed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.sealing.envelope import Destination
from hubbub.shuffler.admit.handler import DeviceHandler

HERE = Destination(bytes(32), 0, bytes(32))


class Noting:
    """An admission that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bytes | None]] = []

    async def submit(
        self, _to: Destination, submissions: Sequence[Submission], shown: bytes | None = None
    ) -> list[Answer]:
        self.asked.append((len(submissions), shown))
        if not submissions[0].envelope:
            raise RuntimeError("an error in the middle")
        return [Receipt(each.id, 0) for each in submissions]


def submissions(count: int) -> list[Submission]:
    return [Submission(bytes([number]) * 16, b"sealed") for number in range(count)]


def handler(admission: Any, seconds: list[float]) -> DeviceHandler:
    return DeviceHandler(admission, None, seconds.append)  # type: ignore[arg-type]  # nobody brings a ticket


async def test_single_submissions_of_one_moment_are_answered_together_and_each_is_timed() -> None:
    admission, seconds = Noting(), list[float]()
    one = handler(admission, seconds)
    found = await asyncio.gather(*(one.submit(HERE, [each]) for each in submissions(3)))
    assert found == [[Receipt(each.id, 0)] for each in submissions(3)]
    assert admission.asked == [(3, None)]
    assert len(seconds) == 3
    assert min(seconds) >= 0


async def test_calls_of_several_submissions_go_alone() -> None:
    admission, seconds = Noting(), list[float]()
    one = handler(admission, seconds)
    await asyncio.gather(one.submit(HERE, submissions(2)), one.submit(HERE, submissions(2)))
    assert admission.asked == [(2, None), (2, None)]
    assert len(seconds) == 2


async def test_who_shows_a_certificate_is_answered_alone_and_by_it() -> None:
    admission, seconds = Noting(), list[float]()
    one = handler(admission, seconds)
    await asyncio.gather(*(one.showing(bytes([number])).submit(HERE, submissions(1)) for number in range(2)))
    assert sorted(admission.asked) == [(1, b"\0"), (1, b"\1")]
    assert len(seconds) == 2


async def test_what_fails_is_timed_too() -> None:
    seconds = list[float]()
    with pytest.raises(RuntimeError):
        await handler(Noting(), seconds).submit(HERE, [Submission(bytes(16), b"")] * 2)
    assert len(seconds) == 1
