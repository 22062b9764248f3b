"""Tables: every SQL statement of the store, as narrow operations inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.analyzer.records import BatchProgress, RoundProgress, StoredBatch
from hubbub.protos.batch import BatchId, BatchRecord
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.releases import Stretch
from hubbub.protos.results import RoundId
from hubbub.protos.signed import SignedDocument
from hubbub.protos.signed_task import SignedTask
from hubbub.service.chain_table import insert_releases, releases_of
from hubbub.service.charges import Charges
from hubbub.service.erasing import put_away, taken_out
from hubbub.service.keys import NewRoundKey
from hubbub.service.ledger_table import insert_charges
from hubbub.service.receiving import Announced, Check, StoredKey, another_envelope, new_part

ERASED_AT_ONCE = 32
"""Stretches erased in one transaction, 7 MB: some 40 ms, so that whoever reads results does not wait for all of it."""

_BATCHES = """
SELECT query, record, signature, reports, dummies, digest, next, valid, left_out, counts FROM batches
WHERE round = ?
"""

_ROUNDS = """
SELECT rounds.id FROM rounds JOIN tasks ON tasks.id = rounds.task WHERE task_id = ? AND rounds.round = ?
"""


@dataclass
class Remains:
    """What was deleted from tables and must leave the files too; the store sees to it after the commit."""

    erased: bool = False
    """Rows were deleted whose pages are to be zeroed and given back."""

    destroyed: bool = False
    """A key was deleted, which must leave the write-ahead log."""


class Tables:
    """The operations. Used inside the store's transactions only; what one of them writes is stored when that ends."""

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
        """The row of a round; None where no key was made for it yet."""
        row = self._one(_ROUNDS, task_id, round_number)
        return None if row is None else row[0]

    def _batch(self, batch: BatchId) -> int | None:
        """The row of a batch; None where it was not announced."""
        statement = "SELECT id FROM batches WHERE round = ? AND query = ?"
        row = self._one(statement, self._round(batch.task_id, batch.round), batch.query)
        return None if row is None else row[0]

    # Tasks

    def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        """Remember signed tasks; one that is known stays as it is."""
        statement = "INSERT OR IGNORE INTO tasks (task_id, name, queries, document) VALUES (?, ?, ?, ?)"
        for signed in tasks:
            self._run(statement, signed.task.id, signed.task.name, len(signed.task.queries), signed.encode())

    def task(self, task_id: bytes) -> SignedTask | None:
        """A task that was ever added."""
        row = self._one("SELECT document FROM tasks WHERE task_id = ?", task_id)
        return None if row is None else SignedTask.decode(row[0])

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
        # A destroyed key has no row in private_keys; its signed record stays.
        private = None if row[0] is None else taken_out(row[0])
        return StoredKey(private, SignedDocument(row[1], row[2]), row[3])

    def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round its key, unless it has one; return the one that it has."""
        known = self.key(task_id, round_number)
        if known is not None:
            return known
        self._run(
            "INSERT INTO rounds (task, round, record, signature, not_after)"
            " VALUES ((SELECT id FROM tasks WHERE task_id = ?), ?, ?, ?, ?)",
            *(task_id, round_number, key.record.body, key.record.signature, key.not_after),
        )
        round_row = self._round(task_id, round_number)
        self._run("INSERT INTO private_keys (round, private) VALUES (?, ?)", round_row, put_away(key.private))
        return StoredKey(key.private, key.record, None)

    def expire_keys(self, now: float) -> int:
        """Destroy the keys whose time is over and that no batch came for; return how many."""
        # A batch that was announced still needs the key, however late it is.
        expired = self._run(
            "DELETE FROM private_keys WHERE round IN (SELECT id FROM rounds WHERE not_after < ?"
            " AND NOT EXISTS (SELECT 1 FROM batches WHERE batches.round = rounds.id))",
            now,
        )
        self._remains.erased |= expired > 0
        return expired

    # Batches

    def announce(
        self, record: BatchRecord, document: SignedDocument, key_set_hash: bytes, check: Check, sent: Stretch
    ) -> int:
        """Have `check` decide on an announcement, and store it with what is new of the releases that came with it."""
        batch = record.batch
        known = self.batch(batch)
        stored = self.batches(batch.task_id, batch.round)
        others = [other for other in stored if other.id != batch]
        releases = releases_of(self._connection, batch.task_id)
        check(Announced(self.key(batch.task_id, batch.round), known, others, releases))
        insert_releases(self._connection, batch.task_id, sent.releases[len(releases) - sent.first :])
        if known is not None:
            return known.position
        round_row = self._round(batch.task_id, batch.round)
        # Fixed by the first batch; the check has seen to it that all others come with the same one.
        self._run("UPDATE rounds SET key_set = ? WHERE id = ?", key_set_hash, round_row)
        self._run(
            "INSERT INTO batches (round, query, record, signature, reports, dummies, digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(round_row, batch.query),
            *(document.body, document.signature, record.reports, record.dummies, record.digest),
        )
        return 0

    def batch(self, batch: BatchId) -> StoredBatch | None:
        """A batch, if it was announced."""
        row = self._one(_BATCHES + "AND query = ?", self._round(batch.task_id, batch.round), batch.query)
        return None if row is None else _batch_from(batch.task_id, batch.round, row)

    def batches(self, task_id: bytes, round_number: int) -> list[StoredBatch]:
        """A round's announced batches, in the task's order of queries."""
        rows = self._all(_BATCHES + "ORDER BY query", self._round(task_id, round_number))
        return [_batch_from(task_id, round_number, row) for row in rows]

    def records(self) -> list[tuple[bytes, int, SignedDocument]]:
        """The records of all batches that were announced: the task's id, the query, the document."""
        rows = self._all(
            "SELECT task_id, query, batches.record, batches.signature FROM batches"
            " JOIN rounds ON rounds.id = batches.round JOIN tasks ON tasks.id = rounds.task"
        )
        return [(task_id, query, SignedDocument(body, signature)) for task_id, query, body, signature in rows]

    def append(self, stretch: Envelopes) -> int:
        """Store the part of a stretch that is new; return the offset to go on from."""
        delivery = self.batch(stretch.batch)
        repeated, count = new_part(delivery, stretch), len(stretch.envelopes)
        if delivery is None or delivery.committed is not None:
            return stretch.offset if delivery is None else delivery.position
        row = self._batch(stretch.batch)
        # What is sent again must be what is stored: two deliveries of one batch must not be mixed.
        self._check_repetition(row, stretch.offset, stretch.envelopes[:repeated])
        if repeated < count:
            envelopes = b"".join(stretch.envelopes[repeated:])
            statement = "INSERT INTO stretches (batch, first, envelopes) VALUES (?, ?, ?)"
            self._run(statement, row, delivery.next_offset, envelopes)
            self._run("UPDATE batches SET next = next + ? WHERE id = ?", count - repeated, row)
        return delivery.next_offset + count - repeated

    def _check_repetition(self, row: int | None, offset: int, envelopes: Sequence[bytes]) -> None:
        """Return only if these envelopes are stored from `offset` on. Those of one batch are all of one length."""
        if not envelopes:
            return
        width, given = len(envelopes[0]), b"".join(envelopes)
        stored = self._connection.execute(
            "SELECT first, envelopes FROM stretches WHERE batch = ?1 AND first < ?3 AND first >="
            " (SELECT max(first) FROM stretches WHERE batch = ?1 AND first <= ?2) ORDER BY first",
            (row, offset, offset + len(envelopes)),
        )
        compared = 0
        for first, joined in stored:
            known = joined[max(0, offset - first) * width :][: len(given) - compared]
            if known != given[compared : compared + len(known)]:
                raise another_envelope(offset + compared // width)
            compared += len(known)
        if compared != len(given):
            raise HubbubError(f"the store lacks envelope {offset + compared // width} of a batch; it was damaged")

    def forget_envelopes(self, batch: BatchId) -> None:
        """Forget what arrived of a batch that is not committed, so that its delivery begins again."""
        row = self._batch(batch)
        if self._run("UPDATE batches SET next = 0 WHERE id = ? AND valid IS NULL", row):
            self._run("DELETE FROM stretches WHERE batch = ?", row)

    def commit(self, batch: BatchId, counts: bytes, committed: Committed, charges: Charges) -> Committed:
        """Store what was counted of a batch, and what is added to the ledger, unless it is committed already."""
        known = self.batch(batch)
        if known is None:
            raise HubbubError(f"batch {batch.query} of round {batch.round} is to be committed, but was not announced")
        # Before the charges: a commit that is repeated must not be charged twice.
        if known.committed is not None:
            return known.committed
        insert_charges(self._connection, batch.task_id, charges)
        left_out = json.dumps(dict(committed.left_out), sort_keys=True)
        statement = "UPDATE batches SET valid = ?, left_out = ?, counts = ? WHERE id = ?"
        self._run(statement, committed.counted, left_out, counts, self._batch(batch))
        return committed

    def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """How far the rounds are that a key was made for, oldest key first, of one task or of all."""
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
            RoundProgress(RoundId(*names), queries, bool(key), bool(certified), tuple(batches.get(row, ())))
            for row, *names, queries, key, certified in rounds
        ]

    def counted(self) -> dict[tuple[bytes, int], int]:
        """The rounds of which a batch was committed, with how many queries their task has."""
        rows = self._all(
            "SELECT DISTINCT task_id, rounds.round, queries FROM batches JOIN rounds ON rounds.id = batches.round"
            " JOIN tasks ON tasks.id = rounds.task WHERE valid IS NOT NULL"
        )
        return {(task_id, number): queries for task_id, number, queries in rows}

    def abandon(self, task_id: bytes, round_number: int) -> None:
        """Destroy what a round was delivered with and its private key: nothing of it will be counted."""
        round_row = self._round(task_id, round_number)
        self._run("DELETE FROM stretches WHERE batch IN (SELECT id FROM batches WHERE round = ?)", round_row)
        self._run("UPDATE batches SET next = 0 WHERE round = ?", round_row)
        self._run("DELETE FROM private_keys WHERE round = ?", round_row)
        self._remains.erased = True

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

    def history(self, task_id: bytes, round_number: int) -> list[tuple[int, list[StoredBatch]]]:
        """The task's certified rounds below `round_number`, rising, and the round itself, with their batches."""
        rows = self._all(
            "SELECT rounds.round FROM certificates JOIN rounds ON rounds.id = certificates.round"
            " JOIN tasks ON tasks.id = rounds.task WHERE task_id = ? AND rounds.round < ? ORDER BY rounds.round",
            task_id,
            round_number,
        )
        numbers = [*(row[0] for row in rows), round_number]
        return [(number, self.batches(task_id, number)) for number in numbers]

    def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        """Store a round's certificate, unless it has one; destroy its private key and the counts that are withheld.

        Nobody can open the round's envelopes then; `erase_some` takes them away.
        """
        round_row = self._round(task_id, round_number)
        # There is one already: the key and the withheld counts went with it.
        if not self._run("INSERT OR IGNORE INTO certificates (round, document) VALUES (?, ?)", round_row, document):
            return
        self._run("DELETE FROM private_keys WHERE round = ?", round_row)
        for query in withheld:
            self._run("UPDATE batches SET counts = NULL WHERE round = ? AND query = ?", round_row, query)
        self._remains.destroyed = True

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
        # Cleaning the files takes long, so it is done once, after the last rows.
        self._remains.erased |= not more
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
    query, body, signature, reports, dummies, digest, following, valid, left_out, counts = row
    committed = None if valid is None else Committed(valid, json.loads(left_out))
    batch = BatchId(task_id, round_number, query)
    return StoredBatch(batch, SignedDocument(body, signature), reports, dummies, digest, following, committed, counts)
