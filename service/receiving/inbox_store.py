"""Stores received batches in one SQLite file. An answer is given after its transaction is synced.

Operations that wait together share one transaction, each in its own savepoint (`service.sqlite.group_commit`). After an
erasure, and before the answer, the freed pages are zeroed in the file and returned, and the write-ahead log is
truncated.
"""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from hubbub.protos.errors import HubbubError
from hubbub.protos.records.batch import BatchId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sqlite_layout import Layout
from hubbub.service.errors import StoreError, damaged, is_damage
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.receiving.inbox import InboxOperations, Made
from hubbub.service.receiving.inbox_tables import Remains
from hubbub.service.receiving.receiver import D
from hubbub.service.sqlite.database import Database
from hubbub.service.sqlite.group_commit import GroupCommit, Outcome

RETRY_SECONDS = 5.0
"""How long a sender waits after the disk refused a write."""

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class TablesTransaction(Generic[Made]):
    """A transaction of `service.sqlite.group_commit`: its tables, and the cleanup of the files after it."""

    def __init__(self, database: Database, tables: Made, remains: Remains, outcome: Outcome) -> None:
        self.tables = tables
        self._database = database
        self._remains = remains
        self._outcome = outcome

    def flush(self) -> None:
        """Do nothing: operations write immediately."""

    def settle(self) -> None:
        """Remove erased data from the files. If that fails, the next transaction or start does it."""
        if not self._remains.erased and not self._remains.destroyed:
            return
        try:
            if self._remains.erased:
                self._database.clean()
            else:
                self._database.cut_log()
        except sqlite3.Error as error:
            self._outcome(error)
        except StoreError as error:
            _LOG.debug("%s", error)  # a reader uses the log, for a short time
        else:
            self._remains.erased = self._remains.destroyed = False
            self._outcome(None)

    def abandon(self) -> None:
        """Do nothing. The remains stay recorded: one cleanup too many does no harm."""


class InboxStore(InboxOperations[Made, D]):
    """The common part of every receiver's store in a folder (`receiver.Inbox`), for one process at a time.

    `who` names the service in messages; `tables` makes its tables.
    """

    def __init__(
        self,
        folder: Path,
        file_name: str,
        layout: Layout,
        tables: Callable[[sqlite3.Connection, Remains], Made],
        observe: Observe = unobserved,
        *,
        who: str,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        commits: type[GroupCommit[TablesTransaction[Made]]] = GroupCommit,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the store in `folder`; `observe` receives the seconds of each transaction.

        `incidents` receives failures of the disk. `connection` is the class of the connections to the file, `commits`
        the class that writes through them.

        Raises:
            StoreError: if there is none, another process uses it, or a version wrote it that cannot be read; then
                nothing was made or touched.
        """
        self._who = who
        self._database = Database(folder, file_name, layout, connection)
        self._reading = threading.Lock()
        try:
            self._database.accept()
            # A killed process may have committed an erasure without cleaning the files.
            self._database.clean()
        except (sqlite3.Error, StoreError) as error:
            self._database.close()
            if is_damage(error):
                raise damaged(error, self._database.path) from error
            raise StoreError(f"cannot clean the store in {folder}: {error}; check the disk") from error
        remains = Remains()
        known = incidents or Incidents()
        self._outcome = known.of_store(self._database.path)
        cleaned = known.of_store(self._database.path, "what was erased is not cut out of the files yet")
        self._commits = commits(
            self._database.writer,
            lambda: TablesTransaction(self._database, tables(self._database.writer, remains), remains, cleaned),
            observe=observe,
            # An operation may refuse after it has written; only its own writes are rolled back then.
            savepoints=True,
            failed=self._refused,
            outcome=self._outcome,
            committed=self._database.committed,
        )

    @property
    def waiting(self) -> int:
        """How many operations wait for the thread that writes."""
        return self._commits.waiting

    def close(self) -> None:
        """Finish what waits, and close the file."""
        self._commits.close()
        self._database.close()

    async def _change(self, work: Callable[[Made], T]) -> T:
        return await self._commits.submit(lambda unit: work(unit.tables))

    # Reads take the same path, so that they see every change.
    _look = _change

    def _chunk_after(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        return self._read(functools.partial(self._read_chunk, batch, offset))

    def _read_chunk(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        row: tuple[int, bytes] | None = self._database.reader.execute(
            "SELECT first, envelopes FROM arrived JOIN batch ON batch.key = arrived.batch"
            " JOIN round ON round.key = batch.round JOIN task ON task.key = round.task"
            " WHERE task.id = ? AND round.number = ? AND query = ? AND first > ? ORDER BY first LIMIT 1",
            (batch.task_id, batch.round, batch.query, offset),
        ).fetchone()
        return row

    def _read(self, work: Callable[[], T]) -> T:
        with self._reading:
            try:
                return work()
            except sqlite3.Error as error:
                self._outcome(error)
                raise self._refused(error) from error

    def _refused(self, error: Exception) -> HubbubError:
        if is_damage(error):
            what = f"the {self._who}'s store is damaged ({error}); the {self._who}'s log names the file and the remedy"
        else:
            what = f"the {self._who}'s store cannot be written now: {error}; is its disk full?"
        return Refusal(Reason.NOT_READY, what, RETRY_SECONDS)
