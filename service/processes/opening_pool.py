"""The processes in which envelopes are opened. This module is all that such a process loads of ours."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import TypeVar

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.envelope import Destination, InnerOpener
from hubbub.protos.sealing.suites import DEFAULT, suite_named
from hubbub.service.fixed_width import split_records
from hubbub.service.processes.cpu_count import cpu_count
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.service.processes.subprocesses import drop_environment, remove_cwd_from_path

CHUNK = 2000
"""Envelopes handed to a worker at once: about 0.15 s of work, so that handing over costs little."""

_AHEAD = 3
"""Chunks given out per worker: one in work, the next ones ready."""

Opened = tuple[bytes, int]
"""The reports of a chunk, one after the other, and how many envelopes did not open."""

T = TypeVar("T")


@dataclass(frozen=True)
class OpeningJob:
    """What a batch's envelopes are opened with: where they were sealed for, and the round's raw private key.

    Each envelope has `width` bytes, and is of the suite of that name. `hop` is the position of the hop whose layer it
    is, None for the analyzer's.
    """

    destination: Destination
    private_key: bytes = field(repr=False)
    query: int
    width: int
    suite: str = DEFAULT.name
    hop: int | None = None


def open_chunk(job: OpeningJob, envelopes: bytes) -> Opened:
    """Open envelopes that follow one another without a gap."""
    opener = InnerOpener(job.destination, job.private_key, job.query, suite_named(job.suite), job.hop)
    reports, count = [], len(envelopes) // job.width
    for envelope in split_records(envelopes, job.width):
        with contextlib.suppress(EnvelopeError):
            reports.append(opener.open(envelope))
    return b"".join(reports), count - len(reports)


class OpeningPool:
    """A pool of processes, started at the first chunk. Small batches are opened in the caller's thread.

    Suites and keys do not pickle: a chunk travels with the raw key, and its worker makes what it needs from it.
    """

    def __init__(self, processes: int = 0, chunk: int = CHUNK) -> None:
        self._processes = processes or cpu_count()
        self._chunk = chunk
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None
        self._closed = False

    def open(self, job: OpeningJob, parts: Iterable[bytes], expected: int) -> Iterator[Opened]:
        """Open a batch of about `expected` envelopes; blocks, so it is called in a thread.

        A worker that is killed breaks its pool: the pool is made anew, and each chunk that was in it tried once more.

        Raises:
            BrokenProcessPool: if that fails too.
        """
        chunks = self._chunks(parts, job.width)
        if expected <= self._chunk:
            yield from (open_chunk(job, chunk) for chunk in chunks)
            return
        pending: deque[tuple[bytes, ProcessPoolExecutor, Future[Opened]]] = deque()
        for chunk in chunks:
            pending.append((chunk, *self._submit(job, chunk)))
            # No more chunks are given out than keep the workers busy: memory stays bounded, whatever the batch's size.
            if len(pending) > self._processes * _AHEAD:
                yield self._result(job, *pending.popleft())
        while pending:
            yield self._result(job, *pending.popleft())

    def count(
        self,
        job: OpeningJob,
        parts: Iterable[bytes],
        expected: int,
        use: Callable[[bytes], T],  # noqa: ARG002 - for workers that are elsewhere
    ) -> Iterator[tuple[T | bytes, int]]:
        """Open as `open` does; give of each chunk its reports, or what `use` made of them where they were opened."""
        return self.open(job, parts, expected)

    def warm_up(self, expected: int) -> None:
        """Start the processes now if a batch of `expected` envelopes will need them."""
        if expected > self._chunk:
            for _ in range(self._processes):
                # Any work starts a process, and `int` does nothing.
                self._pool(None).submit(int)

    def close(self) -> None:
        """Stop the processes; what they have begun is lost."""
        with self._lock:
            self._closed = True
            if self._executor is not None:
                self._executor.shutdown(wait=True, cancel_futures=True)

    def _chunks(self, parts: Iterable[bytes], width: int) -> Iterator[bytes]:
        size = self._chunk * width
        for part in parts:
            for start in range(0, len(part), size):
                yield part[start : start + size]

    def _submit(self, job: OpeningJob, chunk: bytes) -> tuple[ProcessPoolExecutor, Future[Opened]]:
        pool = self._pool(None)
        try:
            return pool, pool.submit(open_chunk, job, chunk)
        except BrokenProcessPool:
            # Another chunk's worker was killed and took the pool with it; this chunk goes to the next pool.
            pool = self._pool(pool)
            return pool, pool.submit(open_chunk, job, chunk)

    def _result(self, job: OpeningJob, chunk: bytes, pool: ProcessPoolExecutor, future: Future[Opened]) -> Opened:
        try:
            return future.result()
        except BrokenProcessPool:
            return self._pool(pool).submit(open_chunk, job, chunk).result()

    def _pool(self, broken: ProcessPoolExecutor | None) -> ProcessPoolExecutor:
        """The pool; a new one where there is none yet, or the one that there is is the broken one."""
        with self._lock:
            if self._closed:
                raise BrokenProcessPool("the service is stopping")
            if self._executor is None or self._executor is broken:
                # `multiprocessing` starts `python -c`, which would look for modules in the current folder first.
                remove_cwd_from_path()
                context = multiprocessing.get_context("spawn")
                self._executor = ProcessPoolExecutor(self._processes, context, initializer=_begin)
            return self._executor


def _begin() -> None:
    """Keep memory in, leave interrupts to the parent, ignore what it ignores, and go when it goes, however it went."""
    disable_core_dumps()
    drop_environment()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Not sys.exit, which would end this thread alone.
        os._exit(1)
