"""A thread that does jobs in order, those that wait together as one group, and gives results to the event loop."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hubbub.service.errors import StoreError

W = TypeVar("W")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job(Generic[W]):
    """What is to be done, and who waits for it; `size` counts against a group's limit, `alone` makes a group of one.

    What is `bare` is done outside of any transaction.
    """

    work: W
    future: asyncio.Future[Any]
    size: int = 1
    alone: bool = False
    bare: bool = False


Result = tuple[asyncio.Future[Any], Any, BaseException | None]
"""Who waits, and what it gets: a result or an error."""


class JobThread(ABC, Generic[W]):
    """The thread of a store, and the jobs that wait for it; `limit` is the most that jobs of one group are together."""

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
        """Do groups of jobs until there is none; whatever is raised, later jobs must be done."""

    def _put(self, work: W, *, size: int = 1, alone: bool = False, bare: bool = False) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # The lock keeps a job from being put behind the end, where nobody would ever do it.
        with self._closing:
            if self._closed:
                raise StoreError("the store is closed; the service is stopping")
            self._jobs.put(Job(work, future, size, alone, bare))
        return future

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Do what is waiting, then end; a second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _first(self) -> Job[W] | None:
        return self._jobs.get()

    def _next_group(self) -> list[Job[W]]:
        """Wait for a job, then take those that wait behind it. Empty at the end."""
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
                # The end, put back: it is read again when this group is done.
                self._jobs.put(None)
                break
            size += job.size
            if job.alone or size > self._limit:
                # It opens the next group, so that the order of the jobs is kept.
                self._carried = job
                break
            group.append(job)
        return group


def give_out(results: list[Result]) -> None:
    """Give all results to the event loop in one call: waking it is what costs."""
    if not results:
        return
    try:
        results[0][0].get_loop().call_soon_threadsafe(_resolve, results)
    except RuntimeError:
        # The loop is closed.
        _LOG.debug("nobody waits for %d results any more", len(results))


def _resolve(results: list[Result]) -> None:
    for future, result, error in results:
        # Who asked was cancelled; what was done for them is on disk all the same.
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
