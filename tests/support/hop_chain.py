"""The first is played by hand; hops and analyzer are real, in one process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hubbub.analyzer.certifier import Certifier
from hubbub.analyzer.receiver import BatchReceiver
from hubbub.analyzer.records import Past
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Known, Release, ReleaseChunk, position_after
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.query import Query
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.shuffler.hop.receiver import Hop
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopStore
from hubbub.shuffler.release.delivery import Analyzer, BatchDelivery, deliver_batch
from support.krr_queries import report
from support.samples import START, Parties, sample_task, signed
from support.store_contents import store_in

T = TypeVar("T")


def no_numbers(_task: Task, _past: Past) -> dict[str, Any]:
    """No numbers of the accountant's, which take seconds."""
    return {}


class Link:
    """Who comes after a party, called in the same process; `incident` is asked before and after each call."""

    def __init__(self, to: Any, name: str) -> None:
        self.to = to
        self.name = name
        self.incident: Callable[[str], None] = lambda _point: None

    async def _call(self, call: str, *values: Any) -> Any:
        self.incident(f"before {call} at {self.name}")
        answer = await getattr(self.to, call)(*values)
        self.incident(f"after {call} at {self.name}")
        return answer

    async def get_key(self, task_id: bytes, round_number: int, _deadline: float) -> SignedDocument:
        found: SignedDocument = await self._call("get_key", task_id, round_number)
        return found

    async def get_releases(self, task_id: bytes, _deadline: float) -> Known:
        known: Known = await self._call("get_releases", task_id)
        return known

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk, _deadline: float) -> int:
        return int(await self._call("begin", record, key_set, releases))

    async def put(self, chunk: Envelopes, _deadline: float) -> int:
        return int(await self._call("put", chunk))

    async def commit(self, batch: BatchId, digest: bytes, _deadline: float) -> Committed:
        committed: Committed = await self._call("commit", batch, digest)
        return committed


class Chain:
    """`hops` shufflers behind the first one, and an analyzer, each over a folder of its own."""

    def __init__(
        self, folder: Path, hops: int = 1, dummies: int = 0, rounds: int = 3, queries: Sequence[Query] = ()
    ) -> None:
        self.folder = folder
        self.parties = Parties.generate(hops)
        privacy = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, dummies=dummies)
        schedule = Schedule(START, length=3600, grace=60, rounds=rounds)
        asked: dict[str, Any] = {"queries": tuple(queries)} if queries else {}
        self.task = sample_task(
            self.parties, minimum_reports=5, schedule=schedule, privacy=privacy, admission=ENROLLED, **asked
        )
        self.opening_pool = OpeningPool(1)
        self._key = self.task.hpke.generate_key()
        self.released: list[Release] = []
        self.failing: Callable[[str], None] = lambda _point: None
        self._open = contextlib.ExitStack()

    async def start(self) -> None:
        """Open all stores, and connect the parties from the end."""
        self._open = contextlib.ExitStack()
        self.analyzer_store = self._open.enter_context(contextlib.closing(store_in(AnalyzerStore, self.at("analyzer"))))
        both = signed(self.task, self.parties)
        await self.analyzer_store.add_tasks([both])
        self.certifier = Certifier(self.parties.analyzer, self.analyzer_store, no_numbers)
        self.receiver = BatchReceiver(
            {self.task.id: both}, self.parties.analyzer, self.analyzer_store, self.opening_pool
        )
        self.links = [self._link(self.receiver, "analyzer")]
        self.hops: list[Hop] = []
        self.stores: list[HopStore] = []
        for index, identity in reversed(list(enumerate(self.parties.hops))):
            store = self._open.enter_context(contextlib.closing(store_in(HopStore, self.at(f"hop-{index + 2}"))))
            await store.add_tasks([self.task])
            taker: Analyzer = self.links[0]
            hop = Hop({self.task.id: self.task}, identity, store, self.opening_pool, taker, "next:1")
            self.hops.insert(0, hop)
            self.stores.insert(0, store)
            self.links.insert(0, self._link(hop, f"hop-{index + 2}"))

    def _link(self, to: Any, name: str) -> Link:
        link = Link(to, name)
        link.incident = lambda point: self.failing(point)
        return link

    async def restart(self) -> None:
        """A new object for everything, on the same folders."""
        self.close()
        await self.start()

    def close(self) -> None:
        self._open.close()

    def at(self, party: str) -> Path:
        return self.folder / party

    def files(self, party: str) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.at(party).iterdir()))

    # The first shuffler's side

    async def key_set(self, number: int = 0) -> KeySet:
        record = KeyRecord(Role.SHUFFLER, self.task.id, number, self.task.suite, self._key[1], 0, 2**37)
        behind = await self.links[0].get_key(self.task.id, number, 1)
        return KeySet(record.signed_by(self.parties.shuffler), behind)

    async def sealer(self, number: int = 0) -> Sealer:
        key_set, identities = await self.key_set(number), self.task.identities
        shuffler, analyzer, *hops = key_set.read(
            *(self.task.id, number, self.task.suite), identities.shuffler, identities.analyzer, identities.hops
        )
        keys = [hop.public_key for hop in hops]
        destination = Destination(self.task.id, number, key_set.hash)
        return Sealer(destination, shuffler.public_key, analyzer.public_key, self.task.hpke, keys)

    async def seal(self, symbols: Sequence[int], query: int = 0, number: int = 0) -> list[bytes]:
        sealer = await self.sealer(number)
        return [sealer.inner(report(symbol), query) for symbol in symbols]

    async def delivery(
        self, envelopes: Sequence[bytes], query: int = 0, number: int = 0, **changes: Any
    ) -> BatchDelivery:
        """One query's batch of a round, of whose other queries nothing will be delivered."""
        return (await self.deliveries({query: envelopes}, number, **changes))[query]

    async def deliveries(
        self, batches: Mapping[int, Sequence[bytes]], number: int = 0, **changes: Any
    ) -> dict[int, BatchDelivery]:
        """The batches of a round, signed together and released after the rounds before."""
        key_set, before = await self.key_set(number), [each for each in self.released if each.round != number]
        position, dummies = position_after(self.task.id, before), changes.get("dummies", self.task.privacy.dummies)
        reports = len(next(iter(batches.values()))) - dummies
        records = []
        for query in range(len(self.task.queries)):
            digest = released_digest(batches.get(query, ()))
            record = BatchRecord(
                *(BatchId(self.task.id, number, query), reports, digest, key_set.hash, "schedule", {}, dummies),
                admission="enrolled",
                position=position,
            )
            records.append(dataclasses.replace(record, **changes))
        documents = [record.signed_by(self.parties.shuffler) for record in records]
        self.released = [*before, Release.signed(number, records[0].reports, self.task.privacy.dummies, documents)]
        releases = ReleaseChunk(0, tuple(self.released))
        return {
            query: BatchDelivery(record.batch, documents[query], key_set, releases, record.digest, record.envelopes)
            for query, record in enumerate(records)
        }

    async def deliver(self, delivery: BatchDelivery, envelopes: Sequence[bytes]) -> Committed:
        async def read(offset: int) -> Sequence[bytes]:
            return envelopes[offset : offset + 4]

        return await deliver_batch(self.links[0], delivery, read)

    async def delivered(self, symbols: Sequence[int], query: int = 0, number: int = 0) -> Committed:
        """Seal, and deliver."""
        envelopes = await self.seal(symbols, query, number)
        return await self.deliver(await self.delivery(envelopes, query, number), envelopes)

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something, and once more over parties that were all started anew where it fails."""
        try:
            return await work()
        except HubbubError:
            await self.restart()
            return await work()

    async def record(self, query: int = 0, number: int = 0) -> BatchRecord:
        """What the analyzer has of a batch, read with the records of all hops."""
        found = await self.analyzer_store.batch(BatchId(self.task.id, number, query))
        assert found is not None
        identities = self.task.identities
        return BatchRecord.read(found.record, identities.shuffler, identities.hops)


class Once:
    """Fails the call at one point, once, as a connection that breaks; tells all points that were passed."""

    def __init__(self, point: int | None = None) -> None:
        self.passed: list[str] = []
        self._point = point

    def __call__(self, point: str) -> None:
        self.passed.append(point)
        if len(self.passed) - 1 == self._point:
            raise Unreachable(f"broken {point}")


def strangers(count: int, width: int) -> list[bytes]:
    """Bytes that nobody sealed."""
    return [os.urandom(width) for _ in range(count)]
