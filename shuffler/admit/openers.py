"""Opens outer envelopes in processes, and seals dummies; a few at a time are opened at once, in the event loop.

Submissions that arrive while all processes are busy wait and go out together, so a busy shuffler sends large pieces
without further rules. Each process has its next piece while it opens one: it never waits for the event loop.

Batches are opened by `service.processes.opening_pool`, on a `ProcessPoolExecutor`. That does not fit here: measured in
one run, it costs the event loop's process 1.7 times as much CPU a submission in pieces of 200, and 4 times in calls of
10. It pickles each call, switches between threads of its own, and does not join waiting calls.
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
from math import ceil
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
from hubbub.shuffler.mix.sealing_job import SealingJob

ON_THE_SPOT = 4
"""Up to this many envelopes are opened in the event loop, in 0.3 ms: a process would cost as much."""

PIECE_LIMIT = 200
"""Most envelopes in one piece: 25 ms of work, so that neither answers nor the other processes wait for long."""

PIECES_GIVEN = 2
"""Pieces that a process has at a time: the one that it opens, and the next."""

TRIES = 2
"""How often a piece is sent: a killed process loses its pieces, but one bad piece must not end every process."""


_LOG = logging.getLogger(__name__)


class OuterOpening(Protocol):
    """Opens outer envelopes: in processes (`Openers`), or in the one that answers (`workers.worker.InlineOpener`)."""

    async def open(self, key: RoundKey, submissions: Sequence[Submission]) -> list[bytes | None]:
        """Return each submission's inner envelopes joined, or None if it does not open."""


class OpeningError(HubbubError):
    """The processes that open envelopes ended before they were done; nothing was acknowledged."""


@dataclass(eq=False)
class _Waiting:
    """An encoded chunk of one call's submissions or of a round's dummies, and the future of its caller."""

    key: RoundKey | SealingJob
    count: int
    records: bytes = field(repr=False)
    opened: asyncio.Future[list[bytes | None]] = field(repr=False)
    tries: int = 0


@dataclass(eq=False)
class _Piece:
    """Chunks of one round that are opened or sealed together, and when they were sent to a process."""

    parts: list[_Waiting]
    given: float = field(default_factory=time.perf_counter)

    @property
    def key(self) -> RoundKey | SealingJob:
        return self.parts[0].key

    def encode(self) -> bytes:
        header = write_header(self.key, sum(waiting.count for waiting in self.parts))
        return b"".join([header, *(waiting.records for waiting in self.parts)])

    def answer(self, opened: list[bytes | None]) -> None:
        """Give each part its results."""
        for waiting in self.parts:
            # A caller may be gone; its part is skipped, but the later parts keep their places.
            if not waiting.opened.done():
                waiting.opened.set_result(opened[: waiting.count])
            opened = opened[waiting.count :]


class Openers:
    """Opens and seals for the whole service. `processes` of 0 is one per core; they start when first needed.

    `observe` gets the seconds that opening each piece took, from when it was sent.
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
            OpeningError: if the processes end repeatedly.
        """
        if len(submissions) <= ON_THE_SPOT:
            started = time.perf_counter()
            found = open_each(self._opener(key), submissions)
            self._observe(time.perf_counter() - started)
            return found
        waiting = []
        for start in range(0, len(submissions), PIECE_LIMIT):
            part = submissions[start : start + PIECE_LIMIT]
            waiting.append(self._chunk(key, len(part), write_records(key, part)))
        self._waiting.extend(waiting)
        self._hand_out()
        return await _all_of(waiting)

    async def seal(self, job: SealingJob, reports: bytes) -> bytes:
        """Seal joined reports, a share in each process.

        Raises:
            EnvelopeError: if a public key cannot be sealed to.
        """
        size, count, waiting = job.report_bytes, len(reports) // job.report_bytes, []
        processes = len(self._workers)
        pieces = processes * ceil(count / (processes * PIECE_LIMIT))
        share = ceil(count / pieces) if pieces else 1
        for start in range(0, count, share):
            part = reports[start * size : (start + share) * size]
            waiting.append(self._chunk(job, len(part) // size, part))
            self._waiting.append(waiting[-1])
            # One by one, so that processes without work do not get several in one piece.
            self._hand_out()
        with contextlib.suppress(OpeningError):
            sealed = [each for each in await _all_of(waiting) if each is not None]
            if len(sealed) == count:
                return b"".join(sealed)
        # The processes keep ending, or they cannot seal to these keys, which is said here.
        return await asyncio.to_thread(job.seal, reports)

    def _chunk(self, key: RoundKey | SealingJob, count: int, records: bytes) -> _Waiting:
        return _Waiting(key, count, records, asyncio.get_running_loop().create_future())

    def _opener(self, key: RoundKey) -> OuterOpener:
        """Reuse the last opener if the key is the same: making one takes twice as long as opening an envelope."""
        if self._last is None or self._last[0] != key:
            self._last = key, key.opener()
        return self._last[1]

    @property
    def waiting(self) -> int:
        """How many calls' chunks wait for a process."""
        return len(self._waiting)

    def warm_up(self) -> None:
        """Start the processes now, so that the first submissions do not wait for them."""
        for worker in self._workers:
            worker.start()

    async def close(self) -> None:
        """Stop the processes; chunks that wait are not opened."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        for waiting in self._waiting:
            waiting.opened.cancel()
        self._waiting.clear()

    def _answered(self, piece: _Piece) -> None:
        if isinstance(piece.key, RoundKey):
            self._observe(time.perf_counter() - piece.given)
        self._hand_out()

    def _hand_out(self) -> None:
        """Give waiting chunks to the processes that have the fewest pieces."""
        while self._waiting:
            worker = min(self._workers, key=lambda each: len(each.given))
            if len(worker.given) >= PIECES_GIVEN:
                return  # all others have at least as many
            worker.give(self._next())

    def _next(self) -> _Piece:
        """Take waiting chunks of one round, up to the size of a piece."""
        parts = [self._waiting.popleft()]
        room = PIECE_LIMIT - parts[0].count
        # A piece contains one key, so all of its submissions are of one round.
        while self._waiting and self._waiting[0].key == parts[0].key and self._waiting[0].count <= room:
            parts.append(self._waiting.popleft())
            room -= parts[-1].count
        return _Piece(parts)

    def _take_back(self, pieces: Sequence[_Piece]) -> None:
        """Open again the pieces of a process that ended."""
        for waiting in [waiting for piece in pieces for waiting in piece.parts]:
            waiting.tries += 1
            if waiting.opened.done():
                continue
            if waiting.tries < TRIES:
                self._waiting.append(waiting)
            else:
                waiting.opened.set_exception(OpeningError("the processes that open envelopes keep ending; send again"))
        self._hand_out()


async def _all_of(waiting: Sequence[_Waiting]) -> list[bytes | None]:
    """Return what all of these come to, in order."""
    return [plain for opened in await asyncio.gather(*(each.opened for each in waiting)) for plain in opened]


class _OpeningProcess:
    """One process, started with the first piece it is given; `given` are the pieces it has, oldest first.

    When a process can take more, `free` is called with its last piece. When it ends, `lost` is called with its pieces.
    """

    def __init__(self, free: Callable[[_Piece], None], lost: Callable[[Sequence[_Piece]], None]) -> None:
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
        """End the process. No work is lost: callers are cancelled, and devices send again."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        for piece in self.given:
            for waiting in piece.parts:
                waiting.opened.cancel()

    def give(self, piece: _Piece) -> None:
        """Send a piece to the process."""
        self.given.append(piece)
        self.start()
        self._send(piece)

    def _send(self, piece: _Piece) -> None:
        # Nothing is sent before the process runs; `_live` sends all of `given` once it does.
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
            # Pieces that were given before the process ran are not sent yet.
            for piece in self.given:
                self._send(piece)
            while True:
                await self._take(self._process)
        except Exception as error:
            # Any error: otherwise the pieces of this process would wait for ever.
            if not isinstance(error, (asyncio.IncompleteReadError, OSError)):
                _LOG.exception("the answer of a process that opens envelopes could not be used")
            # Emptied before `_lost`, which may give the work to this same worker; the worker then starts a new process.
            lost, self.given = self.given, deque()
            self._running = None
            self._lost(lost)
        finally:
            await self._end()

    async def _take(self, process: Process) -> None:
        """Take the answer to the oldest piece."""
        if process.stdout is None:
            raise OpeningError("a process that opens envelopes was started without pipes; restart the service")
        length = int.from_bytes(await process.stdout.readexactly(LENGTH), "big")
        answer = await process.stdout.readexactly(length)
        # Removed only once it is answered: a piece without a usable answer is opened again.
        piece = self.given[0]
        piece.answer(read_answer(answer, piece.key))
        self.given.popleft()
        self._free(piece)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
