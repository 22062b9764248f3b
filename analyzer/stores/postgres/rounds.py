"""Reads and writes rounds and their arrived envelopes, in the database and the keyring, inside one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from hubbub.analyzer.records import ReceivedBatch
from hubbub.analyzer.stores.postgres.keyring import AnalyzerKeyring, DeliverySecrets
from hubbub.analyzer.stores.postgres.sealing import DeliveryCipher
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.release_chain import Release
from hubbub.protos.strict_json import read_json
from hubbub.service.errors import damage_in
from hubbub.service.postgres import ledger
from hubbub.service.postgres.keyring import RoundId
from hubbub.service.postgres.sessions import Connection
from hubbub.service.receiving.inbox import InboxTransaction
from hubbub.service.receiving.receiver import StoredKey, check_repetition
from hubbub.service.receiving.round_keys import NewRoundKey

_BATCHES = (
    "SELECT query, batch.record, batch.signature, reports, dummies, digest, next_offset, valid, left_out, counts,"
    " attestation, certified FROM batch JOIN round_status ON round_status.key = batch.round WHERE id = %s "
    "AND number = %s"
)


def of_round(statement: str, key: int) -> sql.Composed:
    """Return a statement on the table of a round's envelopes; it names the table {arrived}."""
    return sql.SQL(statement).format(arrived=sql.Identifier(f"arrived_{key}"))


class RoundQueries(InboxTransaction[ReceivedBatch]):
    """The operations; a write is stored when the transaction ends.

    `destroyed` gathers the rounds whose secrets must be destroyed afterwards.
    """

    def __init__(self, connection: Connection, keyring: AnalyzerKeyring) -> None:
        self.connection = connection
        self.destroyed: set[RoundId] = set()
        self._keyring = keyring

    def _one(self, statement: str, *values: Any) -> tuple[Any, ...] | None:
        return self.connection.execute(statement, values).fetchone()

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, values).fetchall()

    def _round(self, task_id: bytes, number: int) -> int | None:
        """Return the row of a round; None if it has no key yet."""
        row = self._one("SELECT key FROM round_status WHERE id = %s AND number = %s", task_id, number)
        return None if row is None else row[0]

    def _must_be_there(self, task_id: bytes, number: int) -> int:
        key = self._round(task_id, number)
        if key is None:
            raise HubbubError(f"round {number} of task {task_id.hex()} has no key yet")
        return key

    def _secrets(self, task_id: bytes, number: int) -> DeliverySecrets:
        return self._keyring.of((task_id, number))

    # Keys

    def key(self, task_id: bytes, number: int) -> StoredKey | None:
        row = self._one(
            "SELECT record, signature, key_set_hash, destroyed FROM round_status WHERE id = %s AND number = %s",
            *(task_id, number),
        )
        if row is None:
            return None
        record, signature, key_set_hash, destroyed = row
        # The database decides: the keyring may not have been written yet.
        private = None if destroyed else self._secrets(task_id, number).private_key
        return StoredKey(private or None, SignedDocument(record, signature), key_set_hash)

    def _insert_key(self, task_id: bytes, number: int, key: NewRoundKey) -> None:
        row = self._one(
            "INSERT INTO round (task, number, record, signature, not_after)"
            " SELECT key, %s, %s, %s, %s FROM task WHERE id = %s RETURNING key",
            *(number, key.record.body, key.record.signature, key.not_after, task_id),
        )
        if row is None:
            raise HubbubError(f"a round of task {task_id.hex()} needs a key, but the task was not added")
        columns = "query integer, first bigint, envelopes bytea NOT NULL, PRIMARY KEY (query, first)"
        for statement in (
            f"CREATE TABLE {{arrived}} ({columns})",
            # Envelopes do not compress, so the server need not try. `CREATE` accepts this only from version 16 of
            # PostgreSQL on.
            "ALTER TABLE {arrived} ALTER COLUMN envelopes SET STORAGE EXTERNAL",
        ):
            self.connection.execute(of_round(statement, row[0]))
        self._keyring.install((task_id, number), key.private)

    def abandon(self, task_id: bytes, number: int) -> None:
        """Erase a round's envelopes and its private key, so that nothing of it will be counted."""
        row = self._round(task_id, number)
        if row is None:
            return
        # The counts of its counted batches become unreadable with the secret that encrypts them.
        self._run("UPDATE batch SET next_offset = 0, counts = NULL WHERE round = %s", row)
        self.drop(row)
        self._run("UPDATE round SET destroyed = true WHERE key = %s", row)
        self.destroyed.add((task_id, number))

    def _run(self, statement: str, *values: Any) -> int:
        return self.connection.execute(statement, values).rowcount

    def drop(self, row: int) -> None:
        """Drop the table of a round's envelopes."""
        self.connection.execute(of_round("DROP TABLE IF EXISTS {arrived}", row))
        self._run("UPDATE round SET stored = false WHERE key = %s", row)

    def to_destroy(self) -> list[RoundId]:
        """Return the rounds that are destroyed in the database but still have secrets in the keyring."""
        rows = self._all("SELECT id, number FROM round_status WHERE destroyed")
        return sorted(set(self._keyring.alive) & set(rows))

    # Batches

    def _releases(self, task_id: bytes) -> Sequence[Release]:
        return ledger.releases_of(self.connection, task_id)

    def _add_releases(self, task_id: bytes, releases: Sequence[Release]) -> None:
        ledger.insert_releases(self.connection, task_id, releases)

    def _insert_batch(self, record: BatchRecord, document: SignedDocument, key_set_hash: bytes) -> None:
        batch, row = record.batch, self._must_be_there(record.batch.task_id, record.batch.round)
        # Fixed by the first batch; `_insert_batch` is called only after a check that all others have the same one.
        self._run("UPDATE round SET key_set_hash = %s WHERE key = %s", key_set_hash, row)
        self._run(
            "INSERT INTO batch (round, query, record, signature, reports, dummies, digest)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            *(row, batch.query),
            *(document.body, document.signature, record.reports, record.added, record.last_digest),
        )

    def batch(self, batch: BatchId) -> ReceivedBatch | None:
        row = self._one(_BATCHES + " AND query = %s", batch.task_id, batch.round, batch.query)
        return None if row is None else self._delivery(batch, row)

    def batches(self, task_id: bytes, number: int) -> list[ReceivedBatch]:
        rows = self._all(_BATCHES + " ORDER BY query", task_id, number)
        return [self._delivery(BatchId(task_id, number, row[0]), row) for row in rows]

    def _delivery(self, batch: BatchId, row: Sequence[Any]) -> ReceivedBatch:
        query, body, signature, reports, dummies, digest, following, valid, left_out, counts, attested, certified = row
        with damage_in("a batch's"):
            committed = None if valid is None else Committed(valid, read_json(left_out))
        if counts is not None and certified is None:
            cipher = self._secrets(batch.task_id, batch.round).cipher
            counts = None if cipher is None else cipher.open_counts(query, counts)
        document = SignedDocument(body, signature)
        return ReceivedBatch(batch, document, reports, dummies, digest, following, committed, counts, attested)

    def _insert_chunk(self, batch: BatchId, first: int, envelopes: Sequence[bytes]) -> None:
        row, cipher = self._must_be_there(batch.task_id, batch.round), self._open_cipher(batch)
        sealed = cipher.seal_chunk(batch.query, first, b"".join(envelopes))
        statement = of_round("INSERT INTO {arrived} (query, first, envelopes) VALUES (%s, %s, %s)", row)
        self.connection.execute(statement, (batch.query, first, sealed))
        more = "UPDATE batch SET next_offset = next_offset + %s WHERE round = %s AND query = %s"
        self._run(more, len(envelopes), row, batch.query)

    def _open_cipher(self, batch: BatchId) -> DeliveryCipher:
        cipher = self._secrets(batch.task_id, batch.round).cipher
        key = self.key(batch.task_id, batch.round)
        if cipher is None or key is None or key.private is None:
            raise HubbubError(f"round {batch.round} of task {batch.task_id.hex()} is over; it accepts nothing")
        return cipher

    def _check_repetition(self, chunk: Envelopes, repeated: int) -> None:
        batch, query, offset = chunk.batch, chunk.batch.query, chunk.offset
        row, cipher = self._must_be_there(batch.task_id, batch.round), self._open_cipher(batch)
        statement = of_round(
            "SELECT first, envelopes FROM {arrived} WHERE query = %(query)s AND first < %(end)s AND first >="
            " (SELECT max(first) FROM {arrived} WHERE query = %(query)s AND first <= %(offset)s) ORDER BY first",
            row,
        )
        with self.connection.cursor(binary=True) as cursor:
            cursor.execute(statement, {"query": query, "offset": offset, "end": offset + repeated})
            stored = ((first, cipher.open_chunk(query, first, sealed)) for first, sealed in cursor)
            check_repetition(stored, offset, chunk.envelopes[:repeated])

    def chunk_after(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        """Return the first stored chunk of a batch after an offset; None if there is none."""
        found = self._one(
            "SELECT key FROM round_status WHERE id = %s AND number = %s AND stored AND NOT destroyed",
            *(batch.task_id, batch.round),
        )
        cipher = None if found is None else self._secrets(batch.task_id, batch.round).cipher
        if found is None or cipher is None:
            return None
        statement = "SELECT first, envelopes FROM {arrived} WHERE query = %s AND first > %s ORDER BY first LIMIT 1"
        with self.connection.cursor(binary=True) as cursor:
            row = cursor.execute(of_round(statement, found[0]), (batch.query, offset)).fetchone()
        return None if row is None else (row[0], cipher.open_chunk(batch.query, row[0], row[1]))

    def forget_envelopes(self, batch: BatchId) -> None:
        row = self._round(batch.task_id, batch.round)
        forgotten = (
            "UPDATE batch SET next_offset = 0 WHERE round = %s AND query = %s AND valid IS NULL AND next_offset > 0"
        )
        if row is not None and self._run(forgotten, row, batch.query):
            self.connection.execute(of_round("DELETE FROM {arrived} WHERE query = %s", row), (batch.query,))
