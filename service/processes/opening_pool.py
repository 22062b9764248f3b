"""Opens envelopes in a pool of processes. Such a process loads only this module of hubbub, and its imports."""

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

CHUNK = 1024
"""Envelopes passed to a worker at once: some 40 ms of work, so that passing them costs little. Released blocks (4,096
envelopes) are a multiple of it."""

LAST_CHUNK = 128
"""Envelopes of a batch's last chunks. Towards the end of a batch chunks get smaller, down to this: a worker is idle
until the others are done with theirs, but each chunk costs as much as ten envelopes."""

_AHEAD = 3
"""Chunks given out per worker: one in work, the next ones ready."""

Opened = tuple[bytes, int]
"""The joined reports of a chunk, and how many envelopes did not open."""

T = TypeVar("T")


@dataclass(frozen=True)
class OpeningJob:
    """The data to open a batch's envelopes: the destination that they are sealed for, and the raw private key.

    Each envelope has `width` bytes, and is of the suite with that name. `hop` is the position of the hop whose layer is
    opened, None for the analyzer's.
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

    Suites and keys do not pickle: a chunk travels with the raw key, and its worker makes the opener from it.
    """

    def __init__(self, processes: int = 0, chunk: int = CHUNK) -> None:
        self._processes = processes or cpu_count()
        self._chunk = chunk
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None
        self._closed = False

    def open(self, job: OpeningJob, parts: Iterable[bytes], expected: int) -> Iterator[Opened]:
        """Open a batch of about `expected` envelopes; blocks, so it is called in a thread.

        A killed worker breaks its pool: a new pool is made, and each chunk of the old one is tried once more.

        Raises:
            BrokenProcessPool: if the second try fails, too.
        """
        chunks = self._chunks(parts, job.width, expected)
        if expected <= self._chunk:
            yield from (open_chunk(job, chunk) for chunk in chunks)
            return
        pending: deque[tuple[bytes, ProcessPoolExecutor, Future[Opened]]] = deque()
        for chunk in chunks:
            pending.append((chunk, *self._submit(job, chunk)))
            # Give out only enough chunks to keep the workers busy, so that memory stays bounded for any batch.
            if len(pending) > self._processes * _AHEAD:
                yield self._result(job, *pending.popleft())
        while pending:
            yield self._result(job, *pending.popleft())

    def count(
        self,
        job: OpeningJob,
        parts: Iterable[bytes],
        expected: int,
        use: Callable[[bytes], T],  # noqa: ARG002 - for workers on other machines
    ) -> Iterator[tuple[T | bytes, int]]:
        """Open like `open`; give each chunk's reports, or the result of `use` on them from a remote worker."""
        return self.open(job, parts, expected)

    def warm_up(self, expected: int) -> None:
        """Start the processes now if a batch of `expected` envelopes will need them."""
        if expected > self._chunk:
            for _ in range(self._processes):
                # Any work starts a process, and `int` does nothing.
                self._pool(None).submit(int)

    def close(self) -> None:
        """Stop the processes; their unfinished work is lost."""
        with self._lock:
            self._closed = True
            if self._executor is not None:
                self._executor.shutdown(wait=True, cancel_futures=True)

    def _chunks(self, parts: Iterable[bytes], width: int, expected: int) -> Iterator[bytes]:
        """Divide a batch: each chunk is at most a part of what is left, so that all workers end nearly together."""
        for part in parts:
            start = 0
            while start < len(part):
                share = max(LAST_CHUNK, expected // (2 * self._processes))
                chunk = part[start : start + min(self._chunk, share) * width]
                yield chunk
                start += len(chunk)
                expected -= len(chunk) // width

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
        """Return the pool; a new one if there is none yet, or if the present one is `broken`."""
        with self._lock:
            if self._closed:
                raise BrokenProcessPool("the service is stopping")
            if self._executor is None or self._executor is broken:
                # `multiprocessing` starts `python -c`, which would search modules in the current folder first.
                remove_cwd_from_path()
                context = multiprocessing.get_context("spawn")
                self._executor = ProcessPoolExecutor(self._processes, context, initializer=_begin)
            return self._executor


def _begin() -> None:
    """Protect memory, leave interrupts to the parent, ignore the same signals, and end when the parent ends."""
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
