"""Processes open the outer envelopes; a few at a time are opened on the spot, in the event loop.

What arrives while all processes are busy waits and goes out together, so that a busy shuffler hands over large pieces
by itself. Each process holds the next piece while it opens one: it never waits for the event loop.

Batches are opened by `service.processes.opening_pool`, on a `ProcessPoolExecutor`. It would not do here: measured in
one run, it costs the event loop's process 1.7 times as much CPU a submission in pieces of 200, and 4 times in calls of
10. It pickles each call, takes turns with threads of its own, and joins no calls that wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import OuterOpener
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.processes import subprocesses
from hubbub.service.processes.cpu_count import cpu_count
from hubbub.shuffler.admit.opening_worker import (
    LENGTH,
    RoundKey,
    open_each,
    read_answer,
    write_header,
    write_records,
)

ON_THE_SPOT = 4
"""Up to this many envelopes are opened in the event loop, in 0.3 ms: handing them over would cost as much."""

PIECE_LIMIT = 200
"""Most envelopes in one piece: 25 ms of work, so that neither answers nor the other process wait for long."""

PIECES_GIVEN = 2
"""Pieces a process is given at a time: one to open, and the next."""

TRIES = 2
"""How often a piece is handed over: any process may be killed, but one piece must not end all of them in turn."""


_LOG = logging.getLogger(__name__)


class OuterOpening(Protocol):
    """What opens outer envelopes: processes (`Openers`), or the process that answers (`workers.opening`)."""

    async def open(self, key: RoundKey, submissions: Sequence[Submission]) -> list[bytes | None]:
        """Return each submission's inner envelopes joined, or None if it does not open."""


class OpeningError(HubbubError):
    """The processes that open envelopes ended before they were done; nothing was acknowledged."""


@dataclass(eq=False)
class _Waiting:
    """A chunk of one call's submissions, encoded, and who waits for them."""

    key: RoundKey
    count: int
    records: bytes = field(repr=False)
    opened: asyncio.Future[list[bytes | None]] = field(repr=False)
    tries: int = 0


@dataclass(eq=False)
class _Piece:
    """What is opened together, all of one round, and when it was handed over."""

    parts: list[_Waiting]
    given: float = field(default_factory=time.perf_counter)

    @property
    def key(self) -> RoundKey:
        return self.parts[0].key

    def encode(self) -> bytes:
        header = write_header(self.key, sum(waiting.count for waiting in self.parts))
        return b"".join([header, *(waiting.records for waiting in self.parts)])

    def answer(self, opened: list[bytes | None]) -> None:
        """Give each part its own."""
        for waiting in self.parts:
            # A caller may have gone away; its part is skipped, but the parts behind it keep their places.
            if not waiting.opened.done():
                waiting.opened.set_result(opened[: waiting.count])
            opened = opened[waiting.count :]


class Openers:
    """Opens for the whole service. `processes` of 0 is one per core; they are started when first needed.

    `observe` is told how many seconds each piece of work took, from when it was handed over.
    """

    def __init__(self, processes: int = 0, observe: Observe = unobserved) -> None:
        count = processes or cpu_count()
        self._observe = observe
        self._workers = [_OpeningProcess(self._answered, self._take_back) for _ in range(count)]
        self._waiting: deque[_Waiting] = deque()
        self._last: tuple[RoundKey, OuterOpener] | None = None

    async def open(self, key: RoundKey, submissions: Sequence[Submission]) -> list[bytes | None]:
        """Return each submission's inner envelopes joined, or None if it does not open.

        Every envelope must have the length that the round's envelopes have.

        Raises:
            OpeningError: if the processes end again and again.
        """
        if len(submissions) <= ON_THE_SPOT:
            started = time.perf_counter()
            found = open_each(self._opener(key), submissions)
            self._observe(time.perf_counter() - started)
            return found
        waiting = []
        for start in range(0, len(submissions), PIECE_LIMIT):
            part = submissions[start : start + PIECE_LIMIT]
            opened = asyncio.get_running_loop().create_future()
            waiting.append(_Waiting(key, len(part), write_records(key, part), opened))
        self._waiting.extend(waiting)
        self._hand_out()
        return [plain for opened in await asyncio.gather(*(each.opened for each in waiting)) for plain in opened]

    def _opener(self, key: RoundKey) -> OuterOpener:
        """The last one is kept: making it takes twice as long as opening an envelope."""
        if self._last is None or self._last[0] != key:
            self._last = key, key.opener()
        return self._last[1]

    @property
    def waiting(self) -> int:
        """How many calls' chunks wait for a process."""
        return len(self._waiting)

    def warm_up(self) -> None:
        """Start the processes now."""
        for worker in self._workers:
            worker.start()

    async def close(self) -> None:
        """Stop the processes; what waits is not opened."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        for waiting in self._waiting:
            waiting.opened.cancel()
        self._waiting.clear()

    def _answered(self, seconds: float) -> None:
        self._observe(seconds)
        self._hand_out()

    def _hand_out(self) -> None:
        """Give what waits to the processes that have the fewest."""
        while self._waiting:
            worker = min(self._workers, key=lambda each: len(each.given))
            if len(worker.given) >= PIECES_GIVEN:
                return
            worker.give(self._next())

    def _next(self) -> _Piece:
        """Take what waits for one round, up to one piece's size."""
        parts = [self._waiting.popleft()]
        room = PIECE_LIMIT - parts[0].count
        # A piece carries one private key, so it holds submissions of one round only.
        while self._waiting and self._waiting[0].key == parts[0].key and self._waiting[0].count <= room:
            parts.append(self._waiting.popleft())
            room -= parts[-1].count
        return _Piece(parts)

    def _take_back(self, pieces: Sequence[_Piece]) -> None:
        """Have opened again what a process was given that ended."""
        for waiting in [waiting for piece in pieces for waiting in piece.parts]:
            waiting.tries += 1
            if waiting.opened.done():
                continue
            if waiting.tries < TRIES:
                self._waiting.append(waiting)
            else:
                waiting.opened.set_exception(OpeningError("the processes that open envelopes end; send again"))
        self._hand_out()


class _OpeningProcess:
    """One process, started with the first piece it is given; `given` are the pieces it has, oldest first.

    `free` is called with the seconds that a piece took when it can be given more, `lost` with what it had when it ends.
    """

    def __init__(self, free: Callable[[float], None], lost: Callable[[Sequence[_Piece]], None]) -> None:
        self.given: deque[_Piece] = deque()
        self._free = free
        self._lost = lost
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process, if it does not run."""
        if self._running is None:
            self._running = asyncio.create_task(self._live())

    async def stop(self) -> None:
        """End the process; it holds nothing that is not held elsewhere."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        for piece in self.given:
            for waiting in piece.parts:
                waiting.opened.cancel()

    def give(self, piece: _Piece) -> None:
        """Have a piece opened."""
        self.given.append(piece)
        self.start()
        self._send(piece)

    def _send(self, piece: _Piece) -> None:
        # Before there is a process nothing is sent here; `_live` sends all of `given` once there is one.
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(piece.encode())

    async def _live(self) -> None:
        """Run a process and take its answers until it ends."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *subprocesses.command("hubbub.shuffler.admit.opening_worker"),
                stdin=PIPE,
                stdout=PIPE,
                env=subprocesses.environment(),
            )
            # What was given before the process was there has not been sent yet.
            for piece in self.given:
                self._send(piece)
            while True:
                await self._take(self._process)
        except Exception as error:
            # Whatever it was: what this process was given would wait for ever.
            if not isinstance(error, (asyncio.IncompleteReadError, OSError)):
                _LOG.exception("the answer of a process that opens envelopes could not be used")
            # Emptied before `_lost` hands the work out again: it may come back to this worker, which then starts anew.
            lost, self.given = self.given, deque()
            self._running = None
            self._lost(lost)
        finally:
            await self._end()

    async def _take(self, process: Process) -> None:
        """Take the answer to the oldest piece."""
        if process.stdout is None:
            raise OpeningError("a process that opens envelopes has no pipes")
        length = int.from_bytes(await process.stdout.readexactly(LENGTH), "big")
        answer = await process.stdout.readexactly(length)
        # Taken out only when it is answered: a piece that cannot be is opened again.
        piece = self.given[0]
        piece.answer(read_answer(answer, piece.key))
        self.given.popleft()
        self._free(time.perf_counter() - piece.given)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
