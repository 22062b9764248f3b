"""Opens batches like `OpeningPool`, but uses a cluster's cores for large ones.

The driver reads the batch, leaves copies out as on one machine, and gives chunks out in waves. A task opens and counts
a chunk. Its result is used once, however often Spark ran it, and the driver adds the results in the batch's order.
Neither the batch nor its reports are ever complete in memory, or in files.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar

from hubbub.service.processes.opening_pool import Opened, OpeningJob, OpeningPool, open_chunk
from hubbub.service.settings import SparkSettings
from hubbub.service.spark.errors import SparkError
from hubbub.service.spark.session import SparkApplication, begin_task, failures, session, workplace

CHUNK = 8000
"""Envelopes of one task: half a second of work, while Spark needs some ten milliseconds to run a task."""

CHUNK_BYTES = 2**20
"""Most bytes of one task: many tasks travel at once."""

WAVE = 4
"""Tasks of one wave for each core; the next wave keeps all cores busy while the last tasks of this one run."""

WAVES = 2
"""Waves given out at once."""

T = TypeVar("T")

OpenChunk = Callable[[OpeningJob, bytes], Opened]
"""Opens a task's envelopes, which are joined without gaps."""


class SparkOpeningPool(OpeningPool):
    """An `OpeningPool` that opens batches of at least `settings.minimum_envelopes` on Spark, and others by itself.

    `folder` is a session's working folder unless the settings name another. `open_one` opens the envelopes of one task.
    """

    def __init__(
        self, settings: SparkSettings, folder: Path, processes: int = 0, open_one: OpenChunk = open_chunk
    ) -> None:
        super().__init__(processes)
        self._settings = settings
        self._folder = folder
        self._open_one = open_one
        self._guard = threading.Lock()
        self._session: SparkApplication | None = None
        self._stopped = False

    def open(self, job: OpeningJob, parts: Iterable[bytes], expected: int) -> Iterator[Opened]:
        """Open a batch of about `expected` envelopes; blocks, so it is called in a thread.

        Raises:
            SparkError: if the job fails more often than Spark tries it.
            BrokenProcessPool: as `OpeningPool` does, for a small batch.
        """
        if expected < self._settings.minimum_envelopes:
            return super().open(job, parts, expected)
        return self._elsewhere(job, parts, bytes)

    def count(
        self, job: OpeningJob, parts: Iterable[bytes], expected: int, use: Callable[[bytes], T]
    ) -> Iterator[tuple[T | bytes, int]]:
        """Open like `open`; the tasks of a large batch call `use` on its reports, and give the results.

        `use` travels to tasks. It must be deterministic, since tasks may run again. Raises the same as `open`.
        """
        if expected < self._settings.minimum_envelopes:
            return super().count(job, parts, expected, use)
        return self._elsewhere(job, parts, use)

    def warm_up(self, expected: int) -> None:
        """Start the processes now if a batch of `expected` envelopes will need them."""
        if expected < self._settings.minimum_envelopes:
            super().warm_up(expected)

    def close(self) -> None:
        """Stop the processes and the session; their unfinished work is lost."""
        with self._guard:
            self._stopped = True
            if self._session is not None:
                self._session.abort()
        super().close()

    def _elsewhere(self, job: OpeningJob, parts: Iterable[bytes], use: Callable[[bytes], T]) -> Iterator[tuple[T, int]]:
        with workplace(self._settings, self._folder) as place, session(self._settings, place) as begun:
            self._note(begun)
            try:
                yield from opened_on(begun, job, parts, use, self._open_one)
            finally:
                self._note(None)

    def _note(self, begun: SparkApplication | None) -> None:
        with self._guard:
            if begun is not None and self._stopped:
                raise SparkError("the service is stopping")
            self._session = begun


def opened_on(
    begun: SparkApplication,
    job: OpeningJob,
    parts: Iterable[bytes],
    use: Callable[[bytes], T],
    open_one: OpenChunk = open_chunk,
) -> Iterator[tuple[T, int]]:
    """Open a batch on a running session; give the result of `use` on each chunk's reports, in the batch's order.

    Each result comes with the number of the chunk's envelopes that did not open.
    """
    chunks = _chunks(parts, job.width)
    work = functools.partial(_used, open_one, job, use)
    with ThreadPoolExecutor(WAVES) as threads:
        pending: deque[Future[list[tuple[T, int]]]] = deque()
        while wave := list(islice(chunks, WAVE * begun.cores)):
            pending.append(threads.submit(_wave, begun, work, wave))
            if len(pending) >= WAVES:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _wave(begun: SparkApplication, work: Callable[[bytes], tuple[T, int]], chunks: list[bytes]) -> list[tuple[T, int]]:
    # With encryption, PySpark passes the chunks to its JVM over an authenticated loopback socket; without, in a file.
    with failures():
        return begun.context.parallelize(chunks, len(chunks)).map(work).collect()


def _used(open_one: OpenChunk, job: OpeningJob, use: Callable[[bytes], T], chunk: bytes) -> tuple[T, int]:
    begin_task()
    reports, unopenable = open_one(job, chunk)
    return use(reports), unopenable


def _chunks(parts: Iterable[bytes], width: int) -> Iterator[bytes]:
    """Give a batch in chunks of one length, the last one shorter; its stored chunks may differ in length."""
    size = max(1, min(CHUNK, CHUNK_BYTES // width)) * width
    held = bytearray()
    for part in parts:
        held += part
        whole = len(held) - len(held) % size
        yield from (bytes(held[start : start + size]) for start in range(0, whole, size))
        del held[:whole]
    if held:
        yield bytes(held)
