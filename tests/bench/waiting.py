"""The longest that an acknowledgement of one round takes while another one is mixed in the same store."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from mixing import with_keys
from row import Comparison, Outcome, Row
from sample_task import INNER_BYTES, SampleTask

from hubbub.protos.messages import RoundState
from hubbub.shuffler.mix.mix import mix
from hubbub.shuffler.records import InsertOutcome, Opened, Round
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore, tables

REPORTS = 10**6
LARGE = 10**7
BLOCK = 1000
"""Submissions of one commit while the round fills."""

SECONDS = 0.1
"""What an acknowledgement may take."""


def waiting() -> Iterator[Outcome]:
    """While 10⁶ envelopes are mixed."""
    yield from _outcomes("mix_waits", REPORTS)


def waiting_large() -> Iterator[Outcome]:
    """While 10⁷ are; run by `--large`, since it needs 3 GB of disk."""
    yield from _outcomes("mix_waits_large", LARGE)


def _outcomes(name: str, reports: int) -> Iterator[Outcome]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        waits, erasing, seconds = pool.submit(_run, reports).result()
    yield Row.of(name, "s", waits[-1], SECONDS)
    yield Comparison(name, "an acknowledgement, 99 %", waits[len(waits) * 99 // 100], "s", seconds)
    yield Comparison(name, "an acknowledgement, half", waits[len(waits) // 2], "s", seconds)
    yield Comparison(name, "the longest while it is erased", erasing, "s", seconds)


def _run(reports: int) -> tuple[list[float], float, float]:
    with tempfile.TemporaryDirectory(prefix="hubbub-bench-") as folder:
        return asyncio.run(_measured(Path(folder), reports))


async def _measured(folder: Path, reports: int) -> tuple[list[float], float, float]:
    """Return the seconds of each acknowledgement in order, of the longest during erasure, and of the mixing."""
    sample = SampleTask.generate()
    ShufflerSqliteStore.create(folder)
    store = ShufflerSqliteStore(folder)
    try:
        round_ = await with_keys(store, sample)
        connection = store._database.writer
        connection.execute("BEGIN")
        for block in range(reports // BLOCK):
            tables.insert_block(connection, round_.key, block, {}, [os.urandom(BLOCK * INNER_BYTES)])
        connection.execute("COMMIT")
        store._database.cut_log()
        cut = replace(await store.cut(round_, "schedule", 0), submissions=reports)
        other = await store.add_round(sample.task.id, 1)
        work = partial(mix, round_=cut, task=sample.task, identity=sample.shuffler)
        started = time.perf_counter()
        mixing = asyncio.create_task(store.mix(cut, work))
        waits = await _acknowledged(store, other, mixing)
        mixed, seconds = await mixing, time.perf_counter() - started
        erasing = asyncio.create_task(store.erase(mixed, RoundState.ERASED))
        erased = await _acknowledged(store, other, erasing)
        await erasing
        return sorted(waits), max(erased), seconds
    finally:
        store.close()


async def _acknowledged(store: ShufflerSqliteStore, round_: Round, until: asyncio.Task[Round]) -> list[float]:
    """Have one submission after the other held until a task is done, and one at least."""
    waits: list[float] = []
    while not waits or not until.done():
        started = time.perf_counter()
        held = await store.insert(round_, [Opened(os.urandom(16), os.urandom(16), os.urandom(INNER_BYTES))])
        waits.append(time.perf_counter() - started)
        if held != [InsertOutcome.STORED]:
            raise RuntimeError(f"{held} instead of an acknowledgement")
    return waits


ROWS = (waiting,)
LARGE_ROWS = (waiting_large,)
