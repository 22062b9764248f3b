"""Group commit: one thread writes to a SQLite file, and jobs that wait together share one transaction and its sync.

A job's result is given out only after its transaction is synced, so whoever has a result may rely on it being on disk.
A job that raises a `HubbubError` fails alone: others of its transaction are committed. A failure of the disk takes the
whole transaction back, and all its jobs fail: none was acknowledged. The thread itself survives whatever is raised.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError, as_store_error
from hubbub.service.observability.timing import Observe, unobserved

GROUP_LIMIT = 1000
"""Most jobs in one transaction, so that the first of them does not wait for ever."""

PROBE_SECONDS = 30.0
"""How long a store whose last write failed may be idle before a write of no consequence is tried: whoever waits for
what failed tries again sooner, and the trouble of a store that nobody uses must end, too."""

GATHER_SECONDS = 0.003
"""How long jobs gather after a transaction that had more than one: under load fewer, larger ones cost less."""

_LOG = logging.getLogger(__name__)


class Transaction(Protocol):
    """What the jobs of one transaction work on, and have gathered."""

    def flush(self) -> None:
        """Write what was gathered; called before the commit."""

    def settle(self) -> None:
        """Show what was written to everyone; called after the commit, before any result is given out."""

    def abandon(self) -> None:
        """Forget what was gathered; called after a rollback."""


U = TypeVar("U", bound=Transaction)
T = TypeVar("T")
Failed = Callable[[Exception], HubbubError]
"""Makes the error that a transaction's jobs fail with, of what went wrong."""

Outcome = Callable[[Exception | None], None]
"""Is told what a transaction failed with, and None after each that wrote something; called from any thread."""


def untold(_error: Exception | None) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class _Job(Generic[U]):
    work: Callable[[U], Any]
    future: asyncio.Future[Any]
    alone: bool = False
    bare: bool = False


_Result = tuple[asyncio.Future[Any], Any, BaseException | None]


class GroupCommit(Generic[U]):
    """Runs jobs on `connection`, in the order they were given; `begin` makes what each transaction's jobs work on.

    With `savepoints` a job may write before it fails, with whatever error: what it wrote is taken back. Without, which
    is faster, a job that raises a `HubbubError` must have changed nothing, and any other error fails all jobs. `failed`
    makes the error for what the disk did not take; `observe` is told how many seconds each transaction took,
    `committed` of each that is synced, before anybody else.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        begin: Callable[[], U],
        *,
        observe: Observe = unobserved,
        savepoints: bool = False,
        failed: Failed = as_store_error,
        outcome: Outcome = untold,
        committed: Callable[[], None] = lambda: None,
        probe: float = PROBE_SECONDS,
    ) -> None:
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
        self._jobs: queue.SimpleQueue[_Job[U] | None] = queue.SimpleQueue()
        self._carried: _Job[U] | None = None
        self._closing = threading.Lock()
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
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

    def submit_from(self, loop: asyncio.AbstractEventLoop, work: Callable[[U], T]) -> Future[T]:
        """As `submit`, for another thread than that of the event `loop`, which must be running."""

        async def submitted() -> T:
            return await self.submit(work)

        return asyncio.run_coroutine_threadsafe(submitted(), loop)

    def _put(self, work: Callable[[U], T], *, alone: bool, bare: bool) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # The lock keeps a job from being put behind the end, where nobody would ever do it.
        with self._closing:
            if self._closed:
                raise StoreError("the store is closed; the service is stopping")
            self._jobs.put(_Job(work, future, alone, bare))
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

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._finish(group)
            except Exception as error:
                # Whatever it was: without this thread every later job would wait for ever.
                self._told(error)
                _give_out([(job.future, None, self._failed(error)) for job in group])
            if len(group) > 1:
                time.sleep(GATHER_SECONDS)
        self._commit([])  # what was gathered without a job

    def _told(self, error: Exception | None) -> None:
        self._failing = error is not None
        self._outcome(error)

    def _finish(self, group: list[_Job[U]]) -> None:
        _give_out(self._run_bare(group[0]) if group[0].bare else self._commit(group))

    def _next_group(self) -> list[_Job[U]]:
        """Wait for a job, then take those that wait behind it. Empty at the end."""
        first = self._carried or self._first()
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
                # The end, put back: it is read again when this group is done.
                self._jobs.put(None)
                break
            if job.alone:
                # It opens the next group, so that the order of the jobs is kept.
                self._carried = job
                break
            group.append(job)
        return group

    def _first(self) -> _Job[U] | None:
        while True:
            try:
                return self._jobs.get(timeout=self._probe if self._failing else None)
            except queue.Empty:
                self._try_disk()

    def _try_disk(self) -> None:
        """Write what changes nothing, to find out whether the disk takes writes again."""
        try:
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._connection.execute(f"PRAGMA user_version = {version}")
        except sqlite3.Error as error:
            self._told(error)
        else:
            self._told(None)

    def _commit(self, group: list[_Job[U]]) -> list[_Result]:
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
        if self._connection.total_changes > changes:  # a disk that is full takes a transaction that writes nothing
            self._told(None)
        self._observe(time.perf_counter() - started)
        return results

    def _settle(self, unit: U) -> None:
        try:
            unit.settle()
        except Exception as error:
            # What is in memory is behind what is on disk: from here on nothing could be decided rightly.
            message = f"what is on disk could not be shown: {error!r}; restart the service"
            self._broken = StoreError(message)
            raise self._broken from error

    def _do(self, job: _Job[U], unit: U) -> _Result:
        if self._savepoints:
            return self._do_in_savepoint(job, unit)
        try:
            return job.future, job.work(unit), None
        except StoreError:
            raise  # the store itself is in trouble, which concerns every job
        except HubbubError as error:
            return job.future, None, error

    def _do_in_savepoint(self, job: _Job[U], unit: U) -> _Result:
        self._connection.execute("SAVEPOINT job")
        try:
            result: _Result = (job.future, job.work(unit), None)
        except Exception as error:
            # Where SQLite has rolled all of it back by itself, as on a full disk, this fails, and with it every job.
            self._connection.execute("ROLLBACK TO job")
            result = (job.future, None, self._failed(error) if isinstance(error, sqlite3.Error) else error)
            if isinstance(error, sqlite3.Error):
                self._told(error)
        self._connection.execute("RELEASE job")
        return result

    def _run_bare(self, job: _Job[U]) -> list[_Result]:
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


def _give_out(results: list[_Result]) -> None:
    """Give all results to the event loop in one call: waking it is what costs."""
    try:
        results[0][0].get_loop().call_soon_threadsafe(_resolve, results)
    except RuntimeError:
        _LOG.debug("nobody waits for %d results any more", len(results))


def _resolve(results: list[_Result]) -> None:
    for future, result, error in results:
        # Who asked was cancelled; what was done for them is on disk all the same.
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
