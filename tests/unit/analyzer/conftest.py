"""An analyzer on a folder, and a shuffler's side played by hand."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hubbub.analyzer.certifier import Certifier, Statement
from hubbub.analyzer.receiver import BatchReceiver
from hubbub.analyzer.records import Past, ReceivedBatch, counted_of
from hubbub.analyzer.results import Results
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Release, ReleaseChunk, position_after, record_hash
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.admission import OPEN, AdmissionPolicy
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import Incidents
from hubbub.service.processes.opening_pool import OpeningPool
from support.krr_queries import report
from support.samples import Parties, sample_task, signed
from support.store_contents import store_in

# Eight reports of the histogram (3 symbols), eight of the optional sum (9 symbols).
SYMBOLS = ([0, 0, 0, 1, 1, 2, 2, 0], [0, 7, 8, 8, 3, 3, 4, 1])


def quick_statement(task: Task, past: Past) -> dict[str, Any]:
    """The certificate's counts without its bounds, which take seconds."""
    return {
        "all_rounds": {"history": [_composed(*each) for each in past.history]},
        "queries": [_stated(task, batch) for batch in past.history[-1][1]],
    }


def _composed(number: int, batches: Sequence[ReceivedBatch]) -> dict[str, Any]:
    valid = [batch.committed.counted if batch.committed else 0 for batch in batches]
    return {"queries": [{"valid": each} for each in valid], "round": number}


def rounds_in(body: dict[str, Any]) -> list[int]:
    """The rounds that a certificate composes."""
    return [each["round"] for each in body["all_rounds"]["history"]]


def _stated(task: Task, batch: ReceivedBatch) -> dict[str, Any]:
    counted = counted_of(task, batch)
    state = "withheld" if counted.tally is None else "published"
    facts = {"reports": counted.reports, "valid": counted.valid, "left_out": dict(counted.left_out), "state": state}
    return {"name": task.queries[batch.id.query].name, **facts}


class Bench:
    """Stages of one analyzer, restarted at will; and everything a shuffler would do."""

    def __init__(
        self,
        folder: Path,
        minimum_reports: int = 5,
        schedule: Schedule | None = None,
        admission: AdmissionPolicy = OPEN,
    ) -> None:
        self.folder = folder
        self.parties = Parties.generate()
        self.task = sample_task(self.parties, minimum_reports=minimum_reports, schedule=schedule, admission=admission)
        self.signed = signed(self.task, self.parties)
        self.shuffler_key = self.task.hpke.generate_key()
        self.opening_pool = OpeningPool(1)
        self.chain: list[Release] = []
        self.state: Statement = quick_statement
        self.served = {self.task.id}

    async def start(self) -> None:
        self.incidents = Incidents()
        self.store = store_in(AnalyzerSqliteStore, self.folder, incidents=self.incidents)
        await self.store.add_tasks([self.signed])
        self.certifier = Certifier(self.parties.analyzer, self.store, self.state, incidents=self.incidents)
        self.receiver = BatchReceiver(
            {self.task.id: self.signed},
            self.parties.analyzer,
            self.store,
            self.opening_pool,
            committed=self.certifier.start,
            incidents=self.incidents,
        )
        self.results = Results(self.store, self.certifier, self.served, self.incidents)

    async def restart(self) -> None:
        """A new object for everything, on the same folder."""
        await self.certifier.settle()
        self.store.close()
        await self.start()

    async def key_set(self, round_number: int = 0) -> KeySet:
        analyzer = await self.receiver.get_key(self.task.id, round_number)
        record = KeyRecord(Role.SHUFFLER, self.task.id, round_number, self.task.suite, self.shuffler_key[1], 0, 2**37)
        return KeySet(record.signed_by(self.parties.shuffler), analyzer)

    async def seal(self, query: int, symbols: Sequence[int], round_number: int = 0) -> list[bytes]:
        """Seal kRR reports of these symbols."""
        return await self.seal_reports(query, [report(symbol) for symbol in symbols], round_number)

    async def seal_reports(self, query: int, reports: Sequence[bytes], round_number: int = 0) -> list[bytes]:
        key_set = await self.key_set(round_number)
        public = KeyRecord.read(key_set.analyzer, self.parties.analyzer.public).public_key
        destination = Destination(self.task.id, round_number, key_set.hash)
        sealer = Sealer(destination, self.shuffler_key[1], public, self.task.hpke)
        return [sealer.inner(each, query) for each in reports]

    def batch(self, query: int, round_number: int = 0) -> BatchId:
        return BatchId(self.task.id, round_number, query)

    async def record(
        self, query: int, envelopes: Sequence[bytes], round_number: int = 0, **changes: object
    ) -> BatchRecord:
        key_set = await self.key_set(round_number)
        digest = released_digest(envelopes)
        record = BatchRecord(
            *(self.batch(query, round_number), len(envelopes), digest, key_set.hash, "schedule"),
            admission=self.task.admission.mode.value,
            position=position_after(self.task.id, self.before(round_number)),
        )
        return dataclasses.replace(record, **changes)  # type: ignore[arg-type]

    def before(self, round_number: int) -> list[Release]:
        """The releases before a round: all, where it was not released."""
        return list(itertools.takewhile(lambda release: release.round != round_number, self.chain))

    async def begin(
        self, record: BatchRecord, key_set: KeySet | None = None, releases: ReleaseChunk | None = None
    ) -> int:
        """Announce a batch, with its round's release; one that was not `released` before is made for it alone."""
        document: SignedDocument = record.signed_by(self.parties.shuffler)
        releases = releases or self._up_to(record, document)
        known = key_set or await self.key_set(record.batch.round)
        offset = await self.receiver.begin(document, known, releases)
        if record.batch.round not in {release.round for release in self.chain}:
            self.chain = list(releases.releases)
        return offset

    def _up_to(self, record: BatchRecord, document: SignedDocument) -> ReleaseChunk:
        before = self.before(record.batch.round)
        own = self.chain[len(before) : len(before) + 1]
        if not own or own[0].records[record.batch.query] != record_hash(document):
            # Nobody delivers its other batches, so their records may be any.
            places = range(len(self.task.queries))
            records = [record_hash(document) if place == record.batch.query else bytes(32) for place in places]
            own = [Release(record.batch.round, record.reports, record.dummies, tuple(records))]
        return ReleaseChunk(0, (*before, *own))

    async def released(
        self, batches: Sequence[Sequence[bytes]], round_number: int = 0
    ) -> tuple[list[BatchRecord], ReleaseChunk]:
        """Release a round: its records, and the releases that come with them, this one last.

        Who delivers several batches of a round one by one has it released first: a release has the records of all.
        """
        position = position_after(self.task.id, self.chain)
        records = [
            await self.record(query, each, round_number, position=position) for query, each in enumerate(batches)
        ]
        return records, self.release(records)

    def release(self, records: Sequence[BatchRecord]) -> ReleaseChunk:
        """Release a round of which these are the records."""
        first, documents = records[0], [record.signed_by(self.parties.shuffler) for record in records]
        self.chain.append(Release.signed(first.batch.round, first.reports, first.dummies, documents))
        return ReleaseChunk(0, tuple(self.chain))

    async def put(self, query: int, offset: int, envelopes: Sequence[bytes], round_number: int = 0) -> int:
        return await self.receiver.put(Envelopes(self.batch(query, round_number), offset, tuple(envelopes)))

    async def deliver(self, query: int, envelopes: Sequence[bytes], round_number: int = 0) -> Committed:
        record = await self.record(query, envelopes, round_number)
        await self.begin(record)
        await self.put(query, 0, envelopes, round_number)
        return await self.receiver.commit(record.batch, record.digest)

    async def deliver_round(self, round_number: int = 0) -> list[list[bytes]]:
        batches = [await self.seal(query, symbols, round_number) for query, symbols in enumerate(SYMBOLS)]
        await self.deliver_batches(batches, round_number)
        return batches

    async def deliver_batches(self, batches: Sequence[Sequence[bytes]], round_number: int = 0) -> list[Committed]:
        """Deliver all batches of a round, and let it be certified."""
        records, releases = await self.released(batches, round_number)
        committed = []
        for query, envelopes in enumerate(batches):
            await self.begin(records[query], releases=releases)
            await self.put(query, 0, envelopes, round_number)
            committed.append(await self.receiver.commit(records[query].batch, records[query].digest))
        await self.certifier.settle()
        return committed

    def files(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))

    async def stop(self) -> None:
        await self.certifier.settle()
        self.store.close()
        self.opening_pool.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "data")
    await bench.start()
    yield bench
    await bench.stop()


@pytest.fixture
def symbols() -> tuple[list[int], list[int]]:
    return SYMBOLS
