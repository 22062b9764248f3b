"""Opening: outer envelopes are opened off the event loop, in processes where there are many.

X25519 holds the interpreter lock, so threads give no speed; a thread still keeps a few opens from delaying the loop by
more than about 1 ms. What arrives while all processes are busy waits and goes out together, so that a busy shuffler
hands over large pieces by itself.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

from hubbub.protos.envelope import Destination, OuterOpener
from hubbub.protos.errors import EnvelopeError
from hubbub.protos.messages import Submission
from hubbub.protos.service.stages import Observe, unobserved

THREAD_LIMIT = 16
"""Pieces up to so many envelopes are opened in a thread: handing them to a process would cost more."""

PIECE_LIMIT = 1000
"""Most envelopes in one piece: 70 ms of work, so that neither answers nor the other process wait for long."""


@dataclass(frozen=True)
class Lock:
    """What a round's outer envelopes are opened with: where they were sealed for, the raw private key, the queries."""

    destination: Destination
    private_key: bytes = field(repr=False)
    queries: int


Piece = tuple[Lock, Sequence[Submission]]


def open_pieces(pieces: Sequence[Piece]) -> list[list[bytes | None]]:
    """Open pieces: for each submission its inner envelopes joined, or None where it does not open."""
    return [_open(lock, submissions) for lock, submissions in pieces]


def _open(lock: Lock, submissions: Sequence[Submission]) -> list[bytes | None]:
    opener = OuterOpener(lock.destination, lock.private_key, lock.queries)
    opened: list[bytes | None] = []
    for submission in submissions:
        try:
            opened.append(b"".join(opener.open(submission.envelope, submission.id)))
        except EnvelopeError:
            opened.append(None)
    return opened


@dataclass
class _Waiting:
    piece: Piece
    opened: asyncio.Future[list[bytes | None]]


class Openers:
    """Opens for the whole service. `processes` of 0 is one per core; they are started when first needed.

    `observe` is told how many seconds each piece of work took.
    """

    def __init__(self, processes: int = 0, observe: Observe = unobserved) -> None:
        self._processes = processes or os.cpu_count() or 1
        self._observe = observe
        self._thread = ThreadPoolExecutor(1, "opening")
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: deque[_Waiting] = deque()
        self._free = self._processes
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, lock: Lock, submissions: Sequence[Submission]) -> list[bytes | None]:
        """Return each submission's inner envelopes joined, or None where it does not open."""
        loop = asyncio.get_running_loop()
        waiting = []
        for start in range(0, len(submissions), PIECE_LIMIT):
            piece = lock, submissions[start : start + PIECE_LIMIT]
            waiting.append(_Waiting(piece, loop.create_future()))
        self._waiting.extend(waiting)
        self._hand_out()
        opened: list[bytes | None] = []
        for entry in waiting:
            opened += await entry.opened
        return opened

    @property
    def waiting(self) -> int:
        """How many pieces wait for a free process."""
        return len(self._waiting)

    def warm_up(self) -> None:
        """Start the processes now."""
        for _ in range(self._processes):
            self._processes_pool().submit(os.getpid)

    def close(self) -> None:
        """Stop threads and processes; what waits is not opened."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _hand_out(self) -> None:
        while self._waiting and self._free:
            self._free -= 1
            task = asyncio.create_task(self._work(self._next()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> list[_Waiting]:
        """Take what waits, up to one piece's size."""
        taken = [self._waiting.popleft()]
        count = len(taken[0].piece[1])
        while self._waiting and count + len(self._waiting[0].piece[1]) <= PIECE_LIMIT:
            taken.append(self._waiting.popleft())
            count += len(taken[-1].piece[1])
        return taken

    async def _work(self, taken: list[_Waiting]) -> None:
        started = time.perf_counter()
        try:
            opened = await self._run([entry.piece for entry in taken])
            self._observe(time.perf_counter() - started)
            for entry, result in zip(taken, opened, strict=True):
                if not entry.opened.done():
                    entry.opened.set_result(result)
        except Exception as error:
            for entry in taken:
                if not entry.opened.done():
                    entry.opened.set_exception(error)
        finally:
            self._free += 1
            self._hand_out()

    async def _run(self, pieces: list[Piece]) -> list[list[bytes | None]]:
        executor: Executor = self._thread
        if sum(len(submissions) for _, submissions in pieces) > THREAD_LIMIT:
            executor = self._processes_pool()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(executor, open_pieces, pieces)
        except BrokenProcessPool:
            # A process was killed; the work is done once more, by new ones.
            if self._pool is executor:
                self._pool = None
            return await loop.run_in_executor(self._processes_pool(), open_pieces, pieces)

    def _processes_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, context, initializer=_begin)
        return self._pool


def _begin() -> None:
    """Leave interrupts to the parent, and go when it goes, however it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
