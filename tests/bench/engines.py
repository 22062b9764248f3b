"""Opening against bare opens, mixing against sorting keyed rows on the same session."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from cores import all_cores, open_bare, rate, sealed_inners, shares
from row import Comparison, Outcome, Row
from sample_task import INNER_BYTES

from hubbub.analyzer.opening import Counted, counted
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.service.processes.opening_pool import OpeningJob
from hubbub.service.settings import SettingsError, SparkSettings
from hubbub.service.spark.opening import opened_on
from hubbub.service.spark.session import SparkApplication, check_installed, session, workplace
from hubbub.shuffler.mix.spark import mixed_on

REPORTS, TIMES = 100_000, 4
"""Envelopes that are sealed, and opened barely; and how often Spark opens them in one run, as its batches are long."""

MIXED, LARGE = 10**6, 10**7
"""Envelopes permuted, and keyed rows sorted."""

RUNS = 3
"""Runs of limit and result, by turns."""

SETTINGS = SparkSettings(master="local[*]", minimum_envelopes=1, memory_mebibytes=2048)
TO = Destination(bytes(32), 0, bytes(32))


@contextmanager
def _begun() -> Iterator[tuple[SparkApplication, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="hubbub-bench-") as folder,
        workplace(SETTINGS, Path(folder)) as place,
        session(SETTINGS, place) as begun,
    ):
        yield begun, place


def _skipped(name: str) -> bool:
    """Say on stderr what a row lacks to be measured here; return whether it lacks anything."""
    try:
        check_installed(SETTINGS)
    except SettingsError as error:
        sys.stderr.write(f"{name} is skipped: {error}\n")
        return True
    return False


def open_spark() -> Iterator[Outcome]:
    """Open and count a batch on a session whose workers have started, against bare opens on as many cores."""
    if _skipped("open_spark"):
        return
    private, public = DEFAULT.generate_key()
    job = OpeningJob(TO, private, 0, INNER_BYTES)
    use = partial(counted, KRandomizedResponse(5, 2**30))
    limits, values = [], []
    with all_cores() as pool:
        sealing = [pool.submit(sealed_inners, public, TO, [bytes(4)], share) for share in shares(REPORTS)]
        sealed = b"".join(each.result() for each in sealing)
        started = time.perf_counter()
        with _begun() as (begun, _):
            list(opened_on(begun, job, [sealed[: 1000 * INNER_BYTES]] * 8, use))
            starting = time.perf_counter() - started
            for _ in range(RUNS):
                limits.append(rate(pool, partial(open_bare, 4), REPORTS))
                started = time.perf_counter()
                opened = _valid(opened_on(begun, job, [sealed] * TIMES, use))
                values.append(opened / (time.perf_counter() - started))
                if opened != REPORTS * TIMES:
                    raise RuntimeError(f"{opened} of {REPORTS * TIMES} envelopes were opened")
    yield Row.of("open_spark", "envelopes/s", values, limits)
    yield Comparison("open_spark", "starting a session, its first tasks", starting, "s", starting)


def _valid(opened: Iterator[tuple[Counted, int]]) -> int:
    """How many reports were opened and counted, in tasks."""
    return sum(found.valid for found, _ in opened if isinstance(found, Tally))


def mix_spark() -> Iterator[Outcome]:
    """Permute as many envelopes as `MIXED`."""
    yield from _mixing("mix_spark", MIXED)


def mix_spark_large() -> Iterator[Outcome]:
    """The same of 10⁷; run by `--large`, since it needs 3 GB of disk."""
    yield from _mixing("mix_spark_large", LARGE)


def _mixing(name: str, count: int) -> Iterator[Outcome]:
    if _skipped(name):
        return
    rows = np.frombuffer(os.urandom(count * INNER_BYTES), dtype=np.uint8).reshape(-1, INNER_BYTES)
    sorts, mixes = [], []
    with _begun() as (begun, place):
        for _ in range(RUNS + 1):  # the first starts Spark's workers
            started = time.perf_counter()
            _sorted(begun, count)
            sorts.append(time.perf_counter() - started)
            started = time.perf_counter()
            mixed = sum(map(len, mixed_on(begun, place, [rows], INNER_BYTES).column()))
            mixes.append(time.perf_counter() - started)
            if mixed != count:
                raise RuntimeError(f"{mixed} of {count} envelopes were permuted")
    yield Row.of(name, "s", mixes[1:], sorts[1:])


def _sorted(begun: SparkApplication, count: int) -> None:
    """Sort so many rows, a random key and as many bytes as an envelope, in Spark itself; the result is dropped."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    rows = (
        SparkSession(begun.context)
        .range(count)
        .select(sql.rand(1).alias("key"), sql.unhex(sql.repeat(sql.lit("ab"), INNER_BYTES)).alias("envelope"))
    )
    rows.sort("key").write.format("noop").mode("overwrite").save()


ROWS = (open_spark, mix_spark)
LARGE_ROWS = (mix_spark_large,)
