"""Tables: what the analyzer remembers, as narrow operations inside one transaction of the store.

A batch is committed when it has a number of valid reports; a round is certified when it has a certificate. Private keys
stand in a table of their own, so that destroying one is deleting its row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.protos.batch import BatchId, BatchRecord
from hubbub.protos.messages import Committed
from hubbub.protos.results import RoundId
from hubbub.protos.signed import SignedDocument
from hubbub.service.erasing import put_away, taken_out

VERSION = 2
"""Version of these tables, in the file's `user_version`."""

ERASED_AT_ONCE = 32
"""Stretches erased in one transaction, 7 MB: some 40 ms, so that whoever reads results does not wait for all of it."""

SCHEMA = """
CREATE TABLE tasks (id INTEGER PRIMARY KEY, task_id BLOB NOT NULL UNIQUE, name TEXT NOT NULL, queries INTEGER NOT NULL,
    document BLOB NOT NULL);
CREATE TABLE rounds (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, round INTEGER NOT NULL,
    record BLOB NOT NULL, signature BLOB NOT NULL, not_after INTEGER NOT NULL, key_set BLOB, UNIQUE (task, round));
CREATE TABLE private_keys (round INTEGER PRIMARY KEY REFERENCES rounds, private BLOB NOT NULL);
CREATE TABLE batches (id INTEGER PRIMARY KEY, round INTEGER NOT NULL REFERENCES rounds, query INTEGER NOT NULL,
    record BLOB NOT NULL, signature BLOB NOT NULL, reports INTEGER NOT NULL, dummies INTEGER NOT NULL,
    digest BLOB NOT NULL, next INTEGER NOT NULL DEFAULT 0, valid INTEGER, left_out TEXT, counts BLOB,
    UNIQUE (round, query));
CREATE TABLE stretches (id INTEGER PRIMARY KEY, batch INTEGER NOT NULL REFERENCES batches, first INTEGER NOT NULL,
    envelopes BLOB NOT NULL, UNIQUE (batch, first));
CREATE TABLE ledger (id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, place INTEGER NOT NULL,
    entry TEXT NOT NULL, digest TEXT NOT NULL, UNIQUE (task, place));
CREATE TABLE certificates (id INTEGER PRIMARY KEY, round INTEGER NOT NULL UNIQUE REFERENCES rounds,
    document BLOB NOT NULL);
"""

_BATCHES = """
SELECT id, query, record, signature, reports, dummies, digest, next, valid, left_out, counts FROM batches
WHERE round = ?
"""


@dataclass(frozen=True)
class StoredKey:
    """A round's key: the private half (None once destroyed), the signed record, and the hash of the round's key set."""

    private: bytes | None
    record: SignedDocument
    key_set_hash: bytes | None


@dataclass(frozen=True)
class StoredBatch:
    """A batch as it stands: its row, the shuffler's record, how far delivery came, and what was counted.

    `reports` are those of devices; `dummies` more, made by the shuffler, are among the envelopes and the `counts`.
    """

    row: int
    id: BatchId
    record: SignedDocument
    reports: int
    dummies: int
    digest: bytes
    next_offset: int
    committed: Committed | None
    counts: bytes | None

    @property
    def envelopes(self) -> int:
        """How many envelopes the batch holds."""
        return self.reports + self.dummies


@dataclass(frozen=True)
class Charge:
    """A link of a task's ledger: its place from 0, the entry in canonical form, the digest that chains it (hex)."""

    place: int
    entry: str
    digest: str


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch is: the reports it has, those of its envelopes that arrived, and what was counted."""

    query: int
    reports: int
    envelopes: int
    arrived: int
    committed: Committed | None


@dataclass(frozen=True)
class RoundProgress:
    """How far a round is, with the batches that were announced in the task's order of queries."""

    row: int
    id: RoundId
    queries: int
    has_key: bool
    is_certified: bool
    batches: tuple[BatchProgress, ...]


class Tables:
    """The operations. Used inside the store's transactions only; what one of them writes stands when that ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.erased = False
        """Something was erased that must leave the files too; the store sees to it and resets this."""
        self.destroyed = False
        """A key was destroyed and must leave the write-ahead log too; the store sees to it and resets this."""

    def _one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        return row

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def _run(self, statement: str, *values: Any) -> int:
        return self._connection.execute(statement, values).rowcount

    def _round(self, task_id: bytes, round_number: int) -> int | None:
        """The row of a round; None where no key was made for it yet."""
        statement = (
            "SELECT rounds.id FROM rounds JOIN tasks ON tasks.id = rounds.task WHERE task_id = ? AND rounds.round = ?"
        )
        row = self._one(statement, task_id, round_number)
        return None if row is None else row[0]

    # Tasks

    def add_task(self, task_id: bytes, name: str, queries: int, document: bytes) -> None:
        """Remember a signed task; one that is known stays as it is."""
        statement = "INSERT OR IGNORE INTO tasks (task_id, name, queries, document) VALUES (?, ?, ?, ?)"
        self._run(statement, task_id, name, queries, document)

    def task(self, task_id: bytes) -> bytes | None:
        """A task ever served, as its file's bytes."""
        row = self._one("SELECT document FROM tasks WHERE task_id = ?", task_id)
        return None if row is None else row[0]

    # Keys

    def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """A round's key, if one was made."""
        row = self._one(
            "SELECT private, record, signature, key_set FROM rounds LEFT JOIN private_keys"
            " ON private_keys.round = rounds.id WHERE rounds.id = ?",
            self._round(task_id, round_number),
        )
        if row is None:
            return None
        private = None if row[0] is None else taken_out(row[0])
        return StoredKey(private, SignedDocument(row[1], row[2]), row[3])

    def add_key(
        self, task_id: bytes, round_number: int, private: bytes, record: SignedDocument, not_after: int
    ) -> None:
        """Store a new round's key."""
        self._run(
            "INSERT INTO rounds (task, round, record, signature, not_after)"
            " VALUES ((SELECT id FROM tasks WHERE task_id = ?), ?, ?, ?, ?)",
            *(task_id, round_number, record.body, record.signature, not_after),
        )
        round_row = self._round(task_id, round_number)
        self._run("INSERT INTO private_keys (round, private) VALUES (?, ?)", round_row, put_away(private))

    def bind_key_set(self, task_id: bytes, round_number: int, key_set_hash: bytes) -> None:
        """Fix the round's one key set."""
        statement = "UPDATE rounds SET key_set = ? WHERE id = ?"
        self._run(statement, key_set_hash, self._round(task_id, round_number))

    def expire_keys(self, now: float) -> int:
        """Destroy the keys whose time is over and that no batch came for; return how many."""
        expired = self._run(
            "DELETE FROM private_keys WHERE round IN (SELECT id FROM rounds WHERE not_after < ?"
            " AND NOT EXISTS (SELECT 1 FROM batches WHERE batches.round = rounds.id))",
            now,
        )
        self.erased = self.erased or expired > 0
        return expired

    # Batches

    def add_batch(self, record: BatchRecord, document: SignedDocument) -> None:
        """Store a batch's announcement."""
        batch = record.batch
        self._run(
            "INSERT INTO batches (round, query, record, signature, reports, dummies, digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(self._round(batch.task_id, batch.round), batch.query),
            *(document.body, document.signature, record.reports, record.dummies, record.digest),
        )

    def batch(self, batch: BatchId) -> StoredBatch | None:
        """A batch, if it was announced."""
        row = self._one(_BATCHES + "AND query = ?", self._round(batch.task_id, batch.round), batch.query)
        return None if row is None else _batch_from(batch.task_id, batch.round, row)

    def batches(self, task_id: bytes, round_number: int) -> list[StoredBatch]:
        """A round's announced batches, in the task's order of queries."""
        rows = self._all(_BATCHES + "ORDER BY query", self._round(task_id, round_number))
        return [_batch_from(task_id, round_number, row) for row in rows]

    def append(self, batch: StoredBatch, envelopes: bytes, count: int) -> None:
        """Store the stretch that follows what is there."""
        statement = "INSERT INTO stretches (batch, first, envelopes) VALUES (?, ?, ?)"
        self._run(statement, batch.row, batch.next_offset, envelopes)
        self._run("UPDATE batches SET next = next + ? WHERE id = ?", count, batch.row)

    def stretch(self, batch: StoredBatch, offset: int) -> tuple[int, bytes] | None:
        """The stored stretch in which the envelope at `offset` stands: where it begins, and its bytes."""
        if offset >= batch.next_offset:
            return None
        statement = "SELECT first, envelopes FROM stretches WHERE batch = ? AND first <= ? ORDER BY first DESC LIMIT 1"
        row = self._one(statement, batch.row, offset)
        return None if row is None else (row[0], row[1])

    def drop_envelopes(self, batch: StoredBatch) -> None:
        """Forget what was delivered of a batch, so that delivery begins again."""
        self._run("DELETE FROM stretches WHERE batch = ?", batch.row)
        self._run("UPDATE batches SET next = 0 WHERE id = ?", batch.row)

    def commit(self, batch: StoredBatch, counts: bytes, committed: Committed, charges: Iterable[Charge]) -> None:
        """Store counts, what is added to the ledger, and the fact itself."""
        self._run(
            "UPDATE batches SET valid = ?, left_out = ?, counts = ? WHERE id = ?",
            *(committed.counted, json.dumps(dict(committed.left_out), sort_keys=True), counts, batch.row),
        )
        for charge in charges:
            self._run(
                "INSERT INTO ledger (task, place, entry, digest)"
                " VALUES ((SELECT id FROM tasks WHERE task_id = ?), ?, ?, ?)",
                *(batch.id.task_id, charge.place, charge.entry, charge.digest),
            )

    def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """How far the rounds are that a key was made for, oldest first, of one task or of all."""
        batches: dict[int, list[BatchProgress]] = {}
        for row, query, reports, dummies, arrived, valid, left_out in self._all(
            "SELECT round, query, reports, dummies, next, valid, left_out FROM batches ORDER BY query"
        ):
            committed = None if valid is None else Committed(valid, json.loads(left_out))
            batches.setdefault(row, []).append(BatchProgress(query, reports, reports + dummies, arrived, committed))
        rounds = self._all(
            "SELECT rounds.id, task_id, name, rounds.round, queries,"
            " EXISTS (SELECT 1 FROM private_keys WHERE private_keys.round = rounds.id),"
            " EXISTS (SELECT 1 FROM certificates WHERE certificates.round = rounds.id)"
            " FROM rounds JOIN tasks ON tasks.id = rounds.task WHERE ?1 IS NULL OR task_id = ?1 ORDER BY rounds.id",
            task_id,
        )
        return [
            RoundProgress(row, RoundId(*names), queries, bool(key), bool(certified), tuple(batches.get(row, ())))
            for row, *names, queries, key, certified in rounds
        ]

    # Ledger

    def charges(self, task_id: bytes) -> list[Charge]:
        """A task's ledger, oldest charge first."""
        statement = (
            "SELECT place, entry, digest FROM ledger JOIN tasks ON tasks.id = ledger.task WHERE task_id = ?"
            " ORDER BY place"
        )
        return [Charge(*row) for row in self._all(statement, task_id)]

    def counted(self) -> dict[bytes, set[int]]:
        """The rounds of which a batch was counted, by the ids of all tasks that have such rounds or charges."""
        found: dict[bytes, set[int]] = {
            row[0]: set()
            for row in self._all("SELECT DISTINCT task_id FROM ledger JOIN tasks ON tasks.id = ledger.task")
        }
        rows = self._all(
            "SELECT DISTINCT task_id, rounds.round FROM batches JOIN rounds ON rounds.id = batches.round"
            " JOIN tasks ON tasks.id = rounds.task WHERE valid IS NOT NULL"
        )
        for task_id, number in rows:
            found.setdefault(task_id, set()).add(number)
        return found

    def abandon(self, task_id: bytes, round_number: int) -> None:
        """Destroy what a round was delivered with and its private key: nothing of it will be counted."""
        round_row = self._round(task_id, round_number)
        self._run("DELETE FROM stretches WHERE batch IN (SELECT id FROM batches WHERE round = ?)", round_row)
        self._run("UPDATE batches SET next = 0 WHERE round = ?", round_row)
        self._run("DELETE FROM private_keys WHERE round = ?", round_row)
        self.erased = True

    # Certificates

    def uncertified(self) -> list[tuple[bytes, int]]:
        """The rounds whose batches are all committed and that have no certificate: (task id, round), rising."""
        rows = self._all(
            "SELECT task_id, rounds.round FROM rounds JOIN tasks ON tasks.id = rounds.task"
            " WHERE NOT EXISTS (SELECT 1 FROM certificates WHERE certificates.round = rounds.id) AND tasks.queries ="
            " (SELECT COUNT(*) FROM batches WHERE batches.round = rounds.id AND valid IS NOT NULL)"
            " ORDER BY tasks.id, rounds.round"
        )
        return [(task_id, number) for task_id, number in rows]

    def certified_before(self, task_id: bytes, round_number: int) -> list[int]:
        """The numbers of the task's certified rounds below `round_number`, rising."""
        rows = self._all(
            "SELECT rounds.round FROM certificates JOIN rounds ON rounds.id = certificates.round"
            " JOIN tasks ON tasks.id = rounds.task WHERE task_id = ? AND rounds.round < ? ORDER BY rounds.round",
            task_id,
            round_number,
        )
        return [row[0] for row in rows]

    def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Iterable[StoredBatch]) -> None:
        """Store a round's certificate; destroy its private key and the counts of what is withheld.

        Nobody can open the round's envelopes then; `erase_some` takes them away.
        """
        round_row = self._round(task_id, round_number)
        self._run("INSERT INTO certificates (round, document) VALUES (?, ?)", round_row, document)
        self._run("DELETE FROM private_keys WHERE round = ?", round_row)
        for batch in withheld:
            self._run("UPDATE batches SET counts = NULL WHERE id = ?", batch.row)
        self.destroyed = True

    def unerased(self) -> list[tuple[bytes, int]]:
        """The certified rounds whose envelopes are still there: (task id, round), rising."""
        rows = self._all(
            "SELECT task_id, rounds.round FROM rounds JOIN tasks ON tasks.id = rounds.task"
            " WHERE EXISTS (SELECT 1 FROM certificates WHERE certificates.round = rounds.id) AND EXISTS"
            " (SELECT 1 FROM stretches JOIN batches ON batches.id = stretches.batch WHERE batches.round = rounds.id)"
            " ORDER BY tasks.id, rounds.round"
        )
        return [(task_id, number) for task_id, number in rows]

    def erase_some(self, task_id: bytes, round_number: int) -> bool:
        """Erase some of what a round was delivered with; return whether there is more."""
        round_row = self._round(task_id, round_number)
        of_round = "batch IN (SELECT id FROM batches WHERE round = ?)"
        some = f"SELECT id FROM stretches WHERE {of_round} LIMIT {ERASED_AT_ONCE}"  # noqa: S608 - constants
        self._run(f"DELETE FROM stretches WHERE id IN ({some})", round_row)  # noqa: S608
        more = self._one(f"SELECT 1 FROM stretches WHERE {of_round} LIMIT 1", round_row) is not None  # noqa: S608
        self.erased = self.erased or not more
        return more

    def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        """A round's certificate, if it was made."""
        row = self._one("SELECT document FROM certificates WHERE round = ?", self._round(task_id, round_number))
        return None if row is None else row[0]

    def certified(self, task_id: bytes | None) -> list[RoundId]:
        """The certified rounds, of one task or of all, in the order in which they were certified."""
        rows = self._all(
            "SELECT task_id, name, rounds.round FROM certificates JOIN rounds ON rounds.id = certificates.round"
            " JOIN tasks ON tasks.id = rounds.task WHERE ?1 IS NULL OR task_id = ?1 ORDER BY certificates.id",
            task_id,
        )
        return [RoundId(*row) for row in rows]


def _batch_from(task_id: bytes, round_number: int, row: Sequence[Any]) -> StoredBatch:
    number, query, body, signature, reports, dummies, digest, following, valid, left_out, counts = row
    committed = None if valid is None else Committed(valid, json.loads(left_out))
    batch = BatchId(task_id, round_number, query)
    record = SignedDocument(body, signature)
    return StoredBatch(number, batch, record, reports, dummies, digest, following, committed, counts)
