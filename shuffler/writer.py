"""Writer: the one thread that writes, with group commit. A result is given out only after its transaction is synced.

Jobs that wait together share one transaction. A job that raises a `HubbubError` has changed nothing and fails alone;
any other exception takes the whole transaction back and all its jobs fail with `StoreError`: none was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from hubbub.protos.errors import HubbubError
from hubbub.service.stages import Observe, unobserved
from hubbub.shuffler.records import StoreError

GROUP_LIMIT = 1000
"""Most jobs in one transaction."""

GATHER_SECONDS = 0.003
"""How long jobs gather after a transaction that had more than one: under load fewer, larger ones cost less."""

_LOG = logging.getLogger(__name__)


class Unit(Protocol):
    """What the jobs of one transaction have gathered."""

    def flush(self) -> None:
        """Write what was gathered; called before the commit."""

    def settle(self) -> None:
        """Show what was written to everyone; called after the commit."""

    def abandon(self) -> None:
        """Forget what was gathered; called after a rollback."""


U = TypeVar("U", bound=Unit)
T = TypeVar("T")


@dataclass(frozen=True)
class _Job(Generic[U]):
    work: Callable[[U], Any]
    future: asyncio.Future[Any]
    alone: bool = False
    bare: bool = False


_Result = tuple[asyncio.Future[Any], Any, BaseException | None]


class Writer(Generic[U]):
    """Runs jobs on `connection`, in the order they were given; `begin` makes the unit of each transaction.

    `observe` is told how many seconds each transaction took.
    """

    def __init__(self, connection: sqlite3.Connection, begin: Callable[[], U], observe: Observe = unobserved) -> None:
        self._connection = connection
        self._begin = begin
        self._observe = observe
        self._jobs: queue.SimpleQueue[_Job[U] | None] = queue.SimpleQueue()
        self._carried: _Job[U] | None = None
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="shuffler store", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[U], T], *, alone: bool = False) -> asyncio.Future[T]:
        """Have a job done; its result is there when it is on disk. `alone` gives a long job its own transaction.

        Raises:
            StoreError: where the store was closed.
        """
        return self._put(work, alone=alone, bare=False)

    def submit_bare(self, work: Callable[[U], T]) -> asyncio.Future[T]:
        """Have a job done outside of any transaction, such as cutting the log.

        Raises:
            StoreError: where the store was closed.
        """
        return self._put(work, alone=True, bare=True)

    def _put(self, work: Callable[[U], T], *, alone: bool, bare: bool) -> asyncio.Future[T]:
        if self._closed:
            raise StoreError("the store is closed; the shuffler is stopping")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(work, future, alone, bare))
        return future

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Do what is waiting, then end."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            self._finish(group)
            if len(group) > 1:
                time.sleep(GATHER_SECONDS)
        self._commit([])  # what was gathered without a job

    def _finish(self, group: list[_Job[U]]) -> None:
        _give_out(self._run_bare(group[0]) if group[0].bare else self._commit(group))

    def _next_group(self) -> list[_Job[U]]:
        """Wait for a job, then take those that wait behind it. Empty at the end."""
        first = self._carried or self._jobs.get()
        self._carried = None
        if first is None:
            return []
        group = [first]
        while not first.alone and len(group) < GROUP_LIMIT:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            if job.alone:
                self._carried = job
                break
            group.append(job)
        return group

    def _commit(self, group: list[_Job[U]]) -> list[_Result]:
        unit = self._begin()
        started = time.perf_counter()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [_do(job, unit) for job in group]
            unit.flush()
            self._connection.execute("COMMIT")
        except Exception as error:
            _LOG.error("a transaction failed, %d jobs were taken back: %s", len(group), error)
            self._take_back(unit)
            return [(job.future, None, _as_store_error(error)) for job in group]
        unit.settle()
        self._observe(time.perf_counter() - started)
        return results

    def _run_bare(self, job: _Job[U]) -> list[_Result]:
        try:
            return [_do(job, self._begin())]
        except Exception as error:
            return [(job.future, None, _as_store_error(error))]

    def _take_back(self, unit: U) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            _LOG.exception("a rollback failed")
        unit.abandon()


def _as_store_error(error: Exception) -> StoreError:
    return error if isinstance(error, StoreError) else StoreError(f"the store could not write: {error}; check the disk")


def _do(job: _Job[U], unit: U) -> _Result:
    try:
        return job.future, job.work(unit), None
    except StoreError:
        raise
    except HubbubError as error:
        return job.future, None, error


def _give_out(results: list[_Result]) -> None:
    """Give all results to the event loop in one call: waking it is what costs."""
    try:
        results[0][0].get_loop().call_soon_threadsafe(_resolve, results)
    except RuntimeError:
        _LOG.debug("nobody waits for %d results any more", len(results))


def _resolve(results: list[_Result]) -> None:
    for future, result, error in results:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
