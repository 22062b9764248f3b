"""Opening and counting against bare opens on all cores, and what comes after the last open."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import repeat
from pathlib import Path

import numpy as np
from cores import all_cores, open_bare, rate, sealed_inners, shares
from row import Outcome, Row
from sample_task import HALF, INNER_BYTES, THEME, SampleTask

from hubbub.analyzer.certifier import Certifier
from hubbub.analyzer.receiver import BatchReceiver
from hubbub.analyzer.results import Results
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Release, ReleaseChunk, position_after
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.service.processes.opening_pool import Opened, OpeningJob, OpeningPool
from hubbub.shuffler.mix.mix import RELEASED_BLOCK

REPORTS = 60_000
"""Envelopes opened in one run."""

RUNS = 5
"""Runs of limit and result, by turns."""

LARGE = 10**6
"""Reports of the batch that is estimated and certified."""

REGIONS = tuple(map(str, range(64)))

OPENED = (
    Query(Histogram("theme", ("dark", "light")), KRandomizedResponse(2, HALF)),
    Query(Histogram("region", REGIONS, randomizer="unary"), UnaryEncoding(64, HALF, HALF // 16)),
    Query(Histogram("region", REGIONS, randomizer="hashed"), HashedResponse(64, 4096, 256, HALF)),
)
"""A query of each randomizer."""

ESTIMATE_SECONDS = 0.5
ESTIMATES = 3


class Analyzer:
    """The stages of one analyzer on a folder, and a batch that was delivered to it."""

    def __init__(self, folder: Path, opening_pool: OpeningPool, query: Query) -> None:
        self.sample = SampleTask.generate(query)
        AnalyzerSqliteStore.create(folder)
        self.store, self.opening_pool = AnalyzerSqliteStore(folder), opening_pool
        task, signed = self.sample.task, self.sample.signed
        self.certifier = Certifier(self.sample.analyzer, self.store)
        self.receiver = BatchReceiver(
            {task.id: signed},
            self.sample.analyzer,
            self.store,
            opening_pool,
            committed=self.certifier.start,
        )
        self.results = Results(self.store, self.certifier, {task.id})
        self.batch = BatchId(task.id, 0, 0)

    async def keys(self) -> tuple[KeySet, bytes]:
        """Return the round's key set, and the analyzer's public key that envelopes are sealed to."""
        task = self.sample.task
        analyzer = await self.receiver.get_key(task.id, 0)
        record = KeyRecord(Role.SHUFFLER, task.id, 0, task.suite, DEFAULT.generate_key()[1], 0, 2**37)
        public = KeyRecord.read(analyzer, self.sample.analyzer.public).public_key
        return KeySet(record.signed_by(self.sample.shuffler), analyzer), public

    async def deliver(self, key_set: KeySet, envelopes: bytes) -> BatchRecord:
        """Deliver a batch as the shuffler does."""
        width = self.sample.inner_bytes
        count = len(envelopes) // width
        record = BatchRecord(
            *(self.batch, count, released_digest([envelopes]), key_set.hash, "operator"),
            admission=self.sample.task.admission.mode.value,
            position=position_after(self.batch.task_id, ()),
        )
        document = record.signed_by(self.sample.shuffler)
        releases = ReleaseChunk(0, (Release.signed(self.batch.round, count, 0, [document]),))
        await self.receiver.begin(document, key_set, releases)
        for offset in range(0, count, RELEASED_BLOCK):
            block = envelopes[offset * width : (offset + RELEASED_BLOCK) * width]
            parts = tuple(block[start : start + width] for start in range(0, len(block), width))
            await self.receiver.put(Envelopes(self.batch, offset, parts))
        return record


@asynccontextmanager
async def _analyzer(opening_pool: OpeningPool, query: Query = THEME) -> AsyncIterator[Analyzer]:
    with tempfile.TemporaryDirectory(prefix="hubbub-bench-") as folder:
        analyzer = Analyzer(Path(folder) / "data", opening_pool, query)
        try:
            await analyzer.store.add_tasks([analyzer.sample.signed])
            yield analyzer
        finally:
            await analyzer.certifier.settle()
            analyzer.store.close()
            opening_pool.close()


def opening() -> Iterator[Outcome]:
    """Open and count a delivered batch of each randomizer, read from the store, its digest checked."""
    with all_cores() as pool:
        for query in OPENED:
            yield asyncio.run(_opening(pool, query))


async def _opening(pool: ProcessPoolExecutor, query: Query) -> Row:
    async with _analyzer(OpeningPool(), query) as analyzer:
        key_set, public = await analyzer.keys()
        to = Destination(analyzer.sample.task.id, 0, key_set.hash)
        reports = [query.randomize(symbol % query.symbols, os.urandom) for symbol in range(100)]
        sealing = [pool.submit(sealed_inners, public, to, reports, share) for share in shares(REPORTS)]
        sealed = await asyncio.to_thread(lambda: b"".join([each.result() for each in sealing]))
        await analyzer.deliver(key_set, sealed)
        stored = await analyzer.receiver.receiver.announced(analyzer.batch)
        await analyzer.receiver._open(analyzer.sample.task, stored)  # the processes have started
        limits, values = [], []
        for _ in range(RUNS):
            limits.append(rate(pool, partial(open_bare, query.report_bytes), REPORTS))
            started = time.perf_counter()
            await analyzer.receiver.receiver.check_envelopes(stored)
            opened = await analyzer.receiver._open(analyzer.sample.task, stored)
            values.append(REPORTS / (time.perf_counter() - started))
            if opened.tally.valid != REPORTS:
                raise RuntimeError(f"{opened.tally.valid} of {REPORTS} envelopes were counted")
    return Row.of(f"open_{query.question.randomizer}", "envelopes/s", values, limits)


class _Counted(OpeningPool):
    """Gives reports without opening, and notes when it gave the last."""

    finished = 0.0

    def open(self, _job: OpeningJob, chunks: Iterable[bytes], _expected: int) -> Iterator[Opened]:
        for place, chunk in enumerate(chunks):
            count = len(chunk) // INNER_BYTES
            yield np.fromiter(repeat(place % 2, count), dtype=">u4").tobytes(), 0
        self.finished = time.perf_counter()


def estimating() -> Iterator[Outcome]:
    """From the last open of 10⁶ until the results are there, each time in a new process: nothing is computed before."""
    seconds = []
    for _ in range(ESTIMATES):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            seconds.append(pool.submit(_estimating, LARGE).result())
    yield Row.of("estimate", "s", seconds, ESTIMATE_SECONDS)


def _estimating(count: int) -> float:
    return asyncio.run(_estimated(count))


async def _estimated(count: int) -> float:
    opening_pool = _Counted(1)
    async with _analyzer(opening_pool) as analyzer:
        key_set, _ = await analyzer.keys()
        record = await analyzer.deliver(key_set, os.urandom(count * INNER_BYTES))
        committed = await analyzer.receiver.commit(record.batch, record.digest)
        results = await analyzer.results.get_results(analyzer.sample.task.id, 0, 30.0)
        ended = time.perf_counter()
    if committed.counted != count or results.queries[0].estimates is None:
        raise RuntimeError(f"{committed.counted} of {count} reports were counted and estimated")
    return ended - opening_pool.finished


ROWS = (opening, estimating)
