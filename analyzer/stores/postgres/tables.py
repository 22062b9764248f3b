"""Reads and writes tasks, counts, charges and certificates inside one transaction; `rounds` has the rest."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from hubbub.analyzer.records import BatchProgress, RoundProgress
from hubbub.analyzer.released_rounds import costs_no_more
from hubbub.analyzer.stores.postgres.rounds import RoundQueries
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId, left_out_by_hops
from hubbub.protos.records.results import RoundId
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.errors import damage_in
from hubbub.service.ledger.charges import Charges
from hubbub.service.postgres import ledger


class AnalyzerPostgresTables(RoundQueries):
    """The operations; see `RoundQueries`."""

    # Tasks

    def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        statement = "INSERT INTO task (id, name, queries, document) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        for signed in tasks:
            self._run(statement, signed.task.id, signed.task.name, len(signed.task.queries), signed.encode())

    def task(self, task_id: bytes) -> SignedTask | None:
        row = self._one("SELECT document FROM task WHERE id = %s", task_id)
        return None if row is None else SignedTask.decode(row[0])

    # Keys

    def expire_keys(self, now: float) -> int:
        """Destroy expired keys: of rounds without a batch, and of rounds that never became complete.

        Rounds that were released after these wait for that.
        """
        expired = self._all(
            "SELECT id, number, announced FROM round_status WHERE not_after < %s AND NOT destroyed AND "
            "queries > counted",
            now,
        )
        given_up = [
            (task_id, number)
            for task_id, number, announced in expired
            if not announced or costs_no_more(self.task(task_id), self.batches(task_id, number))
        ]
        for each in given_up:
            self.abandon(*each)
        self.destroyed.update(self.to_destroy())
        return len(given_up)

    # Releases

    def records(self) -> list[tuple[bytes, int, SignedDocument]]:
        rows = self._all(
            "SELECT id, query, batch.record, batch.signature FROM round_status JOIN batch ON batch.round = key"
        )
        return [(task_id, query, SignedDocument(body, signature)) for task_id, query, body, signature in rows]

    def counted_of(self, task_id: bytes) -> set[int]:
        rows = self._all("SELECT number FROM round_status WHERE id = %s AND queries = counted", task_id)
        return {number for (number,) in rows}

    def is_over(self, task_id: bytes, round_number: int) -> bool:
        statement = "SELECT 1 FROM round_status WHERE id = %s AND number = %s AND destroyed"
        return self._one(statement, task_id, round_number) is not None

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
        sealed = self._open_cipher(batch).seal_counts(batch.query, counts)
        if charges:
            ledger.check_charges(self.connection, batch.task_id, charges)
            ledger.insert_charges(self.connection, batch.task_id, charges)
        left_out = json.dumps(dict(committed.left_out), sort_keys=True)
        self._run(
            "UPDATE batch SET valid = %s, left_out = %s, counts = %s, attestation = %s WHERE round = %s AND query = %s",
            *(committed.counted, left_out, sealed, attestation),
            *(self._round(batch.task_id, batch.round), batch.query),
        )
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
            "SELECT key, id, name, number, queries, NOT destroyed, certified IS NOT NULL FROM round_status"
            " WHERE %s::bytea IS NULL OR id = %s ORDER BY key",
            *(task_id, task_id),
        )
        return [
            RoundProgress(RoundId(*names), queries, key, certified, tuple(batches.get(row, ())))
            for row, *names, queries, key, certified in rounds
        ]

    def counted(self) -> dict[tuple[bytes, int], int]:
        """Return the rounds with a committed batch, each with its task's number of queries."""
        rows = self._all("SELECT id, number, queries FROM round_status WHERE counted > 0")
        return {(task_id, number): queries for task_id, number, queries in rows}

    # Certificates

    def uncertified(self) -> list[tuple[bytes, int]]:
        rows = self._all(
            "SELECT id, number FROM round_status WHERE certified IS NULL AND queries = counted ORDER BY task, number"
        )
        return [(task_id, number) for task_id, number in rows]

    def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        """Store a round's certificate, unless it has one; destroy its private key and the withheld counts.

        The other counts are results from now on, and are stored in plain.
        """
        row = self._must_be_there(task_id, round_number)
        self.destroyed.add((task_id, round_number))
        batches = self.batches(task_id, round_number)
        new = "INSERT INTO certificate (round, document) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        # There is a certificate already: the key and the withheld counts were destroyed with it.
        if not self._run(new, row, document):
            return
        for batch in batches:
            counts = None if batch.id.query in withheld else batch.counts
            self._run("UPDATE batch SET counts = %s WHERE round = %s AND query = %s", counts, row, batch.id.query)
        self._run("UPDATE round SET destroyed = true WHERE key = %s", row)

    def unerased(self) -> list[tuple[bytes, int]]:
        rows = self._all(
            "SELECT id, number FROM round_status WHERE certified IS NOT NULL AND stored ORDER BY task, number"
        )
        return [(task_id, number) for task_id, number in rows]

    def erase(self, task_id: bytes, round_number: int) -> None:
        """Drop a round's envelopes, all at once, which waits for no other rows."""
        row = self._round(task_id, round_number)
        if row is not None:
            self.drop(row)

    def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        row = self._one("SELECT document FROM certificate WHERE round = %s", self._round(task_id, round_number))
        return None if row is None else row[0]

    def certified(self, task_id: bytes | None) -> list[RoundId]:
        rows = self._all(
            "SELECT id, name, number FROM round_status"
            " WHERE certified IS NOT NULL AND (%s::bytea IS NULL OR id = %s) ORDER BY certified",
            *(task_id, task_id),
        )
        return [RoundId(*row) for row in rows]
