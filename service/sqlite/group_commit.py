"""Writes to a SQLite file in one thread; jobs that wait together share one transaction and its sync.

A job's result is given out only after its transaction is synced, so a caller with a result may rely on the disk. A job
that raises a `HubbubError` fails alone: the others of its transaction are committed. A failure of the disk rolls the
whole transaction back, and all its jobs fail; none was acknowledged. The thread itself survives every exception.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError, as_store_error
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.runtime.job_thread import Job, JobThread, Result, give_out

GROUP_LIMIT = 1000
"""Most jobs in one transaction, so that the first of them does not wait too long."""

PROBE_SECONDS = 30.0
"""How long a store whose last write failed may be idle before it tries a write that changes nothing. Callers retry
sooner, but the incident of a store that nobody uses must end, too."""

GATHER_SECONDS = 0.003
"""How long jobs gather after a transaction of several jobs: under load, fewer and larger transactions cost less."""

_LOG = logging.getLogger(__name__)


class Transaction(Protocol):
    """The state of one transaction: the object of its jobs' work, and the writes that they gathered."""

    def flush(self) -> None:
        """Write the gathered changes; called before the commit."""

    def settle(self) -> None:
        """Publish the written changes; called after the commit, before any result is given out."""

    def abandon(self) -> None:
        """Discard the gathered changes; called after a rollback."""


U = TypeVar("U", bound=Transaction)
T = TypeVar("T")
Failed = Callable[[Exception], HubbubError]
"""Turns the cause of a failed transaction into the error of its jobs."""

Outcome = Callable[[Exception | None], None]
"""Called with the error of each failed transaction, and with None after each that wrote; from any thread."""


def unreported(_error: Exception | None) -> None:
    """Report to nobody."""


class GroupCommit(JobThread[Callable[[U], Any]]):
    """Runs jobs on `connection`, in order; `begin` makes the object that each transaction's jobs work on.

    With `savepoints` a job may write before it fails, with any error: its writes are rolled back. Without, which is
    faster, a job that raises a `HubbubError` must have changed nothing, and any other error fails all jobs. `failed`
    makes the error of a failed write. `observe` receives the seconds of each transaction. `committed` is called after
    each sync, before any other callback.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        begin: Callable[[], U],
        *,
        observe: Observe = unobserved,
        savepoints: bool = False,
        failed: Failed = as_store_error,
        outcome: Outcome = unreported,
        committed: Callable[[], None] = lambda: None,
        probe: float = PROBE_SECONDS,
    ) -> None:
        super().__init__(GROUP_LIMIT)
        self._connection = connection
        self._begin = begin
        self._observe = observe
        self._savepoints = savepoints
        self._failed = failed
        self._outcome = outcome
        self._committed = committed
        self._probe = probe
        self._failing = False
        self._broken: StoreError | None = None
        self._start()

    def submit(self, work: Callable[[U], T], *, alone: bool = False) -> asyncio.Future[T]:
        """Run a job; its result comes when it is on disk. `alone` gives a long job its own transaction.

        Raises:
            StoreError: if the store was closed.
        """
        return self._put(work, alone=alone)

    def submit_bare(self, work: Callable[[U], T]) -> asyncio.Future[T]:
        """Run a job outside of any transaction, such as truncating the log.

        Raises:
            StoreError: if the store was closed.
        """
        return self._put(work, alone=True, bare=True)

    def submit_from(self, loop: asyncio.AbstractEventLoop, work: Callable[[U], T]) -> Future[T]:
        """Run a job like `submit`, from another thread than that of the event `loop`, which must be running."""

        async def submitted() -> T:
            return await self.submit(work)

        return asyncio.run_coroutine_threadsafe(submitted(), loop)

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._finish(group)
            except Exception as error:
                # Catch everything: without this thread every later job would wait forever.
                self._told(error)
                give_out([(job.future, None, self._failed(error)) for job in group])
            if len(group) > 1:
                time.sleep(GATHER_SECONDS)
        self._commit([])  # writes that were gathered without a job

    def _told(self, error: Exception | None) -> None:
        self._failing = error is not None
        self._outcome(error)

    def _finish(self, group: list[Job[Callable[[U], Any]]]) -> None:
        give_out(self._run_bare(group[0]) if group[0].bare else self._commit(group))

    def _first(self) -> Job[Callable[[U], Any]] | None:
        while True:
            try:
                return self._jobs.get(timeout=self._probe if self._failing else None)
            except queue.Empty:
                self._try_disk()

    def _try_disk(self) -> None:
        """Write without a change, to find out whether the disk accepts writes again."""
        try:
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._connection.execute(f"PRAGMA user_version = {version}")
        except sqlite3.Error as error:
            self._told(error)
        else:
            self._told(None)

    def _commit(self, group: list[Job[Callable[[U], Any]]]) -> list[Result]:
        if self._broken is not None:
            return [(job.future, None, self._broken) for job in group]
        unit = self._begin()
        started, changes = time.perf_counter(), self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            results = [self._do(job, unit) for job in group]
            unit.flush()
            self._connection.execute("COMMIT")
        except Exception as error:
            self._told(error)
            self._take_back(unit)
            return [(job.future, None, self._failed(error)) for job in group]
        self._committed()
        self._settle(unit)
        if self._connection.total_changes > changes:  # a transaction without writes succeeds even on a full disk
            self._told(None)
        self._observe(time.perf_counter() - started)
        return results

    def _settle(self, unit: U) -> None:
        try:
            unit.settle()
        except Exception as error:
            # Memory no longer matches the disk: no later decision would be right.
            message = f"the state in memory differs from the disk after an error: {error!r}; restart the service"
            self._broken = StoreError(message)
            raise self._broken from error

    def _do(self, job: Job[Callable[[U], Any]], unit: U) -> Result:
        if self._savepoints:
            return self._do_in_savepoint(job, unit)
        try:
            return job.future, job.work(unit), None
        except StoreError:
            raise  # the store itself failed, which concerns every job
        except HubbubError as error:
            return job.future, None, error

    def _do_in_savepoint(self, job: Job[Callable[[U], Any]], unit: U) -> Result:
        self._connection.execute("SAVEPOINT job")
        try:
            result: Result = (job.future, job.work(unit), None)
        except Exception as error:
            # If SQLite has rolled everything back by itself, as on a full disk, this fails, and so does every job.
            self._connection.execute("ROLLBACK TO job")
            result = (job.future, None, self._failed(error) if isinstance(error, sqlite3.Error) else error)
            if isinstance(error, sqlite3.Error):
                self._told(error)
        self._connection.execute("RELEASE job")
        return result

    def _run_bare(self, job: Job[Callable[[U], Any]]) -> list[Result]:
        try:
            result = job.work(self._begin())
            self._committed()
            return [(job.future, result, None)]
        except Exception as error:
            if isinstance(error, (sqlite3.Error, OSError)):
                self._told(error)
            return [(job.future, None, error if isinstance(error, HubbubError) else self._failed(error))]

    def _take_back(self, unit: U) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            _LOG.exception("a rollback failed")
        finally:
            unit.abandon()
