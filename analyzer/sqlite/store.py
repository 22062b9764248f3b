"""The store in one SQLite file. An answer is given after its transaction is synced.

Operations that wait together share one transaction, each in a savepoint of its own (`service.commits`). After something
was erased, the freed pages are zeroed in the file, given back, and the write-ahead log is cut to nothing before the
answer.
"""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from hubbub.analyzer.records import History, Past, RoundProgress, StoredBatch
from hubbub.analyzer.sqlite.past import known, past
from hubbub.analyzer.sqlite.schema import FILE_NAME, LAYOUT
from hubbub.analyzer.sqlite.tables import Remains, Tables
from hubbub.protos.batch import BatchId, BatchRecord
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.releases import NO_RELEASES, Known, Release, Stretch
from hubbub.protos.results import RoundId
from hubbub.protos.signed import SignedDocument
from hubbub.protos.signed_task import SignedTask
from hubbub.service.chain_table import all_chains
from hubbub.service.chains import Signed
from hubbub.service.charges import Charges
from hubbub.service.commits import GroupCommit, Outcome
from hubbub.service.database import Database
from hubbub.service.errors import StoreError, damaged, is_damage
from hubbub.service.keys import NewRoundKey
from hubbub.service.ledger_table import all_charges, charges_of
from hubbub.service.receiving import Check, StoredKey
from hubbub.service.stages import Observe, unobserved
from hubbub.service.store_file import create
from hubbub.service.troubles import Troubles

RETRY_SECONDS = 5.0
"""When to try again after the disk refused a write."""

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class TablesTransaction:
    """One transaction: its tables, and the cleaning of the files after it (`service.commits.Transaction`)."""

    def __init__(self, database: Database, remains: Remains, outcome: Outcome) -> None:
        self.tables = Tables(database.writer, remains)
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


class SqliteStore:
    """The store (`analyzer.store.Store`) in a folder, for one process at a time."""

    @staticmethod
    def create(folder: Path) -> Path:
        """Make a new store in `folder`, and return its file.

        Raises:
            StoreError: where there is one already, or something is left of one; nothing was made then.
        """
        return create(folder, FILE_NAME, LAYOUT)

    def __init__(
        self,
        folder: Path,
        observe: Observe = unobserved,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        commits: type[GroupCommit[TablesTransaction]] = GroupCommit,
        troubles: Troubles | None = None,
    ) -> None:
        """Open the store in `folder`; `observe` is told how many seconds each transaction took.

        `troubles` are told what the disk does not take. `connection` is the class of the
        connections to the file, `commits` that of what writes through them.

        Raises:
            StoreError: where there is none, another process uses it, or a version wrote it that cannot be read; then
                nothing was made or touched.
        """
        self._database = Database(folder, FILE_NAME, LAYOUT, connection)
        self._reading = threading.Lock()
        try:
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
            lambda: TablesTransaction(self._database, remains, cleaned),
            observe=observe,
            savepoints=True,
            failed=_refused,
            outcome=self._outcome,
        )

    @property
    def waiting(self) -> int:
        """How many operations wait for the thread that writes."""
        return self._commits.waiting

    def close(self) -> None:
        """Finish what waits, and close the file."""
        self._commits.close()
        self._database.close()

    async def _do(self, operation: Callable[[Tables], T]) -> T:
        """Do an operation; its result is there when it is on disk. Reads go this way too: they see every change."""
        return await self._commits.submit(lambda unit: operation(unit.tables))

    # Tasks

    async def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        """Remember signed tasks; one that is known stays as it is."""
        await self._do(functools.partial(Tables.add_tasks, tasks=list(tasks)))

    async def task(self, task_id: bytes) -> SignedTask | None:
        """Return a task that was ever added."""
        return await self._do(functools.partial(Tables.task, task_id=task_id))

    # Keys

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key; None where none was made yet."""
        return await self._do(lambda tables: tables.key(task_id, round_number))

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round its key, and return the key that it has from now on."""
        return await self._do(lambda tables: tables.add_key(task_id, round_number, key))

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys that are not valid any more and that no batch was announced for; return how many."""
        return await self._do(functools.partial(Tables.expire_keys, now=now))

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase what a round was delivered with and its private key."""
        await self._do(lambda tables: tables.abandon(task_id, round_number))

    # Receiving

    async def batch(self, batch: BatchId) -> StoredBatch | None:
        """Return a batch; None where it was not announced."""
        return await self._do(functools.partial(Tables.batch, batch=batch))

    async def batches(self, task_id: bytes, round_number: int) -> list[StoredBatch]:
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
        return await self._do(functools.partial(Tables.append, stretch=stretch))

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
            "SELECT first, envelopes FROM stretches JOIN batches ON batches.id = stretches.batch"
            " JOIN rounds ON rounds.id = batches.round JOIN tasks ON tasks.id = rounds.task"
            " WHERE task_id = ? AND rounds.round = ? AND query = ? AND first > ? ORDER BY first LIMIT 1",
            (batch.task_id, batch.round, batch.query, offset),
        ).fetchone()
        return row

    def _read(self, work: Callable[[], T]) -> T:
        with self._reading:
            try:
                return work()
            except sqlite3.Error as error:
                self._outcome(error)
                raise _refused(error) from error

    async def forget_envelopes(self, batch: BatchId) -> None:
        """Forget what arrived of a batch that is not committed."""
        await self._do(functools.partial(Tables.forget_envelopes, batch=batch))

    # Releases

    async def known(self, task_id: bytes) -> Known:
        """Return what is known of a task's releases."""
        return await self._do(lambda _: known(self._database.writer, task_id))

    async def chains(self) -> Mapping[bytes, Sequence[tuple[Release, bytes]]]:
        """Return the releases of all tasks that have any, in order, each with its stored head."""
        return await self._do(lambda _: all_chains(self._database.writer))

    async def records(self) -> Sequence[Signed]:
        """Return the records of all batches that were announced."""
        return await self._do(Tables.records)

    # Counting

    async def commit(self, batch: BatchId, counts: bytes, committed: Committed, charges: Charges) -> Committed:
        """Store what was counted of a batch, and charge for it; return what the batch is committed with."""
        return await self._do(lambda tables: tables.commit(batch, counts, committed, charges))

    async def charges(self, task_id: bytes) -> Charges:
        """Return a task's ledger, oldest charge first."""
        return await self._do(lambda _: charges_of(self._database.writer, task_id))

    async def ledgers(self) -> Mapping[bytes, Charges]:
        """Return the ledgers of all tasks that have charges, by their ids."""
        return await self._do(lambda _: all_charges(self._database.writer))

    async def counted(self) -> Mapping[tuple[bytes, int], int]:
        """Return the rounds of which a batch was committed, with how many queries their task has."""
        return await self._do(Tables.counted)

    # Certificates

    async def uncertified(self) -> list[tuple[bytes, int]]:
        """Return the rounds whose batches are all committed and that have no certificate."""
        return await self._do(Tables.uncertified)

    async def history(self, task_id: bytes, round_number: int) -> History:
        """Return the task's certified rounds below a round, rising, then itself."""
        return await self._do(lambda tables: tables.history(task_id, round_number))

    async def past(self, task_id: bytes, round_number: int) -> Past:
        """Return what the certificate of a round that is counted composes."""
        return await self._do(lambda tables: past(self._database.writer, tables, task_id, round_number))

    async def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        """Store a round's certificate, destroy its private key, and erase the counts of the queries `withheld`."""
        await self._do(lambda tables: tables.certify(task_id, round_number, document, withheld))

    async def unerased(self) -> list[tuple[bytes, int]]:
        """Return the certified rounds whose envelopes are still there."""
        return await self._do(Tables.unerased)

    async def erase_some(self, task_id: bytes, round_number: int) -> bool:
        """Erase some of the envelopes of a certified round; return whether there are more."""
        return await self._do(lambda tables: tables.erase_some(task_id, round_number))

    async def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        """Return a round's certificate, if it was made."""
        return await self._do(lambda tables: tables.certificate(task_id, round_number))

    async def certified(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, in the order in which they were certified."""
        return await self._do(functools.partial(Tables.certified, task_id=task_id))

    async def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """Return how far the rounds are that a key was made for, oldest key first."""
        return await self._do(functools.partial(Tables.progress, task_id=task_id))


def _refused(error: Exception) -> HubbubError:
    if is_damage(error):
        what = f"the analyzer's store is damaged ({error}); the analyzer's log names it and says what to do"
    else:
        what = f"the analyzer's store takes nothing now: {error}; is its disk full?"
    return Refusal(Reason.NOT_READY, what, RETRY_SECONDS)
