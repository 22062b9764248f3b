"""Runs jobs in one thread, in order; jobs that wait together form a group, and the event loop gets the results."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hubbub.service.errors import StoreClosedError

W = TypeVar("W")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job(Generic[W]):
    """A job and its future; `size` counts against a group's limit, `alone` makes a group of one.

    A `bare` job runs outside of any transaction.
    """

    work: W
    future: asyncio.Future[Any]
    size: int = 1
    alone: bool = False
    bare: bool = False


Result = tuple[asyncio.Future[Any], Any, BaseException | None]
"""A future, and its result or its error."""


class JobThread(ABC, Generic[W]):
    """The thread of a store, with the jobs that wait for it; `limit` bounds the total size of a group."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[Job[W] | None] = queue.SimpleQueue()
        self._carried: Job[W] | None = None
        self._closing = threading.Lock()
        self._closed = False

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    @abstractmethod
    def _run(self) -> None:
        """Run groups of jobs until the end; after any error, later jobs must still run."""

    def _put(self, work: W, *, size: int = 1, alone: bool = False, bare: bool = False) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # The lock keeps a job from being put after the end marker: it would never run.
        with self._closing:
            if self._closed:
                raise StoreClosedError()
            self._jobs.put(Job(work, future, size, alone, bare))
        return future

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Run the waiting jobs, then end; a second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _first(self) -> Job[W] | None:
        return self._jobs.get()

    def _next_group(self) -> list[Job[W]]:
        """Wait for a job, then take the jobs that wait after it. Empty at the end."""
        first = self._carried or self._first()
        self._carried = None
        if first is None:
            return []
        group, size = [first], first.size
        while not first.alone and size < self._limit:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                # Put the end marker back: it is read again after this group.
                self._jobs.put(None)
                break
            size += job.size
            if job.alone or size > self._limit:
                # It begins the next group, which preserves the order of jobs.
                self._carried = job
                break
            group.append(job)
        return group


def give_out(results: list[Result]) -> None:
    """Pass all results to the event loop in one call, since waking the loop is the main cost."""
    if not results:
        return
    try:
        results[0][0].get_loop().call_soon_threadsafe(_resolve, results)
    except RuntimeError:
        # The loop is closed.
        _LOG.debug("nobody waits for %d results any more", len(results))


def _resolve(results: list[Result]) -> None:
    for future, result, error in results:
        # The caller was cancelled; the work of its job is on disk nevertheless.
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
