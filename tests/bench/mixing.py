"""A round is cut, permuted, stored and released, against copying the same bytes through the same store once.

Drawing and sealing the noise of a batch is compared with mixing it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from row import Comparison, Outcome, Row
from sample_task import HALF, INNER_BYTES, SampleTask

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes, RoundState
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, ReleaseChunk, first_head
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.shuffler.admit.openers import Openers
from hubbub.shuffler.keys import make_keys
from hubbub.shuffler.mix.dummies import seal_dummies
from hubbub.shuffler.mix.mix import RELEASED_BLOCK, mix
from hubbub.shuffler.records import Opened, Round
from hubbub.shuffler.release.delivery import Deliverer
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore, tables
from hubbub.shuffler.stores.sqlite.transaction import StoreTransaction

REPORTS = 10**6
RUNS = 3
MEMORY = 1024.0
"""Mebibytes."""

LARGE, LARGE_BLOCK = 10**7, 1000
"""Envelopes of the round that spills, and of one commit."""

NOISE = NoiseLaw.of("geometric", Fraction(6065, 10_000), 27)
"""The noise of one round at (1, 10⁻⁶), beside randomizers of ε₀ = 8 (docs/explanation/accounting-noise.md, Numbers)."""

BATCHES = 5
"""Batches whose noise is made in a run."""

CATEGORIES = tuple(f"{number}" for number in range(16))

BLOCK = 1000
"""Submissions of one commit while the round fills."""


def mixing() -> Iterator[Outcome]:
    """Each run in a process of its own, so that its peak memory is its own."""
    runs = []
    for _ in range(RUNS):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            runs.append(pool.submit(_run, REPORTS).result())
    copied, mixed, noise, erased, memory = zip(*runs, strict=True)
    yield Row.of("mix", "s", mixed, copied)
    yield Row.of("noise", "s", noise, mixed)
    yield Row.of("mix_memory", "MiB", memory, MEMORY)
    erasing = statistics.median(erased)
    yield Comparison("mix", "erasing afterwards", erasing, "s", erasing)


def _run(reports: int) -> tuple[float, ...]:
    with tempfile.TemporaryDirectory(prefix="hubbub-bench-") as folder:
        return asyncio.run(_measured(Path(folder), reports))


async def _measured(folder: Path, reports: int) -> tuple[float, ...]:
    """Return the seconds of copying, mixing, making noise and erasing, and the process's peak memory in MiB."""
    sample = SampleTask.generate()
    ShufflerSqliteStore.create(folder)
    store = ShufflerSqliteStore(folder)
    try:
        round_ = await _filled(store, sample, reports)
        copied = await _timed(_copied(store, round_))
        mixed = await _timed(_mixed(store, round_, sample, reports))
        noise = await _noise()
        erased = await _timed(store.erase(round_, RoundState.ERASED))
    finally:
        store.close()
    return copied, mixed, noise, erased, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _noise() -> float:
    """Return the seconds in which a batch's noise is drawn and sealed. Later rounds have its table already."""
    asked = Query(Histogram("theme", CATEGORIES), KRandomizedResponse(len(CATEGORIES), HALF), NOISE)
    sample = SampleTask.generate(asked)
    public = sample.task.hpke.generate_key()[1]
    record = KeyRecord(Role.ANALYZER, sample.task.id, 0, sample.task.suite, public, 0, 2**33).signed_by(sample.analyzer)
    round_ = Round(1, sample.task.id, 0, RoundState.CUT, make_keys(sample.task, 0, sample.shuffler, record))
    openers = Openers()
    try:
        # By the processes that the shuffler has for opening: they run already.
        await seal_dummies(sample.task, round_, seal=openers.seal)
        batches = [await _timed(seal_dummies(sample.task, round_, seal=openers.seal)) for _ in range(BATCHES)]
        return statistics.median(batches)
    finally:
        await openers.close()


async def with_keys(store: ShufflerSqliteStore, sample: SampleTask) -> Round:
    """Begin a round that has its keys."""
    task = sample.task
    public = task.hpke.generate_key()[1]
    record = KeyRecord(Role.ANALYZER, task.id, 0, task.suite, public, 0, 2**33).signed_by(sample.analyzer)
    return await store.install(await store.add_round(task.id, 0), make_keys(task, 0, sample.shuffler, record))


async def _filled(store: ShufflerSqliteStore, sample: SampleTask, reports: int) -> Round:
    """A round that holds so many submissions, each with random bytes for its envelope."""
    round_ = await with_keys(store, sample)
    for start in range(0, reports, BLOCK):
        count = min(BLOCK, reports - start)
        await store.insert(
            round_, [Opened(os.urandom(16), os.urandom(16), os.urandom(INNER_BYTES)) for _ in range(count)]
        )
    return round_


async def _timed(work: Coroutine[Any, Any, Any]) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _copied(store: ShufflerSqliteStore, round_: Round) -> None:
    """Copy what arrived once through the store: read, written in blocks as they are released, synced, the log cut."""

    def work(_unit: StoreTransaction) -> None:
        connection, target = store._database.writer, replace(round_, key=round_.key + 1)
        joined = b"".join(_arrived(connection, round_))
        size = RELEASED_BLOCK * INNER_BYTES
        for block, start in enumerate(range(0, len(joined), size)):
            blocks = [(tables.block_key(target, 0, block), joined[start : start + size])]
            tables.insert_released(connection, blocks)

    await store._writer.submit(work, alone=True)
    await store._writer.submit_bare(lambda _unit: store._database.cut_log())


def _arrived(connection: sqlite3.Connection, round_: Round) -> Iterator[bytes]:
    after = -1
    while rows := tables.arrived(connection, round_, after):
        yield from (inners for _, inners in rows)
        after = rows[-1][0]


async def _mixed(store: ShufflerSqliteStore, round_: Round, sample: SampleTask, reports: int) -> None:
    """What the shuffler does from the cut until the analyzer has all of it."""
    cut = await store.cut(round_, "operator", sample.task.minimum_reports)
    mixed = await store.mix(cut, partial(mix, round_=cut, task=sample.task, identity=sample.shuffler))
    released = await Deliverer(store, _Taker(reports)).deliver(mixed, sample.task, lambda _incident: None)
    if released.state is not RoundState.RELEASED:
        raise RuntimeError(f"the round is {released.state}, it should be released")


class _Taker:
    """An analyzer that takes everything at once: what it would do is measured by itself."""

    def __init__(self, expected: int) -> None:
        self._expected, self._taken = expected, 0

    async def get_key(self, _task_id: bytes, _round_number: int, _deadline: float) -> SignedDocument:
        raise NotImplementedError("the round has its keys")

    async def get_releases(self, task_id: bytes, _deadline: float) -> Known:
        return Known(0, first_head(task_id))

    async def begin(self, _record: SignedDocument, _key_set: KeySet, _releases: ReleaseChunk, _deadline: float) -> int:
        return 0

    async def put(self, chunk: Envelopes, _deadline: float) -> int:
        self._taken += len(chunk.envelopes)
        return chunk.offset + len(chunk.envelopes)

    async def commit(self, _batch: BatchId, _digest: bytes, _deadline: float) -> Committed:
        if self._taken != self._expected:
            raise RuntimeError(f"{self._taken} envelopes were released, {self._expected} were held")
        return Committed(self._taken, {})


def mixing_large() -> Iterator[Outcome]:
    """10⁷ envelopes through buckets, in a process of its own; run by `--large`, since it needs 3 GB of disk."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        seconds, memory = pool.submit(_mixed_large, LARGE).result()
    yield Row.of("mix_large_memory", "MiB", memory, MEMORY)
    yield Comparison("mix_large_memory", "permute and store 10⁷", LARGE / seconds, "envelopes/s", seconds)


def _mixed_large(envelopes: int) -> tuple[float, float]:
    """Return seconds and peak memory in MiB. The store's table of ids is not in it: it is filled beside the store."""
    with tempfile.TemporaryDirectory(prefix="hubbub-bench-") as name:
        return asyncio.run(_measured_large(Path(name), envelopes))


async def _measured_large(folder: Path, envelopes: int) -> tuple[float, float]:
    sample = SampleTask.generate()
    ShufflerSqliteStore.create(folder)
    store = ShufflerSqliteStore(folder)
    try:
        round_ = await with_keys(store, sample)
        connection = store._database.writer
        connection.execute("BEGIN")
        for block in range(envelopes // LARGE_BLOCK):
            tables.insert_block(connection, round_.key, block, {}, [os.urandom(LARGE_BLOCK * INNER_BYTES)])
        connection.execute("COMMIT")
        cut = replace(await store.cut(round_, "schedule", 0), submissions=envelopes)
        started = time.perf_counter()
        await store.mix(cut, partial(mix, round_=cut, task=sample.task, identity=sample.shuffler))
        seconds = time.perf_counter() - started
    finally:
        store.close()
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


ROWS = (mixing,)
LARGE_ROWS = (mixing_large,)
