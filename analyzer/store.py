"""Store: the analyzer's SQLite file, written by one thread; what was answered is on disk.

Operations that wait together share one transaction (group commit), each in a savepoint of its own: one that fails takes
back what it did and nothing else. An answer is given after the transaction is synced. After something was erased, the
freed pages are zeroed in the file, given back, and the write-ahead log is cut to nothing before the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from hubbub.analyzer.tables import SCHEMA, VERSION, Tables
from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.stored import check_version
from hubbub.service import erasing
from hubbub.service.stages import Observe, unobserved

FILE_NAME = "analyzer.db"

GROUP_LIMIT = 256
"""Most operations in one transaction."""

RETRY_SECONDS = 5.0
"""When to try again after the disk refused a write."""

OLDER = "run the version that wrote it until its tasks are over, and start new tasks in an empty folder"
"""What to do with a store of an older version."""

T = TypeVar("T")
Operation = Callable[[Tables], T]
_Item = tuple[Operation[Any], "Future[Any]"]


class StoreError(HubbubError):
    """A store that cannot be opened, or was closed."""


class Store:
    """The analyzer's memory in a folder (made with mode 0700); one process at a time.

    `observe` is told how many seconds each transaction took; `connection` is the class of the connection to the file.

    Raises:
        StoreError: where another process uses it, or another version wrote it; then nothing was touched.
    """

    def __init__(
        self,
        folder: Path,
        observe: Observe = unobserved,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._observe = observe
        self._connection = _open(folder / FILE_NAME, connection)
        self._tables = Tables(self._connection)
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="analyzer store", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many operations wait for the thread that writes."""
        return self._items.qsize()

    def wait(self, operation: Operation[T]) -> T:
        """Do the operation and return its result when it is on disk. For threads; `run` is for coroutines.

        Raises:
            Refusal: NOT_READY where the disk does not take it.
            StoreError: where the store was closed.
        """
        return self._submit(operation).result()

    async def run(self, operation: Operation[T]) -> T:
        """Do the operation and return its result when it is on disk; as `wait`."""
        return await asyncio.wrap_future(self._submit(operation))

    def close(self) -> None:
        """Finish what is waiting, and close the file."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._items.put(None)
        self._thread.join()
        self._connection.close()

    def _submit(self, operation: Operation[T]) -> Future[T]:
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise StoreError("the store is closed; the service is stopping")
            self._items.put((operation, future))
        return future

    def _work(self) -> None:
        open_for_more = True
        while open_for_more:
            group, open_for_more = self._next_group()
            if group:
                self._transact(group)

    def _next_group(self) -> tuple[list[_Item], bool]:
        group: list[_Item] = []
        item = self._items.get()
        while item is not None:
            group.append(item)
            if len(group) == GROUP_LIMIT:
                return group, True
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _transact(self, group: list[_Item]) -> None:
        started = time.perf_counter()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._attempt(operation) for operation, _ in group]
            self._connection.execute("COMMIT")
            self._shrink()
            self._observe(time.perf_counter() - started)
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            outcomes = [(None, _refused(error))] * len(group)
        for (_, future), (value, failure) in zip(group, outcomes, strict=True):
            if not future.set_running_or_notify_cancel():
                continue
            if failure is None:
                future.set_result(value)
            else:
                future.set_exception(failure)

    def _attempt(self, operation: Operation[Any]) -> tuple[Any, Exception | None]:
        self._connection.execute("SAVEPOINT operation")
        try:
            outcome: tuple[Any, Exception | None] = (operation(self._tables), None)
        except Exception as error:
            self._connection.execute("ROLLBACK TO operation")
            outcome = (None, _refused(error) if isinstance(error, sqlite3.OperationalError) else error)
        self._connection.execute("RELEASE operation")
        return outcome

    def _shrink(self) -> None:
        """Take what was erased out of the files. A failure is made good after the next transaction, or at the start."""
        with contextlib.suppress(sqlite3.OperationalError):
            if self._tables.erased:
                _clean(self._connection)
                self._tables.erased = self._tables.destroyed = False
            elif self._tables.destroyed:
                _cut_log(self._connection)
                self._tables.destroyed = False


def _refused(error: Exception) -> Refusal:
    return Refusal(
        Reason.NOT_READY, f"the analyzer's store takes nothing now: {error}; is its disk full?", RETRY_SECONDS
    )


def _open(path: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    check_version(path, VERSION, "analyzer's store", StoreError, OLDER)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0, factory=factory)
    try:
        _prepare(connection)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"cannot open {path}: {error}; is another analyzer running on this folder?") from error
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    for pragma in ("locking_mode=EXCLUSIVE", "auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=FULL"):
        # As a script: each statement runs to its end, where `execute` would give back one page only.
        connection.executescript(f"PRAGMA {pragma};")
    for pragma in ("secure_delete=ON", "foreign_keys=ON"):
        # As a script: each statement runs to its end, where `execute` would give back one page only.
        connection.executescript(f"PRAGMA {pragma};")
    # The exclusive lock is taken at the first write.
    connection.execute("BEGIN EXCLUSIVE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    elif version != VERSION:  # stood in the log alone
        connection.execute("ROLLBACK")
        raise sqlite3.DatabaseError(f"it is of version {version}, this hubbub knows {VERSION}")
    connection.execute("COMMIT")
    _clean(connection)


def _cut_log(connection: sqlite3.Connection) -> None:
    """Put zeroed pages over what was deleted, and cut the write-ahead log to nothing."""
    connection.executescript("PRAGMA wal_checkpoint(TRUNCATE);")


def _clean(connection: sqlite3.Connection) -> None:
    """Write zeroed pages over what was erased, give them back, and cut the write-ahead log to nothing."""
    # As scripts: each statement runs to its end, where `execute` would give back one page only.
    connection.executescript("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA incremental_vacuum;")
    erasing.rewrite(connection)
    connection.executescript("PRAGMA wal_checkpoint(TRUNCATE);")
