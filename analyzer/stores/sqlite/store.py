"""The store in one SQLite file: an answer is given after its transaction is synced.

Operations that wait together share one transaction, each in a savepoint of its own (`service.sqlite.group_commit`).
After an erasure, the freed pages are zeroed in the file and given back, and the write-ahead log is cut to nothing
before the answer.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from hubbub.analyzer.records import Past, ReceivedBatch, RoundProgress
from hubbub.analyzer.released_rounds import known, past
from hubbub.analyzer.stores.sqlite.schema import FILE_NAME, LAYOUT
from hubbub.analyzer.stores.sqlite.tables import AnalyzerSqliteTables
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, Release
from hubbub.protos.records.results import RoundId
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.ledger.charges import Charges
from hubbub.service.ledger.release_chain import Signed
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.receiving.inbox_store import InboxStore, TablesTransaction
from hubbub.service.sqlite.files import create
from hubbub.service.sqlite.group_commit import GroupCommit
from hubbub.service.sqlite.ledger_table import all_charges, charges_of
from hubbub.service.sqlite.release_table import all_chains, last_of, releases_of


class AnalyzerSqliteStore(InboxStore[AnalyzerSqliteTables, ReceivedBatch]):
    """The store (`analyzer.stores.protocol.AnalyzerStore`) in a folder, for one process at a time."""

    @staticmethod
    def create(folder: Path) -> Path:
        """Create a store in `folder`, and return its file.

        Raises:
            StoreError: if there is a store already, or a part of one; then nothing was created.
        """
        return create(folder, FILE_NAME, LAYOUT)

    def __init__(
        self,
        folder: Path,
        observe: Observe = unobserved,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        commits: type[GroupCommit[TablesTransaction[AnalyzerSqliteTables]]] = GroupCommit,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the store in `folder`; see `InboxStore`."""
        super().__init__(
            *(folder, FILE_NAME, LAYOUT),
            AnalyzerSqliteTables,
            observe,
            who="analyzer",
            connection=connection,
            commits=commits,
            incidents=incidents,
        )

    # Tasks

    async def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        await self._change(functools.partial(AnalyzerSqliteTables.add_tasks, tasks=list(tasks)))

    async def task(self, task_id: bytes) -> SignedTask | None:
        return await self._change(functools.partial(AnalyzerSqliteTables.task, task_id=task_id))

    # Releases

    async def known(self, task_id: bytes) -> Known:
        """Return the known releases of a task."""
        writer = self._database.writer
        return await self._change(
            lambda tables: known(tables, task_id, releases_of(writer, task_id), last_of(writer, task_id))
        )

    async def chains(self) -> Mapping[bytes, Sequence[tuple[Release, bytes]]]:
        return await self._change(lambda _: all_chains(self._database.writer))

    async def records(self) -> Sequence[Signed]:
        """Return the records of all announced batches."""
        return await self._change(AnalyzerSqliteTables.records)

    # Counting

    async def commit(
        self, batch: BatchId, counts: bytes, attestation: bytes, committed: Committed, charges: Charges
    ) -> Committed:
        """Store the counts of a batch, and charge for it; return the stored commit."""
        return await self._change(lambda tables: tables.commit(batch, counts, attestation, committed, charges))

    async def charges(self, task_id: bytes) -> Charges:
        return await self._change(lambda _: charges_of(self._database.writer, task_id))

    async def ledgers(self) -> Mapping[bytes, Charges]:
        return await self._change(lambda _: all_charges(self._database.writer))

    async def counted(self) -> Mapping[tuple[bytes, int], int]:
        """Return the rounds with a committed batch, each with its task's number of queries."""
        return await self._change(AnalyzerSqliteTables.counted)

    # Certificates

    async def uncertified(self) -> list[tuple[bytes, int]]:
        """Return the rounds with all batches committed but no certificate."""
        return await self._change(AnalyzerSqliteTables.uncertified)

    async def past(self, task_id: bytes, round_number: int) -> Past:
        writer = self._database.writer
        return await self._change(lambda tables: past(tables, task_id, releases_of(writer, task_id), round_number))

    async def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        await self._change(lambda tables: tables.certify(task_id, round_number, document, withheld))

    async def unerased(self) -> list[tuple[bytes, int]]:
        """Return the certified rounds that still have envelopes."""
        return await self._change(AnalyzerSqliteTables.unerased)

    async def erase_some(self, task_id: bytes, round_number: int) -> bool:
        return await self._change(lambda tables: tables.erase_some(task_id, round_number))

    async def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        return await self._change(lambda tables: tables.certificate(task_id, round_number))

    async def certified(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, in the order in which they were certified."""
        return await self._change(functools.partial(AnalyzerSqliteTables.certified, task_id=task_id))

    async def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """Return the progress of the rounds that have a key, oldest key first."""
        return await self._change(functools.partial(AnalyzerSqliteTables.progress, task_id=task_id))
