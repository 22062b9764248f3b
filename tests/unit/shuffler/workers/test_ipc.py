"""What is asked is answered, in whatever pieces it comes, and fails when the other end is gone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hubbub.service.errors import StoreAwayError, StoreDiskError, StoreError, StoreFault
from hubbub.shuffler.workers.ipc import HEAD, LAST_NUMBER, MOST_BYTES, Answer, ChannelLostError, Frame, IpcChannel


async def nothing(_frame: Frame, _payload: bytes) -> bytes:
    return b""


@asynccontextmanager
async def ends(answer: Answer, lost: Callable[[], None] = lambda: None) -> AsyncIterator[tuple[IpcChannel, IpcChannel]]:
    """One that asks, and one that answers."""
    here, there = socket.socketpair()
    asking, answering = IpcChannel(nothing, lost), IpcChannel(answer, lambda: None)
    loop = asyncio.get_running_loop()
    for channel, end in ((asking, here), (answering, there)):
        end.setblocking(False)
        await loop.create_unix_connection(lambda channel=channel: channel, sock=end)  # type: ignore[misc]
    try:
        yield asking, answering
    finally:
        asking.close()
        answering.close()


async def test_answers_find_who_asked_whichever_comes_first() -> None:
    release = {number: asyncio.Event() for number in range(3)}

    async def answer(_frame: Frame, payload: bytes) -> bytes:
        await release[payload[0]].wait()
        return payload * 2

    async with ends(answer) as (channel, _):
        asked = [asyncio.create_task(channel.ask(Frame.FIND, bytes([number]))) for number in range(3)]
        for number in (2, 0, 1):
            release[number].set()
            assert await asked[number] == bytes([number, number])
        assert channel.waiting == 0


async def test_numbers_begin_again_behind_the_last_and_leave_out_those_that_are_awaited() -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(_frame: Frame, payload: bytes) -> bytes:
        if payload == b"first":
            asked.set()
            await release.wait()
        return payload

    async with ends(answer) as (channel, _):
        first = asyncio.create_task(channel.ask(Frame.KNOWN, b"first"))
        await asked.wait()
        channel._number = LAST_NUMBER - 2
        for number in range(5):
            assert await channel.ask(Frame.KNOWN, bytes([number])) == bytes([number])
        release.set()
        assert await first == b"first"


async def test_what_one_side_sends_first_the_other_begins_first() -> None:
    begun = []

    async def answer(frame: Frame, payload: bytes) -> bytes:
        begun.append((frame, payload))
        return b""

    async with ends(answer) as (channel, _):
        for number in range(100):
            channel.tell(Frame.COUNT, bytes([number]))
        await channel.ask(Frame.INSERT, b"last")
    assert begun == [*((Frame.COUNT, bytes([number])) for number in range(100)), (Frame.INSERT, b"last")]


async def test_megabytes_arrive_whole() -> None:
    async def answer(_frame: Frame, payload: bytes) -> bytes:
        return payload[::-1]

    async with ends(answer) as (channel, _):
        payload = bytes(range(256)) * 20_000
        assert await channel.ask(Frame.INSERT, payload) == payload[::-1]


async def test_a_store_that_cannot_says_why_and_a_fault_does_not(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(frame: Frame, _payload: bytes) -> bytes:
        failures = {Frame.INSERT: StoreDiskError("the disk is full"), Frame.KNOWN: StoreAwayError("no server")}
        raise failures.get(frame, KeyError("a secret"))

    async with ends(answer) as (channel, _):
        with pytest.raises(StoreError, match=r"^the disk is full$") as full:
            await channel.ask(Frame.INSERT)
        with pytest.raises(StoreError, match=r"^no server$") as away:
            await channel.ask(Frame.KNOWN)
        assert (full.value.fault, away.value.fault) == (StoreFault.DISK, StoreFault.DATABASE)
        with pytest.raises(StoreError) as failed:
            await channel.ask(Frame.FIND)
    assert "secret" not in str(failed.value)
    assert "FIND" in caplog.text


async def test_whatever_is_awaited_fails_when_the_other_is_gone() -> None:
    gone, begun = asyncio.Event(), asyncio.Event()

    async def answer(_frame: Frame, _payload: bytes) -> bytes:
        begun.set()
        await asyncio.Event().wait()
        return b""

    async with ends(answer, gone.set) as (channel, other):
        asked = asyncio.create_task(channel.ask(Frame.INSERT, b"x"))
        await begun.wait()
        other.close()
        with pytest.raises(ChannelLostError, match="is gone"):
            await asked
        await gone.wait()
        with pytest.raises(ChannelLostError):
            await channel.ask(Frame.INSERT)
        channel.tell(Frame.COUNT)  # to nobody
        for task in other._in_work:
            task.cancel()


async def test_who_asks_and_leaves_is_no_incident_to_the_answer() -> None:
    release = asyncio.Event()

    async def answer(_frame: Frame, _payload: bytes) -> bytes:
        await release.wait()
        return b"late"

    async with ends(answer) as (channel, _):
        asked = asyncio.create_task(channel.ask(Frame.INSERT))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        release.set()
        assert await channel.ask(Frame.INSERT) == b"late"


async def test_a_frame_beyond_all_measure_ends_the_line(caplog: pytest.LogCaptureFixture) -> None:
    lost = asyncio.Event()
    here, there = socket.socketpair()
    channel = IpcChannel(nothing, lost.set)
    here.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=here)
    with there:
        there.sendall(HEAD.pack(MOST_BYTES + 1, Frame.INSERT, 1))
        await lost.wait()
    assert "a frame of" in caplog.text


@given(some.lists(some.binary(max_size=60), max_size=8), some.data())
def test_frames_come_out_as_they_went_in_wherever_they_are_cut(payloads: list[bytes], data: some.DataObject) -> None:
    raw = b"".join(HEAD.pack(len(each), Frame.COUNT, 0) + each for each in payloads)
    cuts = sorted(data.draw(some.lists(some.integers(0, len(raw)), max_size=6)))
    found = []

    class Taking(IpcChannel):
        def _take(self, frame: Frame, number: int, payload: bytes) -> None:
            found.append((frame, number, payload))

    channel = Taking(nothing, lambda: None)
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        channel.data_received(raw[start:end])
    assert found == [(Frame.COUNT, 0, each) for each in payloads]
