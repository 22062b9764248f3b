"""Stores a receiver's round keys and batches in SQLite tables, by narrow operations in one transaction.

The analyzer and hops extend these tables: their layouts include `ROUND_TABLES`, and the tables `task` and `batch` with
at least the columns used here. A batch is committed once its number of `valid` reports is set.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.sqlite_layout import checksum_column
from hubbub.service.receiving.inbox import InboxTransaction
from hubbub.service.receiving.receiver import D, StoredKey, check_repetition
from hubbub.service.receiving.round_keys import NewRoundKey
from hubbub.service.sqlite.secure_delete import pad_for_erasure, unpad

ROUND_TABLES = f"""
-- A round with its key record. key_set_hash: that of the key set it was announced with.
CREATE TABLE round (
    key INTEGER PRIMARY KEY,
    task INTEGER NOT NULL REFERENCES task (key),
    number INTEGER NOT NULL,
    record BLOB NOT NULL,
    signature BLOB NOT NULL,
    not_after INTEGER NOT NULL,
    key_set_hash BLOB,
    {checksum_column("key", "task", "number", "not_after", "key_set_hash")},
    UNIQUE (task, number)
) STRICT;
-- A table of its own, so that destroying a key is deleting its row.
CREATE TABLE private_key (
    round INTEGER PRIMARY KEY REFERENCES round (key), private_key BLOB NOT NULL, {checksum_column("round")}
) STRICT;
-- Envelopes as they arrived, joined, from the one of number `first` on.
CREATE TABLE arrived (
    key INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL REFERENCES batch (key),
    first INTEGER NOT NULL,
    envelopes BLOB NOT NULL,
    UNIQUE (batch, first)
) STRICT;
"""
"""Part of the script of a receiver's layout."""

_ROUNDS = """
SELECT round.key FROM round JOIN task ON task.key = round.task WHERE task.id = ? AND round.number = ?
"""


@dataclass
class Remains:
    """Deletions whose data must also leave the files; the store removes it after the commit."""

    erased: bool = False
    """Rows were deleted; their pages must be zeroed and returned."""

    destroyed: bool = False
    """A key was deleted; it must leave the write-ahead log."""


class InboxTables(InboxTransaction[D]):
    """The operations, for use inside the store's transactions only; writes are stored when the transaction ends."""

    BATCHES: ClassVar[str]
    """Selects the batches of a round (the only parameter is its row), query column first; ends with that condition."""

    @abstractmethod
    def _delivery(self, batch: BatchId, row: Sequence[Any]) -> D:
        """Make a batch from a row of `BATCHES`."""

    def __init__(self, connection: sqlite3.Connection, remains: Remains) -> None:
        self._connection = connection
        self._remains = remains

    def _one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        return row

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def _run(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def _round(self, task_id: bytes, round_number: int) -> int | None:
        """Return the row of a round; None if it has no key yet."""
        row = self._one(_ROUNDS, task_id, round_number)
        return None if row is None else row[0]

    def _batch(self, batch: BatchId) -> int | None:
        """Return the row of a batch; None if it was not announced."""
        statement = "SELECT key FROM batch WHERE round = ? AND query = ?"
        row = self._one(statement, self._round(batch.task_id, batch.round), batch.query)
        return None if row is None else row[0]

    # Keys

    def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """A round's key, if one was made."""
        row = self._one(
            "SELECT private_key.private_key, record, signature, key_set_hash FROM round LEFT JOIN private_key"
            " ON private_key.round = round.key WHERE round.key = ?",
            self._round(task_id, round_number),
        )
        if row is None:
            return None
        # A destroyed key has no row in private_key; its signed record stays.
        private = None if row[0] is None else unpad(row[0])
        return StoredKey(private, SignedDocument(row[1], row[2]), row[3])

    def _insert_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> None:
        self._run(
            "INSERT INTO round (task, number, record, signature, not_after)"
            " VALUES ((SELECT key FROM task WHERE id = ?), ?, ?, ?, ?)",
            *(task_id, round_number, key.record.body, key.record.signature, key.not_after),
        )
        round_row = self._round(task_id, round_number)
        self._run("INSERT INTO private_key (round, private_key) VALUES (?, ?)", round_row, pad_for_erasure(key.private))

    def expire_keys(self, now: float) -> int:
        """Destroy the expired keys of rounds without a batch; return how many."""
        # An announced batch still needs the key, however late it is.
        expired = self._run(
            "DELETE FROM private_key WHERE round IN (SELECT key FROM round WHERE not_after < ?"
            " AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.round = round.key))",
            now,
        )
        self._remains.erased |= expired > 0
        return expired

    # Batches

    def _insert_batch(self, record: BatchRecord, document: SignedDocument, key_set_hash: bytes) -> None:
        batch, round_row = record.batch, self._round(record.batch.task_id, record.batch.round)
        # The first batch fixes it; the check ensures that all others come with the same one.
        self._run("UPDATE round SET key_set_hash = ? WHERE key = ?", key_set_hash, round_row)
        self._run(
            "INSERT INTO batch (round, query, record, signature, reports, dummies, digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(round_row, batch.query),
            *(document.body, document.signature, record.reports, record.added, record.last_digest),
        )

    def batch(self, batch: BatchId) -> D | None:
        row = self._one(self.BATCHES + " AND query = ?", self._round(batch.task_id, batch.round), batch.query)
        return None if row is None else self._delivery(batch, row)

    def batches(self, task_id: bytes, round_number: int) -> list[D]:
        """A round's announced batches, in the task's order of queries."""
        rows = self._all(self.BATCHES + " ORDER BY query", self._round(task_id, round_number))
        return [self._delivery(BatchId(task_id, round_number, row[0]), row) for row in rows]

    def _insert_chunk(self, batch: BatchId, first: int, envelopes: Sequence[bytes]) -> None:
        row, statement = self._batch(batch), "INSERT INTO arrived (batch, first, envelopes) VALUES (?, ?, ?)"
        self._run(statement, row, first, b"".join(envelopes))
        self._run("UPDATE batch SET next_offset = next_offset + ? WHERE key = ?", len(envelopes), row)

    def _check_repetition(self, chunk: Envelopes, repeated: int) -> None:
        row = self._batch(chunk.batch)
        stored = self._connection.execute(
            "SELECT first, envelopes FROM arrived WHERE batch = ? AND first < ? AND first >="
            " (SELECT max(first) FROM arrived WHERE batch = ? AND first <= ?) ORDER BY first",
            (row, chunk.offset + repeated, row, chunk.offset),
        )
        check_repetition(stored, chunk.offset, chunk.envelopes[:repeated])

    def forget_envelopes(self, batch: BatchId) -> None:
        row = self._batch(batch)
        if self._run("UPDATE batch SET next_offset = 0 WHERE key = ? AND valid IS NULL", row):
            self._run("DELETE FROM arrived WHERE batch = ?", row)

    def abandon(self, task_id: bytes, round_number: int) -> None:
        """Destroy a round's delivered envelopes and its private key: the round will not be counted."""
        round_row = self._round(task_id, round_number)
        self._run("DELETE FROM arrived WHERE batch IN (SELECT key FROM batch WHERE round = ?)", round_row)
        self._run("UPDATE batch SET next_offset = 0 WHERE round = ?", round_row)
        self._run("DELETE FROM private_key WHERE round = ?", round_row)
        self._remains.erased = True
