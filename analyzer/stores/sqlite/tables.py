"""The SQL statements of the store, as narrow operations inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from hubbub.analyzer.records import BatchProgress, ReceivedBatch, RoundProgress
from hubbub.analyzer.released_rounds import costs_no_more
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId, left_out_by_hops
from hubbub.protos.records.release_chain import Release
from hubbub.protos.records.results import RoundId
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.errors import damage_in
from hubbub.service.ledger.charges import Charges
from hubbub.service.receiving.inbox_tables import InboxTables
from hubbub.service.sqlite.ledger_table import insert_charges
from hubbub.service.sqlite.release_table import insert_releases, releases_of

ERASED_AT_ONCE = 32
"""Chunks erased in one transaction, 7 MB: some 40 ms, so that readers of results do not wait for all of it."""


class AnalyzerSqliteTables(InboxTables[ReceivedBatch]):
    """The operations in addition to receiving; a write is stored when its transaction ends."""

    BATCHES = (
        "SELECT query, record, signature, reports, dummies, digest, next_offset, valid, left_out, counts, attestation"
        " FROM batch WHERE round = ?"
    )

    def _delivery(self, batch: BatchId, row: Sequence[Any]) -> ReceivedBatch:
        _, body, signature, reports, dummies, digest, following, valid, left_out, counts, attestation = row
        with damage_in("a batch's"):
            committed = None if valid is None else Committed(valid, read_json(left_out))
        document = SignedDocument(body, signature)
        return ReceivedBatch(batch, document, reports, dummies, digest, following, committed, counts, attestation)

    # Keys

    def expire_keys(self, now: float) -> int:
        """Also destroy the keys of late rounds that never became complete; later released rounds wait for that."""
        late = self._all(
            "SELECT task.id, round.number FROM private_key JOIN round ON round.key = private_key.round"
            " JOIN task ON task.key = round.task WHERE not_after < ? AND task.queries >"
            " (SELECT count(*) FROM batch WHERE batch.round = round.key AND valid IS NOT NULL)"
            " AND EXISTS (SELECT 1 FROM batch WHERE batch.round = round.key)",
            now,
        )
        given_up = [each for each in late if costs_no_more(self.task(each[0]), self.batches(*each))]
        for each in given_up:
            self.abandon(*each)
        return len(given_up) + super().expire_keys(now)

    # Tasks

    def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        statement = "INSERT OR IGNORE INTO task (id, name, queries, document) VALUES (?, ?, ?, ?)"
        for signed in tasks:
            self._run(statement, signed.task.id, signed.task.name, len(signed.task.queries), signed.encode())

    def task(self, task_id: bytes) -> SignedTask | None:
        row = self._one("SELECT document FROM task WHERE id = ?", task_id)
        return None if row is None else SignedTask.decode(row[0])

    # Releases

    def _releases(self, task_id: bytes) -> Sequence[Release]:
        return releases_of(self._connection, task_id)

    def _add_releases(self, task_id: bytes, releases: Sequence[Release]) -> None:
        insert_releases(self._connection, task_id, releases)

    def records(self) -> list[tuple[bytes, int, SignedDocument]]:
        rows = self._all(
            "SELECT task.id, query, batch.record, batch.signature FROM batch"
            " JOIN round ON round.key = batch.round JOIN task ON task.key = round.task"
        )
        return [(task_id, query, SignedDocument(body, signature)) for task_id, query, body, signature in rows]

    # Counting

    def commit(
        self, batch: BatchId, counts: bytes, attestation: bytes, committed: Committed, charges: Charges
    ) -> Committed:
        """Store the counts of a batch, and add to the ledger, unless it is committed already."""
        known = self.batch(batch)
        if known is None:
            raise HubbubError(
                f"batch {batch.query} of round {batch.round} is to be committed, but was not announced; the store "
                "may be damaged (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
            )
        # Before the charges: a repeated commit must not be charged twice.
        if known.committed is not None:
            return known.committed
        insert_charges(self._connection, batch.task_id, charges)
        left_out = json.dumps(dict(committed.left_out), sort_keys=True)
        statement = "UPDATE batch SET valid = ?, left_out = ?, counts = ?, attestation = ? WHERE key = ?"
        self._run(statement, committed.counted, left_out, counts, attestation, self._batch(batch))
        return committed

    def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        batches: dict[int, list[BatchProgress]] = {}
        for row, query, body, reports, dummies, arrived, valid, left_out in self._all(
            "SELECT round, query, record, reports, dummies, next_offset, valid, left_out FROM batch ORDER BY query"
        ):
            with damage_in("a batch's"):
                committed = None if valid is None else Committed(valid, read_json(left_out))
                envelopes = reports + dummies - sum(left_out_by_hops(SignedDocument(body, b"")).values())
            batches.setdefault(row, []).append(BatchProgress(query, reports, envelopes, arrived, committed))
        rounds = self._all(
            "SELECT round.key, task.id, name, round.number, queries,"
            " EXISTS (SELECT 1 FROM private_key WHERE private_key.round = round.key),"
            " EXISTS (SELECT 1 FROM certificate WHERE certificate.round = round.key)"
            " FROM round JOIN task ON task.key = round.task WHERE ? IS NULL OR task.id = ? ORDER BY round.key",
            *(task_id, task_id),
        )
        return [
            RoundProgress(RoundId(*names), queries, bool(key), bool(certified), tuple(batches.get(row, ())))
            for row, *names, queries, key, certified in rounds
        ]

    def counted(self) -> dict[tuple[bytes, int], int]:
        """Return the rounds with a committed batch, each with its task's number of queries."""
        rows = self._all(
            "SELECT DISTINCT task.id, round.number, queries FROM batch JOIN round ON round.key = batch.round"
            " JOIN task ON task.key = round.task WHERE valid IS NOT NULL"
        )
        return {(task_id, number): queries for task_id, number, queries in rows}

    def counted_of(self, task_id: bytes) -> set[int]:
        rows = self._all(
            "SELECT round.number FROM round JOIN task ON task.key = round.task WHERE task.id = ? AND task.queries ="
            " (SELECT count(*) FROM batch WHERE batch.round = round.key AND valid IS NOT NULL)",
            task_id,
        )
        return {number for (number,) in rows}

    def is_over(self, task_id: bytes, round_number: int) -> bool:
        key = self.key(task_id, round_number)
        return key is not None and key.private is None

    # Certificates

    def uncertified(self) -> list[tuple[bytes, int]]:
        rows = self._all(
            "SELECT task.id, round.number FROM round JOIN task ON task.key = round.task"
            " WHERE NOT EXISTS (SELECT 1 FROM certificate WHERE certificate.round = round.key) AND task.queries ="
            " (SELECT COUNT(*) FROM batch WHERE batch.round = round.key AND valid IS NOT NULL)"
            " ORDER BY task.key, round.number"
        )
        return [(task_id, number) for task_id, number in rows]

    def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        """Store a round's certificate, unless it has one; destroy its private key and the withheld counts.

        Nobody can open the round's envelopes then; `erase_some` erases them.
        """
        round_row = self._round(task_id, round_number)
        # There is a certificate already: the key and the withheld counts were destroyed with it.
        if not self._run("INSERT OR IGNORE INTO certificate (round, document) VALUES (?, ?)", round_row, document):
            return
        self._run("DELETE FROM private_key WHERE round = ?", round_row)
        for query in withheld:
            self._run("UPDATE batch SET counts = NULL WHERE round = ? AND query = ?", round_row, query)
        self._remains.destroyed = True

    def unerased(self) -> list[tuple[bytes, int]]:
        rows = self._all(
            "SELECT task.id, round.number FROM round JOIN task ON task.key = round.task"
            " WHERE EXISTS (SELECT 1 FROM certificate WHERE certificate.round = round.key) AND EXISTS"
            " (SELECT 1 FROM arrived JOIN batch ON batch.key = arrived.batch WHERE batch.round = round.key)"
            " ORDER BY task.key, round.number"
        )
        return [(task_id, number) for task_id, number in rows]

    def erase_some(self, task_id: bytes, round_number: int) -> bool:
        """Erase some of a round's envelopes; return whether there are more."""
        round_row = self._round(task_id, round_number)
        of_round = "batch IN (SELECT key FROM batch WHERE round = ?)"
        some = f"SELECT key FROM arrived WHERE {of_round} LIMIT {ERASED_AT_ONCE}"  # noqa: S608 - constants
        self._run(f"DELETE FROM arrived WHERE key IN ({some})", round_row)  # noqa: S608
        more = self._one(f"SELECT 1 FROM arrived WHERE {of_round} LIMIT 1", round_row) is not None  # noqa: S608
        # Cleaning the files takes long, so it is done once, after the last rows.
        self._remains.erased |= not more
        return more

    def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        row = self._one("SELECT document FROM certificate WHERE round = ?", self._round(task_id, round_number))
        return None if row is None else row[0]

    def certified(self, task_id: bytes | None) -> list[RoundId]:
        rows = self._all(
            "SELECT task.id, name, round.number FROM certificate JOIN round ON round.key = certificate.round"
            " JOIN task ON task.key = round.task WHERE ? IS NULL OR task.id = ? ORDER BY certificate.key",
            *(task_id, task_id),
        )
        return [RoundId(*row) for row in rows]
