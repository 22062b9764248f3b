"""How many calls a port has room for, those whose message is still on its way and those in work.

Whoever opens a call and does not send its message holds a slot for a few seconds at most, and loses it sooner where
others need it: the connection that holds most of them gives up its oldest. So one that never ends its messages takes
nothing from those that do, and what a port holds of unfinished messages is bounded, whatever it is sent.

Bytes in work, and those of answers until they are taken, are shared among connections: one holds at most as much as is
left for all others, and whoever holds nothing may always make a small call.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES

T = TypeVar("T")

RETRY_SECONDS = 1.0
"""When a call that found no slot may be made again."""

FEWEST_UNFINISHED = 16
MOST_UNFINISHED = 1024
"""Calls at once whose message is not whole, however much memory there is."""

LOOK_SECONDS = 0.05
"""How often the memory is looked at while more calls are waited for than would fit if all were of the largest size."""

SHARE = 8
"""Calls on their way that a connection may have before it is the first to lose one: as many as a gateway makes."""

SMALL_BYTES = 64 * 1024
"""A message that finds room where larger ones, which leave an eighth of it free, find none."""

ANSWER_BYTES = 16 * 1024
"""What a call holds beside its answer until that is taken."""

MOST_WAITING = 1024
"""Calls of each kind of caller at once that wait for what is not there yet; they do no work meanwhile."""

PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0
"""How long a call that was refused for what it is waits for that answer, for each such call of its connection that
waits; and at most. To refuse takes nearly as much work as to take, and who sends such calls does not need them soon."""

MOST_PAUSING = 1024
"""Calls at once that wait for such an answer; more are answered at once."""

RISE_BYTES = 1024 * 1024
"""How much a second the process may grow by what else it does, and it is not taken for messages that are not whole."""


class PortLimit(StrEnum):
    """A limit of a port, which calls are refused by."""

    UNFINISHED = "unfinished"
    """The message was not whole in time."""
    EVICTED = "evicted"
    """The message was not whole when others needed its slot."""
    CALLS = "calls"
    """As many calls were in work as may be."""
    BYTES = "bytes"
    """The messages in work held as many bytes as may be."""
    UNREAD = "unread"
    """The answers that the connection did not take yet held more bytes than are left for others."""
    MEMORY = "memory"
    """The process held as much memory as it may."""
    CONNECTIONS = "connections"
    """All connections were taken; counted once a second while they are, as gRPC does not say what it closed."""
    SIZE = "size"
    """The message was larger than its call needs."""
    COUNT = "count"
    """The message held more elements than it may."""
    COMPRESSED = "compressed"
    """The message was compressed."""
    PEER = "peer"
    """The caller's certificate is not one that the port answers."""
    ADDRESS = "address"
    """One address had as many connections as it may; of the HTTPS port, as gRPC does not tell them apart."""
    HTTP = "http"
    """What came was no call by HTTP: another path, method or type, or headers that are not taken; of the HTTPS port."""


@dataclass(frozen=True)
class PortLimits:
    """What a port has room for."""

    calls: int = 4096
    """Calls in work at once: of everybody together, or of each kind of caller where certificates tell them apart."""
    message_bytes: int = 64 * 1024 * 1024
    """Bytes of the messages in work; and how much the process may grow by those that are not whole yet."""
    unfinished_seconds: float = 5.0
    """How long a call's message may take to be whole."""
    largest: int = MAXIMUM_MESSAGE_BYTES
    """Bytes of the largest message of any call."""
    connections: int | None = None
    """Connections at once, which gRPC holds to (`service.transport.grpc_server`); None where it is not known."""

    @property
    def unfinished(self) -> int:
        """Calls at once whose message is not whole that fit, even if each were of the largest size."""
        return min(MOST_UNFINISHED, max(FEWEST_UNFINISHED, self.message_bytes // self.largest))


def _unknown() -> int:
    return 0


class AdmissionControl:
    """The slots of one port, in one event loop. `refused` counts by limit what found none.

    `held` gives the bytes of memory that the process holds, 0 where that is not known. gRPC does not say how much it
    has of a message that is not whole: so more are waited for than would surely fit, as long as memory does not grow.
    """

    def __init__(self, limits: PortLimits, held: Callable[[], int] = _unknown) -> None:
        self.limits = limits
        self.refused: Counter[PortLimit] = Counter()
        self._held = held
        self._fit = limits.unfinished
        self._held_before, self._looked = math.inf, -math.inf
        self._looking = False
        # All of them from the oldest on, with their connections; and how many each connection has.
        self._unfinished: dict[asyncio.Timeout, str] = {}
        self._of: dict[str, int] = {}
        self._evicted: set[asyncio.Timeout] = set()
        self._pausing: dict[str, int] = {}
        self._in_work: Counter[str] = Counter()
        self._bytes = self._received = 0
        self._bytes_of: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """Calls whose message is not whole."""
        return len(self._unfinished)

    @property
    def in_work(self) -> int:
        """Calls in work."""
        return self._in_work.total()

    async def read_message(self, connection: str, read: Callable[[], Awaitable[T]]) -> T:
        """Return what `read` gives, a call's message, of that connection; `read` is cancelled at the deadline.

        Raises:
            Refusal: OVERLOADED, if it took too long, or others needed the slot.
        """
        clock = asyncio.timeout(self.limits.unfinished_seconds)
        try:
            async with clock:
                self._wait(connection, clock)
                try:
                    return await read()
                finally:
                    self._stop_waiting(clock)
        except TimeoutError:
            limit = PortLimit.EVICTED if clock in self._evicted else PortLimit.UNFINISHED
        finally:
            self._evicted.discard(clock)
        # Outside of the handler above: a refusal that knew the timeout would keep its frames, and what they hold.
        if limit is PortLimit.EVICTED:
            raise self.refusal(limit, "the message was not whole when others needed its slot")
        seconds = self.limits.unfinished_seconds
        raise self.refusal(limit, f"the message was not whole after {seconds:g} s, as it has to be")

    def receive(self, size: int) -> None:
        """Count bytes of messages that are not whole, where the port knows them; what is let go is below 0.

        Above what may be held, who has waited longest gives up.
        """
        self._received += size
        if size > 0 and self._received > self.limits.message_bytes and self._unfinished:
            self._evict()

    def _wait(self, connection: str, clock: asyncio.Timeout) -> None:
        waiting = len(self._unfinished)
        if waiting < self._fit:
            self._note_held()
        elif waiting >= MOST_UNFINISHED or self._grown():
            self._evict()
        elif not self._looking:
            self._look_soon()
        self._unfinished[clock] = connection
        self._of[connection] = self._of.get(connection, 0) + 1

    def _note_held(self) -> None:
        """Note what is held without many that wait; what one flood left must not let the next one have as much again.

        Those that do wait surely fit: what they hold is noted too, and is no more than they may.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked >= LOOK_SECONDS:
            risen = self._held_before + RISE_BYTES * (now - self._looked)
            self._held_before, self._looked = min(self._held(), risen), now

    def _grown(self) -> bool:
        held = self._held()
        return not held or held - self._held_before > self.limits.message_bytes

    def _look_soon(self) -> None:
        self._looking = True
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Give up what surely fits no more; those that wait may send at any time, whether others come or not."""
        self._looking = False
        if self._grown():
            while self.waiting > self._fit:
                self._evict()
        elif self.waiting > self._fit:
            self._look_soon()

    def _evict(self) -> None:
        """Give up the oldest call of the connections with more than their share; where there are none, of all.

        Who sends is soon done: the oldest is of somebody who does not, however few each of their connections has.
        """
        share = max(SHARE, self._fit // len(self._of))
        oldest = next(iter(self._unfinished))
        clock = next((each for each, whose in self._unfinished.items() if self._of[whose] > share), oldest)
        self._stop_waiting(clock)
        if clock.expired():  # its own deadline has passed, and it is about to hear of it
            return
        self._evicted.add(clock)
        clock.reschedule(asyncio.get_running_loop().time())

    def _stop_waiting(self, clock: asyncio.Timeout) -> None:
        connection = self._unfinished.pop(clock, None)
        if connection is not None:
            _take(self._of, connection, 1)

    def acquire(self, caller: str, size: int, connection: str = "") -> None:
        """Take a slot for a call of `caller` with a message of so many bytes; `release` gives it back.

        Of strangers `connection` is the one that they call on, and bytes are shared among connections.

        Raises:
            Refusal: OVERLOADED, if there is none.
        """
        limits = self.limits
        if self._in_work[caller] >= limits.calls:
            raise self.refusal(PortLimit.CALLS, f"{limits.calls} calls are in work, as many as may be at once")
        # One message always fits, so that what is allowed by itself is not refused for ever.
        if self._bytes and not self._fits(size, connection):
            raise self.refusal(
                PortLimit.BYTES, f"messages of {self._bytes} bytes are in work, {limits.message_bytes} fit"
            )
        self._in_work[caller] += 1
        self._bytes += size
        if connection:
            self._bytes_of[connection] = self._bytes_of.get(connection, 0) + size

    def _fits(self, size: int, connection: str) -> bool:
        free = self.limits.message_bytes - self._bytes
        if not connection:
            return size <= free
        mine = self._bytes_of.get(connection, 0)
        if size <= SMALL_BYTES:
            return size <= free or not mine
        return mine + size <= free - self.limits.message_bytes // 8

    def release(self, caller: str, size: int, connection: str = "") -> None:
        """Give a slot back."""
        self._in_work[caller] -= 1
        self._give_back(size, connection)

    def _give_back(self, size: int, connection: str) -> None:
        self._bytes -= size
        if connection:
            _take(self._bytes_of, connection, size)

    def wait(self, caller: str, waiting: str) -> None:
        """Count a call of `caller` as one of `waiting`, who do no work.

        Raises:
            Refusal: OVERLOADED, if too many wait.
        """
        if self._in_work[waiting] >= MOST_WAITING:
            raise self.refusal(PortLimit.CALLS, f"{MOST_WAITING} calls wait, as many as may at once")
        self._in_work[caller] -= 1
        self._in_work[waiting] += 1

    def answer(self, connection: str, size: int) -> Callable[[object], None]:
        """Hold an answer of so many bytes; return what gives it back, which is to be called when it was taken.

        Raises:
            Refusal: OVERLOADED, if the connection leaves too many untaken; the same call may be made again.
        """
        size += ANSWER_BYTES
        mine = self._bytes_of.get(connection, 0)
        free = self.limits.message_bytes - self._bytes
        if mine + size > free and (mine or size > SMALL_BYTES + ANSWER_BYTES):
            why = f"answers and messages of {mine} bytes of this connection are not done with, {max(0, free)} are left"
            raise self.refusal(PortLimit.UNREAD, why)
        self._bytes += size
        self._bytes_of[connection] = mine + size

        def taken(_: object) -> None:
            self._give_back(size, connection)

        return taken

    async def pause(self, connection: str) -> None:
        """Wait before a call is answered that was refused for what it is, the longer the more of its connection wait.

        So a connection gets no more than one such answer in `PAUSE_SECONDS`, unless it has a hundred calls at once.
        """
        if sum(self._pausing.values()) >= MOST_PAUSING:
            return
        mine = self._pausing[connection] = self._pausing.get(connection, 0) + 1
        try:
            await asyncio.sleep(min(PAUSE_SECONDS * mine, LONGEST_PAUSE_SECONDS))
        finally:
            _take(self._pausing, connection, 1)

    def refusal(self, limit: PortLimit, why: str) -> Refusal:
        """Return the refusal of a call that came up against a limit, and count it."""
        self.refused[limit] += 1
        return Refusal(Reason.OVERLOADED, f"{why}; try again in {RETRY_SECONDS:g} s", RETRY_SECONDS)


def _take(counts: dict[str, int], key: str, count: int) -> None:
    """Count less, and forget what is none: connections come and go for ever."""
    # A message may have no bytes: then its connection may be forgotten already.
    left = counts.get(key, 0) - count
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)
