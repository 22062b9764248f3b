"""How long what is taken takes at twice what a shuffler can take, against half of that.

Services have the first half of the cores and the load the others, where the system can say so: on the same cores the
load would take time from the service that it measures, as no fleet does. Devices come by gateways' calls of fifty: a
load of one device a call falls behind itself before the service does. Nothing is tried again, as who is refused comes
later than the timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from row import Comparison, Outcome, Row

from hubbub.deploy.load.coordinator import run_schedule
from hubbub.deploy.load.latency import StepResult
from hubbub.deploy.load.local_target import deployment_of, pipeline
from hubbub.deploy.load.schedule import LoadSchedule, LoadStep, devices_for
from hubbub.deploy.local.pipeline import LocalPipeline

PER_CALL = 50
PROCESSES = 2
RISING = (5_000.0, 7_000.0, 10_000.0, 14_000.0, 20_000.0)
"""Devices a second, from what a core or two take to what they do not. The most that is acknowledged of any of them is
the capacity: of far more it is less, as those who are refused, and who makes them, take their share of the cores."""

SECONDS = 2.0
TIMEOUT_SECONDS = 0.9
"""Seconds; a device that is refused is told to come again after one."""


CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class _Silent:
    def ready(self, devices: int) -> None:
        """Show nothing."""

    def dealt_with(self, devices: int) -> None:
        """Show nothing."""


def overload() -> Iterator[Outcome]:
    """A rising load that tells the capacity, then half of it, twice of it, and half of it again."""
    capacity, (before, twice, after) = asyncio.run(_measured())
    quiet, loaded = before.latencies()["p99"], twice.latencies()["p99"]
    yield Row.of("overload", "ms", 1000 * loaded, 1000 * quiet)
    refused = twice.counts.refused.total() / max(1, twice.devices)
    for how, value, unit in (
        ("capacity", capacity, "devices/s"),
        ("acknowledged at twice of it", twice.throughput, "devices/s"),
        ("refused of them", refused, "share"),
        ("p99 at half of it afterwards", 1000 * after.latencies()["p99"], "ms"),
    ):
        yield Comparison("overload", how, value, unit, twice.seconds)


async def _measured() -> tuple[float, list[StepResult]]:
    rising = LoadSchedule(tuple(LoadStep(rate, SECONDS / 2) for rate in RISING), PER_CALL, TIMEOUT_SECONDS)
    async with _apart(rising) as running:
        capacity = max(step.throughput for step in await _played(running, rising, "rising"))
    steps = tuple(LoadStep(share * capacity, SECONDS) for share in (0.5, 2.0, 0.5))
    schedule = LoadSchedule(steps, PER_CALL, TIMEOUT_SECONDS)
    # Another pipeline: what the first one holds is no part of this.
    async with _apart(schedule) as running:
        return capacity, await _played(running, schedule, "steps")


@contextlib.asynccontextmanager
async def _apart(schedule: LoadSchedule) -> AsyncIterator[LocalPipeline]:
    """Give a pipeline on the first half of the cores, while what this process starts later is on the others."""
    half = len(CORES) // 2
    if half:
        os.sched_setaffinity(0, CORES[:half])
    async with pipeline(devices_for(schedule, PROCESSES), 1) as (_, running):
        if half:
            os.sched_setaffinity(0, CORES[half:])
        try:
            yield running
        finally:
            if half:
                os.sched_setaffinity(0, CORES)


async def _played(running: LocalPipeline, schedule: LoadSchedule, name: str) -> list[StepResult]:
    found: list[StepResult] = []
    with tempfile.TemporaryDirectory(prefix=f"hubbub-bench-{name}-") as folder:
        deployment = deployment_of(running, running.directory / "tickets")
        await run_schedule(deployment, schedule, PROCESSES, Path(folder), _Silent(), found.append)
    return found


ROWS = (overload,)
