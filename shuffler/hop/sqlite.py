"""The tables of a hop's store in SQLite, and its operations in addition to receiving batches."""

from __future__ import annotations

import asyncio
import functools
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, released_digest
from hubbub.protos.records.release_chain import Release
from hubbub.protos.sqlite_layout import Layout, checksum_column
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.task import Task
from hubbub.service.errors import damage_in
from hubbub.service.fixed_width import split_records
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.receiving.inbox_store import InboxStore, TablesTransaction
from hubbub.service.receiving.inbox_tables import ROUND_TABLES, InboxTables
from hubbub.service.receiving.receiver import new_part
from hubbub.service.sqlite.files import create
from hubbub.service.sqlite.group_commit import GroupCommit
from hubbub.service.sqlite.release_table import CHAIN_TABLE, insert_releases, releases_of
from hubbub.shuffler.hop.records import HopBatch, HopRoundStatus
from hubbub.shuffler.hop.store import Sign

FILE_NAME = "hop.db"

_OF_BATCH = (
    *("key", "round", "query", "reports", "dummies", "digest", "next_offset", "mixed_digest", "valid", "left_out"),
)
"""Not the records, which are signed."""

LAYOUT = Layout(
    what="hop's store",
    version=1,
    script=f"""
CREATE TABLE task (
    key INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, queries INTEGER NOT NULL,
    {checksum_column("key", "id", "queries")}
) STRICT;
-- A batch with the record it came with, and once it is permuted with the hop's own. valid: it is passed on.
CREATE TABLE batch (
    key INTEGER PRIMARY KEY,
    round INTEGER NOT NULL REFERENCES round (key),
    query INTEGER NOT NULL,
    record BLOB NOT NULL,
    signature BLOB NOT NULL,
    reports INTEGER NOT NULL,
    dummies INTEGER NOT NULL,
    digest BLOB NOT NULL,
    next_offset INTEGER NOT NULL DEFAULT 0,
    mixed_record BLOB,
    mixed_signature BLOB,
    mixed_digest BLOB,
    valid INTEGER,
    left_out TEXT,
    {checksum_column(*_OF_BATCH)},
    UNIQUE (round, query)
) STRICT;
{ROUND_TABLES}
-- The permuted list, joined, from the envelope of number `first` on.
CREATE TABLE released (
    key INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL REFERENCES batch (key),
    first INTEGER NOT NULL,
    envelopes BLOB NOT NULL,
    UNIQUE (batch, first)
) STRICT;
{CHAIN_TABLE}
""",
)


class HopTables(InboxTables[HopBatch]):
    """The operations in addition to receiving; a write is stored when its transaction ends."""

    BATCHES = (
        "SELECT query, record, signature, reports, dummies, digest, next_offset, valid, left_out,"
        " mixed_record, mixed_signature, mixed_digest FROM batch WHERE round = ?"
    )

    def _delivery(self, batch: BatchId, row: Sequence[Any]) -> HopBatch:
        _, body, signature, reports, dummies, digest, following, valid, left_out, mixed, mixed_signature, own = row
        with damage_in("a batch's"):
            committed = None if valid is None else Committed(valid, read_json(left_out))
        record = None if mixed is None else SignedDocument(mixed, mixed_signature)
        document = SignedDocument(body, signature)
        return HopBatch(batch, document, reports, dummies, digest, following, committed, record, own or b"")

    def add_tasks(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            statement = "INSERT OR IGNORE INTO task (id, queries) VALUES (?, ?)"
            self._run(statement, task.id, len(task.queries))

    def _releases(self, task_id: bytes) -> Sequence[Release]:
        return releases_of(self._connection, task_id)

    def _add_releases(self, task_id: bytes, releases: Sequence[Release]) -> None:
        insert_releases(self._connection, task_id, releases)

    def abandon(self, task_id: bytes, round_number: int) -> None:
        super().abandon(task_id, round_number)
        of_round = "DELETE FROM released WHERE batch IN (SELECT key FROM batch WHERE round = ?)"
        self._run(of_round, self._round(task_id, round_number))

    def append(self, chunk: Envelopes) -> int:
        """Store the new part of a chunk. A mixed batch takes nothing more: what had arrived was checked and erased."""
        stored = self.batch(chunk.batch)
        if stored is None or stored.mixed is None:
            return super().append(chunk)
        new_part(stored, chunk)
        return stored.position

    def mix(self, batch: BatchId, blocks: Iterator[bytes], width: int, sign: Sign) -> HopBatch:
        """Store a permuted list and its record, unless the batch has one; erase the arrived envelopes."""
        known = self._known(batch)
        if known.mixed is not None:
            return known
        row, stored = self._batch(batch), _Count()
        # The digest reads the blocks through `_stored`, so the list is stored and hashed in one pass.
        digest = released_digest(self._stored(row, blocks, width, stored))
        record = sign(digest, stored.envelopes)
        statement = "UPDATE batch SET mixed_record = ?, mixed_signature = ?, mixed_digest = ? WHERE key = ?"
        self._run(statement, record.body, record.signature, digest, row)
        self._run("DELETE FROM arrived WHERE batch = ?", row)
        self._remains.erased = True
        return self._known(batch)

    def _stored(self, row: int | None, blocks: Iterator[bytes], width: int, stored: _Count) -> Iterator[bytes]:
        statement = "INSERT INTO released (batch, first, envelopes) VALUES (?, ?, ?)"
        for block in blocks:
            self._run(statement, row, stored.envelopes, block)
            stored.envelopes += len(block) // width
            yield block

    def passed_on(self, batch: BatchId, committed: Committed) -> Committed:
        """Store the next party's commit of a batch; erase its list, and with the round's last batch the round's key."""
        known = self._known(batch)
        if known.committed is not None:
            return known.committed
        row, round_row = self._batch(batch), self._round(batch.task_id, batch.round)
        left_out = json.dumps(dict(committed.left_out), sort_keys=True)
        self._run("UPDATE batch SET valid = ?, left_out = ? WHERE key = ?", committed.counted, left_out, row)
        self._run("DELETE FROM released WHERE batch = ?", row)
        self._run(
            "DELETE FROM private_key WHERE round = ? AND (SELECT COUNT(*) FROM batch WHERE round = ? AND"
            " valid IS NOT NULL) = (SELECT queries FROM task JOIN round ON round.task = task.key"
            " WHERE round.key = ?)",
            *(round_row, round_row, round_row),
        )
        self._remains.erased = True
        return committed

    def statuses(self) -> list[HopRoundStatus]:
        rows = self._all(
            "SELECT task.id, round.number, EXISTS (SELECT 1 FROM private_key WHERE private_key.round = round.key),"
            " COUNT(batch.key), COUNT(batch.mixed_record), COUNT(batch.valid) FROM round"
            " JOIN task ON task.key = round.task LEFT JOIN batch ON batch.round = round.key"
            " GROUP BY round.key ORDER BY round.key"
        )
        return [HopRoundStatus(task_id, number, bool(key), *counts) for task_id, number, key, *counts in rows]

    def _known(self, batch: BatchId) -> HopBatch:
        known = self.batch(batch)
        if known is None:
            raise HubbubError(
                f"batch {batch.query} of round {batch.round} is to be passed on, but was not announced; the store "
                "may be damaged (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
            )
        return known


@dataclass
class _Count:
    """The number of stored envelopes of a list."""

    envelopes: int = 0


class HopSqliteStore(InboxStore[HopTables, HopBatch]):
    """The store (`shuffler.hop.store.HopStore`) in a folder, for one process at a time."""

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
        commits: type[GroupCommit[TablesTransaction[HopTables]]] = GroupCommit,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the store in `folder`; see `InboxStore`."""
        self.folder = folder
        super().__init__(
            *(folder, FILE_NAME, LAYOUT),
            HopTables,
            observe,
            who="hop",
            connection=connection,
            commits=commits,
            incidents=incidents,
        )

    async def add_tasks(self, tasks: Iterable[Task]) -> None:
        known = list(tasks)
        await self._change(lambda tables: tables.add_tasks(known))

    async def mix(self, batch: BatchId, blocks: Iterator[bytes], width: int, sign: Sign) -> HopBatch:
        return await self._commits.submit(lambda unit: unit.tables.mix(batch, blocks, width, sign), alone=True)

    async def envelopes(self, batch: BatchId, offset: int, width: int) -> Sequence[bytes]:
        """Return some envelopes of a permuted list from `offset` on; empty at its end."""
        found = await asyncio.to_thread(self._read, functools.partial(self._released_at, batch, offset))
        if found is None:
            return ()
        first, joined = found
        return split_records(joined[(offset - first) * width :], width)

    def _released_at(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        row: tuple[int, bytes] | None = self._database.reader.execute(
            "SELECT first, envelopes FROM released JOIN batch ON batch.key = released.batch"
            " JOIN round ON round.key = batch.round JOIN task ON task.key = round.task"
            " WHERE task.id = ? AND round.number = ? AND query = ? AND first <= ? ORDER BY first DESC LIMIT 1",
            (batch.task_id, batch.round, batch.query, offset),
        ).fetchone()
        return row

    async def passed_on(self, batch: BatchId, committed: Committed) -> Committed:
        """Store the next party's commit of a batch, and erase its list; return the stored answer."""
        return await self._change(lambda tables: tables.passed_on(batch, committed))

    async def statuses(self) -> list[HopRoundStatus]:
        return await self._change(HopTables.statuses)
