"""The protocol between the main process and a worker, over a socket.

Either side sends requests, and the other answers. A frame has its length, its kind, and the number that matches an
answer to its request. Frames are plain records and messages; reading them runs no code.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import cast

from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError, StoreFault, parted

HEAD = struct.Struct(">IBI")
"""The header of a frame: the number of bytes that follow, its kind, and its number; 0 if no answer is awaited."""

LAST_NUMBER = 2**32 - 1
"""The largest number of a frame; 1 follows it. A busy channel reaches it within days."""

MOST_BYTES = 256 * 1024 * 1024
"""The longest frame: more than the largest call of devices, opened."""

CLEAR_BYTES = 64 * 1024
"""Bytes that may wait on a channel that counts as clear, in addition to the socket's buffer."""

_LOG = logging.getLogger(__name__)


class Frame(IntEnum):
    """The kind of a frame: an answer, a request or message of a worker, or one of the main process, in this order."""

    ANSWER = 0
    FAILED = 1
    """Instead of an answer: the error, as its `StoreFault`, a space, and its text."""
    FIND = 2
    KNOWN = 3
    INSERT = 4
    COUNT = 5
    REDEEM = 6
    SERVING = 7
    """The ports are open, or the reason why they are not."""
    REPORT = 8
    """The worker's incidents and metrics."""
    ADMITTED = 9
    """The admitted credentials: requested once, and sent when they change."""
    INCIDENTS = 10
    """The kinds of parts with incidents, and whether there is memory for more submissions."""
    STOP = 11
    TASKS = 12
    """Tasks of the feed: all, if a worker asks, and each that changes."""
    FEED = 13
    """Entries of the feed from a number on, which a worker asks for."""


Answer = Callable[[Frame, bytes], Awaitable[bytes]]
"""Answers the other side's requests, and takes its messages."""


class ChannelLostError(StoreError):
    """The other process is gone or failed; the request may be done or not, and may be repeated."""

    def __init__(self, text: str, fault: StoreFault = StoreFault.PROCESS) -> None:
        super().__init__(text)
        self.fault = fault


class IpcChannel(asyncio.Protocol):
    """One end of the socket. `answer` gets what arrives, in order; `lost` is called once the other end is gone."""

    def __init__(self, answer: Answer, lost: Callable[[], None]) -> None:
        self._answer, self._lost = answer, lost
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._number = 0
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._in_work: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """The number of answers that are awaited."""
        return len(self._asked)

    @property
    def clear(self) -> bool:
        """Whether the other side reads what is sent; if not, messages without an answer should wait."""
        return self._transport is not None and self._transport.get_write_buffer_size() <= CLEAR_BYTES

    async def ask(self, frame: Frame, payload: bytes = b"") -> bytes:
        """Return the other side's answer. The frame is sent before the first wait.

        Raises:
            ChannelLostError: if the other side failed, or is gone.
        """
        number = self._next_number()
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[number] = answered
        try:
            self._send(frame, number, payload)
            return await answered
        finally:
            self._asked.pop(number, None)

    def _next_number(self) -> int:
        """Return a number without a waiting caller: an answer may be awaited while the other side is suspended."""
        while True:
            self._number = self._number % LAST_NUMBER + 1
            if self._number not in self._asked:
                return self._number

    def tell(self, frame: Frame, payload: bytes = b"") -> None:
        """Send a message without an answer; does nothing if the other side is gone."""
        if self._transport is not None:
            self._send(frame, 0, payload)

    def close(self) -> None:
        """Close the socket once everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, frame: Frame, number: int, payload: bytes) -> None:
        if self._transport is None:
            raise ChannelLostError("the other process of the shuffler is gone; try again")
        self._transport.write(HEAD.pack(len(payload), frame, number) + payload)

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # A cast, since uvloop's transports are no subclass of `asyncio.Transport`.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Split the bytes into frames, and take each."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= HEAD.size:
            length, kind, number = HEAD.unpack_from(self._buffer, start)
            if length > MOST_BYTES:
                _LOG.error("a frame of a worker is too long: %s", length)
                self.close()
                return
            end = start + HEAD.size + length
            if len(self._buffer) < end:
                break
            self._take(Frame(kind), number, bytes(self._buffer[start + HEAD.size : end]))
            start = end
        del self._buffer[:start]

    def connection_lost(self, _error: Exception | None) -> None:
        """Fail every awaited answer."""
        self._transport = None
        for answered in self._asked.values():
            if not answered.done():
                answered.set_exception(ChannelLostError("the other process of the shuffler is gone; try again"))
        self._lost()

    def _take(self, frame: Frame, number: int, payload: bytes) -> None:
        if frame is Frame.ANSWER or frame is Frame.FAILED:
            answered = self._asked.get(number)
            # The caller may be gone.
            if answered is not None and not answered.done():
                self._give(answered, frame, payload)
            return
        # Tasks start in the order of arrival, so work begins in the order in which the other side sent it.
        task = asyncio.get_running_loop().create_task(self._work(frame, number, payload))
        self._in_work.add(task)
        task.add_done_callback(self._in_work.discard)

    @staticmethod
    def _give(answered: asyncio.Future[bytes], frame: Frame, payload: bytes) -> None:
        if frame is Frame.ANSWER:
            answered.set_result(payload)
        else:
            answered.set_exception(_failure(payload))

    async def _work(self, frame: Frame, number: int, payload: bytes) -> None:
        try:
            kind, answer = Frame.ANSWER, await self._answer(frame, payload)
        except HubbubError as error:
            fault = error.fault if isinstance(error, StoreError) else StoreFault.STORE
            kind, answer = Frame.FAILED, f"{fault} {error}".encode()
        except Exception:
            _LOG.exception("%s of the other process failed", frame.name)
            kind, answer = Frame.FAILED, f"{StoreFault.STORE} it failed; see the log of the shuffler".encode()
        if number and self._transport is not None:
            self._send(kind, number, answer)


def _failure(payload: bytes) -> ChannelLostError:
    fault, text = parted(payload.decode("utf-8", "replace"))
    return ChannelLostError(text, fault or StoreFault.PROCESS)
