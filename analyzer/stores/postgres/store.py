"""The store on PostgreSQL: what it acknowledged is committed on the server's disk and in the keyring's file.

A change of both has an order in which it can be repeated. Secrets are in the keyring before the database refers to
their round, and are destroyed there after the database records it. After a kill in between, the next start completes
the change. If the keyring could not be written, the next change completes it; until then secrets that the database
records as destroyed are not read.

One process at a time may use it, on one thread, so operations do not overlap.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import psycopg

from hubbub.analyzer.records import Past, ReceivedBatch, RoundProgress
from hubbub.analyzer.released_rounds import known, past
from hubbub.analyzer.stores.postgres.keyring import AnalyzerKeyring
from hubbub.analyzer.stores.postgres.tables import AnalyzerPostgresTables
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, Release
from hubbub.protos.records.results import RoundId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.errors import StoreError, StoreFault
from hubbub.service.ledger.charges import Charges
from hubbub.service.ledger.release_chain import Signed
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.postgres import ledger
from hubbub.service.postgres.binding import bind, check_new
from hubbub.service.postgres.kept_feed import DatabaseFeed
from hubbub.service.postgres.schema import Schema, bring_forward
from hubbub.service.postgres.sessions import Connection
from hubbub.service.postgres.single_writer import SingleWriterSessions
from hubbub.service.postgres.threads import Threads
from hubbub.service.receiving.inbox import InboxOperations

T = TypeVar("T")

SCHEMA = Schema("hubbub_analyzer", "hubbub.analyzer.stores.postgres")
"""The name of the store's schema in a database, and the package with its migrations."""

RETRY_SECONDS = 5.0
"""Seconds until a caller may try again after the server or the keyring's disk refused something."""

_LOG = logging.getLogger(__name__)


class AnalyzerPostgresStore(InboxOperations[AnalyzerPostgresTables, ReceivedBatch]):
    """The store (`stores.protocol.AnalyzerStore`) in a database, with its keyring, for one process at a time."""

    @staticmethod
    def create(folder: Path, address: str) -> Path:
        """Create a keyring in `folder` for a database without a store, and return its file.

        Raises:
            StoreError: if there is a keyring or a store already; then nothing was created.
        """
        bring_forward(address, SCHEMA)
        check_new(address, SCHEMA, "an analyzer's")
        path = AnalyzerKeyring.create(folder)
        AnalyzerPostgresStore(AnalyzerKeyring(folder), address).close()
        return path

    @classmethod
    def open(
        cls, folder: Path, address: str, observe: Observe = unobserved, *, incidents: Incidents | None = None
    ) -> AnalyzerPostgresStore:
        """Open the store in a database with the keyring in `folder`; see `__init__`."""
        return cls(AnalyzerKeyring(folder, incidents=incidents), address, observe, incidents=incidents)

    def __init__(
        self,
        keyring: AnalyzerKeyring,
        address: str,
        observe: Observe = unobserved,
        *,
        connection: type[Connection] = psycopg.Connection,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the store in a database; `observe` gets the seconds of each transaction.

        `incidents` gets the server's failures; `connection` is the class of the connections to it.

        Raises:
            StoreError: if the server cannot be used, another process uses the store, a newer version wrote the
                database, or it has another keyring. The keyring is closed then.
        """
        self._keyring = keyring
        self._threads = Threads(1)
        self._waiting = 0
        self._left: set[tuple[bytes, int]] = set()
        self._failed: tuple[float, Refusal | None] = (0.0, None)
        with contextlib.ExitStack() as opened:
            opened.callback(keyring.close)
            bring_forward(address, SCHEMA)
            self._sessions = SingleWriterSessions(
                address, SCHEMA.name, "analyzer", observe, connection=connection, incidents=incidents
            )
            opened.callback(self._sessions.close)
            self._sessions.change(lambda connection: bind(connection, keyring, address))
            self.kept_feed = DatabaseFeed(self._sessions)
            # Only now: `bind` has checked that the keyring belongs to this database.
            keyring.accept()
            keyring.clean()
            # A killed process may have committed that secrets are to be destroyed, and still have them.
            self._left.update(
                self._sessions.look(lambda connection: AnalyzerPostgresTables(connection, keyring).to_destroy())
            )
            self._destroy_left()
            opened.pop_all()

    @property
    def waiting(self) -> int:
        """The number of operations that wait for the store's thread."""
        # One of those that are counted is running.
        return max(0, self._waiting - 1)

    def close(self) -> None:
        """Finish waiting operations, and close the connections and the keyring."""
        self._threads.shutdown()
        self._sessions.close()
        self._keyring.close()

    # How operations run

    async def _do(self, work: Callable[[], T]) -> T:
        asked = time.monotonic()
        self._waiting += 1
        try:
            return await self._threads.do(lambda: self._done(work, asked))
        finally:
            self._waiting -= 1

    def _done(self, work: Callable[[], T], asked: float) -> T:
        when, refusal = self._failed
        if refusal is not None and asked < when:
            # It waited while the server did not answer: it fails now, instead of waiting as long again.
            raise Refusal(refusal.reason, refusal.message, refusal.retry_after)
        try:
            return _refusing(work)
        except Refusal as error:
            if isinstance(error.__cause__, StoreError):
                # A new object: the one that was raised keeps references to the request.
                self._failed = time.monotonic(), Refusal(error.reason, error.message, error.retry_after)
            raise

    async def _look(self, work: Callable[[AnalyzerPostgresTables], T]) -> T:
        return await self._do(
            lambda: self._sessions.look(lambda connection: work(AnalyzerPostgresTables(connection, self._keyring)))
        )

    async def _change(self, work: Callable[[AnalyzerPostgresTables], T]) -> T:
        """Run an operation in one transaction; once that is on disk, destroy the secrets that it names."""

        def job(connection: Connection) -> tuple[T, set[tuple[bytes, int]]]:
            tables = AnalyzerPostgresTables(connection, self._keyring)
            return work(tables), tables.destroyed

        def changed() -> T:
            result, destroyed = self._sessions.change(job)
            self._left |= destroyed
            try:
                self._destroy_left()
            except StoreError as error:
                # The operation is done. The next change retries the destruction, and erasing requires it.
                _LOG.warning("the keyring still has the secrets of a round that is over: %s", error)
            return result

        return await self._do(changed)

    def _destroy_left(self) -> None:
        for round_ in sorted(self._left):
            self._keyring.destroy(round_)
            self._left.discard(round_)

    # Tasks

    async def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        given = list(tasks)
        await self._change(lambda tables: tables.add_tasks(given))

    async def task(self, task_id: bytes) -> SignedTask | None:
        return await self._look(lambda tables: tables.task(task_id))

    def _chunk_after(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        def work(connection: Connection) -> tuple[int, bytes] | None:
            return AnalyzerPostgresTables(connection, self._keyring).chunk_after(batch, offset)

        return _refusing(lambda: self._sessions.look(work))

    # Releases

    async def known(self, task_id: bytes) -> Known:
        """Return the known releases of a task."""

        def work(tables: AnalyzerPostgresTables) -> Known:
            releases = ledger.releases_of(tables.connection, task_id)
            return known(tables, task_id, releases, ledger.last_of(tables.connection, task_id))

        return await self._look(work)

    async def chains(self) -> Mapping[bytes, Sequence[tuple[Release, bytes]]]:
        return await self._look(lambda tables: ledger.releases(tables.connection))

    async def records(self) -> Sequence[Signed]:
        """Return the records of all announced batches."""
        return await self._look(AnalyzerPostgresTables.records)

    # Counting

    async def commit(
        self, batch: BatchId, counts: bytes, attestation: bytes, committed: Committed, charges: Charges
    ) -> Committed:
        """Store the counts of a batch, and charge for it; return the stored commit."""
        return await self._change(lambda tables: tables.commit(batch, counts, attestation, committed, charges))

    async def charges(self, task_id: bytes) -> Charges:
        return await self._look(lambda tables: ledger.charges_of(tables.connection, task_id))

    async def ledgers(self) -> Mapping[bytes, Charges]:
        return await self._look(lambda tables: ledger.charges(tables.connection))

    async def counted(self) -> Mapping[tuple[bytes, int], int]:
        """Return the rounds with a committed batch, each with its task's number of queries."""
        return await self._look(AnalyzerPostgresTables.counted)

    # Certificates

    async def uncertified(self) -> list[tuple[bytes, int]]:
        """Return the rounds with all batches committed but no certificate."""
        return await self._look(AnalyzerPostgresTables.uncertified)

    async def past(self, task_id: bytes, round_number: int) -> Past:
        def work(tables: AnalyzerPostgresTables) -> Past:
            return past(tables, task_id, ledger.releases_of(tables.connection, task_id), round_number)

        return await self._look(work)

    async def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        await self._change(lambda tables: tables.certify(task_id, round_number, document, withheld))

    async def unerased(self) -> list[tuple[bytes, int]]:
        """Return the certified rounds that still have envelopes."""
        return await self._look(AnalyzerPostgresTables.unerased)

    async def erase_some(self, task_id: bytes, round_number: int) -> bool:
        """Erase the envelopes of a certified round, all at once; there are never more."""

        def work(tables: AnalyzerPostgresTables) -> None:
            # Secrets first: traces of a dropped table that the server keeps must be unreadable.
            self._destroy_left()
            tables.erase(task_id, round_number)

        await self._change(work)
        return False

    async def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        return await self._look(lambda tables: tables.certificate(task_id, round_number))

    async def certified(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, in the order in which they were certified."""
        return await self._look(lambda tables: tables.certified(task_id))

    async def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """Return the progress of the rounds that have a key, oldest key first."""
        return await self._look(lambda tables: tables.progress(task_id))


def _refusing(work: Callable[[], T]) -> T:
    """Run work; if the server or the keyring's disk fails now, refuse with a time to come again."""
    try:
        return work()
    except StoreError as error:
        if error.fault is not StoreFault.DATABASE and not isinstance(error.__cause__, (sqlite3.Error, OSError)):
            raise
        raise Refusal(Reason.NOT_READY, f"the analyzer's store takes nothing now: {error}", RETRY_SECONDS) from error
