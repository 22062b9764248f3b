"""The inbox of a store in one SQLite file. An answer is given after its transaction is synced.

Operations that wait together share one transaction, each in a savepoint of its own (`service.commits`). After something
was erased, the freed pages are zeroed in the file, given back, and the write-ahead log is cut to nothing before the
answer.
"""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.release_chain import NO_RELEASES, Stretch
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sqlite_versions import Layout
from hubbub.service.errors import StoreError, damaged, is_damage
from hubbub.service.observability.incidents import Troubles
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.receiving.inbox_tables import InboxTables, Remains
from hubbub.service.receiving.receiver import Check, D, StoredKey
from hubbub.service.receiving.round_keys import NewRoundKey
from hubbub.service.sqlite.database import Database
from hubbub.service.sqlite.group_commit import GroupCommit, Outcome

RETRY_SECONDS = 5.0
"""When to try again after the disk refused a write."""

T = TypeVar("T")
Made = TypeVar("Made", bound=InboxTables[Any])
_LOG = logging.getLogger(__name__)


class TablesTransaction(Generic[Made]):
    """One transaction: its tables, and the cleaning of the files after it (`service.commits.Transaction`)."""

    def __init__(self, database: Database, tables: Made, remains: Remains, outcome: Outcome) -> None:
        self.tables = tables
        self._database = database
        self._remains = remains
        self._outcome = outcome

    def flush(self) -> None:
        """Nothing was gathered: operations write at once."""

    def settle(self) -> None:
        """Take what was erased out of the files. A failure is made good after the next transaction, or at the start."""
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
            _LOG.debug("%s", error)  # a reader is in the way, and will not be for long
        else:
            self._remains.erased = self._remains.destroyed = False
            self._outcome(None)

    def abandon(self) -> None:
        """Nothing was gathered. Remains stay noted: cleaning once too often harms nothing."""


class InboxStore(Generic[Made, D]):
    """What every receiver's store in a folder has (`receiving.Inbox`), for one process at a time.

    `who` is whose store it is, in texts; `tables` makes its tables.
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
        troubles: Troubles | None = None,
    ) -> None:
        """Open the store in `folder`; `observe` is told how many seconds each transaction took.

        `troubles` are told what the disk does not take. `connection` is the class of the
        connections to the file, `commits` that of what writes through them.

        Raises:
            StoreError: where there is none, another process uses it, or a version wrote it that cannot be read; then
                nothing was made or touched.
        """
        self._who = who
        self._database = Database(folder, file_name, layout, connection)
        self._reading = threading.Lock()
        try:
            self._database.accept()
            # A process that was killed may have committed an erasure, and not yet cleaned the files of it.
            self._database.clean()
        except (sqlite3.Error, StoreError) as error:
            self._database.close()
            if is_damage(error):
                raise damaged(error, self._database.path) from error
            raise StoreError(f"cannot clean the store in {folder}: {error}; check the disk") from error
        remains = Remains()
        known = troubles or Troubles()
        self._outcome = known.of_store(self._database.path)
        cleaned = known.of_store(self._database.path, "what was erased is not cut out of the files yet")
        self._commits = commits(
            self._database.writer,
            lambda: TablesTransaction(self._database, tables(self._database.writer, remains), remains, cleaned),
            observe=observe,
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

    async def _do(self, operation: Callable[[Made], T]) -> T:
        """Do an operation; its result is there when it is on disk. Reads go this way too: they see every change."""
        return await self._commits.submit(lambda unit: operation(unit.tables))

    # Keys

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key; None where none was made yet."""
        return await self._do(lambda tables: tables.key(task_id, round_number))

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round its key, and return the key that it has from now on."""
        return await self._do(lambda tables: tables.add_key(task_id, round_number, key))

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys that are not valid any more and that no batch was announced for; return how many."""
        return await self._do(lambda tables: tables.expire_keys(now))

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase what a round was delivered with and its private key."""
        await self._do(lambda tables: tables.abandon(task_id, round_number))

    # Receiving

    async def batch(self, batch: BatchId) -> D | None:
        """Return a batch; None where it was not announced."""
        return await self._do(lambda tables: tables.batch(batch))

    async def batches(self, task_id: bytes, round_number: int) -> list[D]:
        """Return a round's announced batches, in the task's order of queries."""
        return await self._do(lambda tables: tables.batches(task_id, round_number))

    async def announce(
        self,
        record: BatchRecord,
        document: SignedDocument,
        key_set_hash: bytes,
        check: Check,
        releases: Stretch = NO_RELEASES,
    ) -> int:
        """Have `check` decide, and store the announcement; return the offset to go on from."""
        return await self._do(lambda tables: tables.announce(record, document, key_set_hash, check, releases))

    async def append(self, stretch: Envelopes) -> int:
        """Store the part of a stretch that is new, and return the offset to go on from."""
        return await self._do(lambda tables: tables.append(stretch))

    def arrived(self, batch: BatchId) -> Iterator[bytes]:
        """Give the envelopes that arrived, joined, in stretches. Blocks: it is for threads.

        Each stretch is read by itself, so that a batch that takes minutes to count keeps no log from being cut.
        """
        first = -1
        while found := self._read(functools.partial(self._stretch_after, batch, first)):
            first, envelopes = found
            yield envelopes

    def _stretch_after(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
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

    async def forget_envelopes(self, batch: BatchId) -> None:
        """Forget what arrived of a batch that is not committed."""
        await self._do(lambda tables: tables.forget_envelopes(batch))

    def _refused(self, error: Exception) -> HubbubError:
        if is_damage(error):
            what = f"the {self._who}'s store is damaged ({error}); the {self._who}'s log names it and says what to do"
        else:
            what = f"the {self._who}'s store takes nothing now: {error}; is its disk full?"
        return Refusal(Reason.NOT_READY, what, RETRY_SECONDS)
