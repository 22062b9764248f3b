"""Limits the calls of a port: those whose message is still arriving, and those in work.

A call whose message does not arrive keeps its slot for a few seconds at most. It loses the slot sooner if others need
it: a connection with more than its share of such calls gives up its oldest. So a connection that never finishes its
messages takes nothing from those that do. The memory for unfinished messages is bounded, for any input to a port.

Connections share the bytes in work, and the bytes of answers that were not read yet. One connection uses at most as
much as is left for all others. A connection that uses nothing may always make a small call.
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
"""How long a caller waits before it repeats a call that found no slot."""

FEWEST_UNFINISHED = 16
MOST_UNFINISHED = 1024
"""Bounds on concurrent calls whose message is not complete, in addition to the limit of memory."""

LOOK_SECONDS = 0.05
"""How often memory is checked while more messages are awaited than would fit if all had the largest size."""

SHARE = 8
"""Unfinished calls that a connection may have before it is the first to lose one: as many as a gateway makes."""

SMALL_BYTES = 64 * 1024
"""Messages up to this size may use the last eighth of the room, which larger ones must leave free."""

ANSWER_BYTES = 16 * 1024
"""Memory that a call uses, in addition to its answer, until the answer is read."""

MOST_WAITING = 1024
"""Concurrent calls of each kind of caller that wait for a later event; they do no work meanwhile."""

PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0
"""Delay of the answer to a malformed call, for each such call of its connection that waits; and the longest delay. A
refusal costs nearly as much work as an acceptance, and a sender of malformed calls does not need answers soon."""

MOST_PAUSING = 1024
"""Concurrent calls that wait for such an answer; further ones are answered at once."""

RISE_BYTES = 1024 * 1024
"""Growth of the process per second that is attributed to its other work, and not to unfinished messages."""


class PortLimit(StrEnum):
    """A limit of a port that calls may exceed."""

    UNFINISHED = "unfinished"
    """The message was not complete in time; at the HTTPS port also the TLS handshake."""
    EVICTED = "evicted"
    """The message was not complete when others needed its slot."""
    CALLS = "calls"
    """The most calls were in work."""
    BYTES = "bytes"
    """The messages in work had the most bytes allowed."""
    UNREAD = "unread"
    """The answers that the connection has not read yet have more bytes than are left for others."""
    MEMORY = "memory"
    """The process used its limit of memory."""
    CONNECTIONS = "connections"
    """All connections were in use. Counted once a second meanwhile, because gRPC does not report closed ones."""
    SIZE = "size"
    """The message was larger than its call needs."""
    COUNT = "count"
    """The message had more elements than allowed."""
    COMPRESSED = "compressed"
    """The message was compressed."""
    PEER = "peer"
    """The port does not answer callers with this certificate."""
    ADDRESS = "address"
    """One address had its limit of connections. HTTPS port only: gRPC does not distinguish addresses."""
    EMPTY_RECORDS = "empty_records"
    """A connection had more TLS records without plaintext than any honest one. HTTPS port only."""
    SMALL_RECORDS = "small_records"
    """A request came in more TLS records than its size allows. HTTPS port only."""
    HANDSHAKE = "handshake"
    """A TLS handshake had more records or bytes than any honest one. HTTPS port only."""
    HTTP = "http"
    """The HTTP request was no call: wrong path, method or type, or unacceptable headers. HTTPS port only."""
    ENCAPSULATION = "encapsulation"
    """An encapsulated request did not open, or names a key that is not here. HTTPS port with `https_oblivious` only."""


@dataclass(frozen=True)
class PortLimits:
    """The limits of a port."""

    calls: int = 4096
    """Calls in work at once: of all callers together, or of each kind of caller if certificates distinguish them."""
    message_bytes: int = 64 * 1024 * 1024
    """Bytes of the messages in work; also how much the process may grow because of incomplete messages."""
    unfinished_seconds: float = 5.0
    """How long a call's message may take to arrive completely."""
    largest: int = MAXIMUM_MESSAGE_BYTES
    """Bytes of the largest message of any call."""
    connections: int | None = None
    """Connections at once, a limit that gRPC enforces (`service.transport.grpc_server`); None if it is not known."""

    @property
    def unfinished(self) -> int:
        """Calls at once with incomplete messages that fit, even if each message had the largest size."""
        return min(MOST_UNFINISHED, max(FEWEST_UNFINISHED, self.message_bytes // self.largest))


def _unknown() -> int:
    return 0


class AdmissionControl:
    """The slots of one port, in one event loop. `refused` counts the calls that found no slot, by limit.

    `held` gives the bytes of memory that the process uses, 0 if that is not known. gRPC does not report how much of an
    incomplete message it has. So more messages are awaited than would surely fit, as long as memory does not grow.
    """

    def __init__(self, limits: PortLimits, held: Callable[[], int] = _unknown) -> None:
        self.limits = limits
        self.refused: Counter[PortLimit] = Counter()
        self._held = held
        self._fit = limits.unfinished
        self._held_before, self._looked = math.inf, -math.inf
        self._looking = False
        # All unfinished calls, oldest first, with their connections; and how many each connection has.
        self._unfinished: dict[asyncio.Timeout, str] = {}
        self._of: dict[str, int] = {}
        self._evicted: set[asyncio.Timeout] = set()
        self._pausing: dict[str, int] = {}
        self._in_work: Counter[str] = Counter()
        self._bytes = self._received = 0
        self._bytes_of: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """Calls whose message is not complete."""
        return len(self._unfinished)

    @property
    def in_work(self) -> int:
        """Calls in work."""
        return self._in_work.total()

    async def read_message(self, connection: str, read: Callable[[], Awaitable[T]]) -> T:
        """Return the message of a call on that connection, which `read` gives; `read` is cancelled at the deadline.

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
        # Outside of the handler above: a refusal chained to the timeout would keep its frames and their objects alive.
        if limit is PortLimit.EVICTED:
            raise self.refusal(limit, "the message was incomplete when other calls needed its slot")
        seconds = self.limits.unfinished_seconds
        raise self.refusal(limit, f"the message was incomplete after {seconds:g} s, the limit of this port")

    def receive(self, size: int) -> None:
        """Count bytes of incomplete messages, if the port knows them; a negative size releases bytes.

        Above the limit of bytes, the call that has waited longest is given up.
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
        """Note the memory in use while few calls wait, so that the remains of one flood do not let the next one grow.

        The calls that do wait surely fit: their memory is included, and is within the limit.
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
        """Give up calls beyond those that surely fit, since waiting calls may send at any time."""
        self._looking = False
        if self._grown():
            while self.waiting > self._fit:
                self._evict()
        elif self.waiting > self._fit:
            self._look_soon()

    def _evict(self) -> None:
        """Give up the oldest call of the connections with more than their share; if there are none, the oldest of all.

        A caller that sends is soon finished: the oldest call is of one that does not, however few its connections have.
        """
        share = max(SHARE, self._fit // len(self._of))
        oldest = next(iter(self._unfinished))
        clock = next((each for each, whose in self._unfinished.items() if self._of[whose] > share), oldest)
        self._stop_waiting(clock)
        if clock.expired():  # its own deadline has passed, and it is about to be cancelled
            return
        self._evicted.add(clock)
        clock.reschedule(asyncio.get_running_loop().time())

    def _stop_waiting(self, clock: asyncio.Timeout) -> None:
        connection = self._unfinished.pop(clock, None)
        if connection is not None:
            _take(self._of, connection, 1)

    def acquire(self, caller: str, size: int, connection: str = "") -> None:
        """Take a slot for a call of `caller` with a message of `size` bytes; `release` gives it back.

        For callers without a certificate, `connection` names their connection: connections share the bytes.

        Raises:
            Refusal: OVERLOADED, if no slot is free.
        """
        limits = self.limits
        if self._in_work[caller] >= limits.calls:
            raise self.refusal(PortLimit.CALLS, f"{limits.calls} calls are in work, the limit of this port")
        # One message always fits, so that a message within the size limit is not refused forever.
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
        """Count a call of `caller` as one of `waiting`, which do no work.

        Raises:
            Refusal: OVERLOADED, if too many wait.
        """
        if self._in_work[waiting] >= MOST_WAITING:
            raise self.refusal(PortLimit.CALLS, f"{MOST_WAITING} calls wait, the limit of this port")
        self._in_work[caller] -= 1
        self._in_work[waiting] += 1

    def answer(self, connection: str, size: int) -> Callable[[object], None]:
        """Count an answer of `size` bytes; return a function that releases it, to be called once the answer was read.

        Raises:
            Refusal: OVERLOADED, if the connection leaves too many answers unread; the call may be repeated.
        """
        size += ANSWER_BYTES
        mine = self._bytes_of.get(connection, 0)
        free = self.limits.message_bytes - self._bytes
        if mine + size > free and (mine or size > SMALL_BYTES + ANSWER_BYTES):
            why = f"answers and messages of this connection use {mine} bytes, but only {max(0, free)} are free"
            raise self.refusal(PortLimit.UNREAD, why)
        self._bytes += size
        self._bytes_of[connection] = mine + size

        def taken(_: object) -> None:
            self._give_back(size, connection)

        return taken

    async def pause(self, connection: str) -> None:
        """Delay the answer to a malformed call, the longer the more such calls of its connection wait.

        So a connection gets at most one such answer in `PAUSE_SECONDS`, unless it has a hundred calls at once.
        """
        if sum(self._pausing.values()) >= MOST_PAUSING:
            return
        mine = self._pausing[connection] = self._pausing.get(connection, 0) + 1
        try:
            await asyncio.sleep(min(PAUSE_SECONDS * mine, LONGEST_PAUSE_SECONDS))
        finally:
            _take(self._pausing, connection, 1)

    def refusal(self, limit: PortLimit, why: str) -> Refusal:
        """Return the refusal of a call that exceeded a limit, and count it."""
        self.refused[limit] += 1
        return Refusal(Reason.OVERLOADED, f"{why}; try again in {RETRY_SECONDS:g} s", RETRY_SECONDS)


def _take(counts: dict[str, int], key: str, count: int) -> None:
    """Subtract from a count, and drop the key at 0, so that the keys of past connections do not pile up."""
    # A message may be empty; then its connection may already be dropped.
    left = counts.get(key, 0) - count
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)
