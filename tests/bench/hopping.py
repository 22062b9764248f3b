"""What it takes to receive a batch, open, permute, store and pass it on, against its bare opens."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path

from cores import all_cores, open_bare, rate, shares
from row import Outcome, Row
from sample_task import INNER_BYTES, THEME

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Known, Release, ReleaseChunk, first_head, position_after
from hubbub.protos.sealing.envelope import FIRST_HOP, Destination, _inner_info
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Identities, Privacy, Task
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.service.receiving.round_keys import make_key
from hubbub.shuffler.hop.receiver import Hop
from hubbub.shuffler.hop.sqlite import HopSqliteStore
from hubbub.shuffler.mix.mix import RELEASED_BLOCK

REPORTS = 40_000
"""Envelopes of one batch."""

RUNS = 5
"""Runs of limit and result, by turns; each is a round of its own."""


class _Taker:
    """Who comes after the hop, and costs nothing."""

    def __init__(self, task: Task, analyzer: Identity) -> None:
        self._task, self._analyzer = task, analyzer
        self.taken = 0

    async def get_key(self, _task_id: bytes, round_number: int, _deadline: float) -> SignedDocument:
        return make_key(Role.ANALYZER, self._task, round_number, self._analyzer).record

    async def get_releases(self, task_id: bytes, _deadline: float) -> Known:
        return Known(0, first_head(task_id))

    async def begin(self, _record: SignedDocument, _key_set: KeySet, _releases: ReleaseChunk, _deadline: float) -> int:
        self.taken = 0
        return 0

    async def put(self, chunk: Envelopes, _deadline: float) -> int:
        self.taken += len(chunk.envelopes)
        return self.taken

    async def commit(self, _batch: BatchId, _digest: bytes, _deadline: float) -> Committed:
        return Committed(self.taken, {})


class _Sender:
    """The first shuffler, and the hop that it delivers to."""

    def __init__(self, folder: Path, opening_pool: OpeningPool) -> None:
        operator, self.shuffler, analyzer, hop = (Identity.generate() for _ in range(4))
        identities = Identities(operator.public, self.shuffler.public, analyzer.public, (hop.public,))
        schedule = Schedule(int(time.time()), 3600, 60, RUNS + 1, "operator")
        privacy = Privacy(1.0, 1e-6)
        self.task = Task("speed", schedule, 1000, privacy, (THEME,), identities, ENROLLED, 10 * REPORTS)
        HopSqliteStore.create(folder)
        self.store = HopSqliteStore(folder)
        self.released: list[Release] = []
        taker = _Taker(self.task, analyzer)
        self.hop = Hop({self.task.id: self.task}, hop, self.store, opening_pool, taker, "nobody:1")

    async def keys(self, number: int) -> tuple[KeySet, bytes]:
        """Return the round's key set, and the hop's public key."""
        found = await self.hop.get_key(self.task.id, number)
        public = KeyRecord.read(found, self.task.identities.hops[0]).public_key
        record = KeyRecord(Role.SHUFFLER, self.task.id, number, self.task.suite, DEFAULT.generate_key()[1], 0, 2**37)
        return KeySet(record.signed_by(self.shuffler), found), public

    async def deliver(self, number: int, key_set: KeySet, envelopes: bytes) -> float:
        """Deliver a batch; return the seconds until the hop has passed all of it on."""
        width, batch = self.task.inner_bytes[0], BatchId(self.task.id, number, 0)
        parts = [envelopes[start : start + width] for start in range(0, len(envelopes), width)]
        blocks = [tuple(parts[first : first + RELEASED_BLOCK]) for first in range(0, len(parts), RELEASED_BLOCK)]
        digest, position = released_digest([envelopes]), position_after(self.task.id, self.released)
        record = BatchRecord(batch, REPORTS, digest, key_set.hash, "operator", admission="enrolled", position=position)
        document, offset = record.signed_by(self.shuffler), 0
        first = len(self.released)
        self.released.append(Release.signed(number, REPORTS, 0, [document]))
        started = time.perf_counter()
        await self.hop.begin(document, key_set, ReleaseChunk(first, tuple(self.released[first:])))
        for block in blocks:
            offset = await self.hop.put(Envelopes(batch, offset, block))
        committed = await self.hop.commit(batch, digest)
        seconds = time.perf_counter() - started
        if committed != Committed(REPORTS, {}):
            raise RuntimeError(f"{committed.counted} of {REPORTS} envelopes were passed on")
        return seconds


def sealed_to_hop(public: bytes, destination: Destination, count: int) -> bytes:
    """Seal `count` times random bytes of an inner envelope's length to a hop: envelopes one after the other."""
    key, info = DEFAULT.public_key(public), _inner_info(destination, 0, FIRST_HOP)
    return b"".join(DEFAULT.encrypt(os.urandom(INNER_BYTES), key, info) for _ in range(count))


def _joined(parts: Sequence[Future[bytes]]) -> bytes:
    return b"".join([each.result() for each in parts])


def hopping() -> Iterator[Outcome]:
    """Pass a batch on, from its announcement until the next party has it; what that party does is left out."""
    with all_cores() as pool:
        yield asyncio.run(_hopping(pool))


async def _hopping(pool: ProcessPoolExecutor) -> Row:
    opening_pool = OpeningPool()
    limits, values = [], []
    with tempfile.TemporaryDirectory(prefix="hubbub-bench-") as folder:
        sender = _Sender(Path(folder) / "data", opening_pool)
        try:
            await sender.store.add_tasks([sender.task])
            for number in range(RUNS + 1):
                key_set, public = await sender.keys(number)
                to = Destination(sender.task.id, number, key_set.hash)
                sealing = [pool.submit(sealed_to_hop, public, to, share) for share in shares(REPORTS)]
                sealed = await asyncio.to_thread(_joined, sealing)
                limits.append(rate(pool, partial(open_bare, INNER_BYTES), REPORTS))
                values.append(REPORTS / await sender.deliver(number, key_set, sealed))
        finally:
            opening_pool.close()
            sender.store.close()
    # In the first run the processes were started.
    return Row.of("second_hop", "envelopes/s", values[1:], limits[1:])


ROWS = (hopping,)
