"""Overload: how long what is taken takes at twice what a shuffler can take, against half of that.

Devices come by gateways' calls of fifty: a load of one device a call falls behind itself, on the same cores, before the
service does. Nothing is tried again, as who is refused comes later than the patience lasts.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rows import Comparison, Outcome, Row

from hubbub.deploy.load.crew import play
from hubbub.deploy.load.figures import Played
from hubbub.deploy.load.here import deployment_of, pipeline
from hubbub.deploy.load.offer import Offer, Step, devices_for
from hubbub.deploy.local import LocalPipeline

PER_CALL = 50
PROCESSES = 2
FLOOD = 60_000.0
"""Devices a second that no machine of a few cores takes: what is acknowledged of them is its capacity."""

SECONDS = 2.0
PATIENCE = 0.9
"""Seconds; a device that is refused is told to come again after one."""


class _Silent:
    def ready(self, devices: int) -> None:
        """Show nothing."""

    def dealt_with(self, devices: int) -> None:
        """Show nothing."""


def overload() -> Iterator[Outcome]:
    """A flood that tells the capacity, then half of it, twice of it, and half of it again."""
    flood, (before, twice, after) = asyncio.run(_measured())
    quiet, loaded = before.latencies()["p99"], twice.latencies()["p99"]
    yield Row("overload", 1000 * loaded, "ms", 1000 * quiet, "<=", 5.0)
    refused = twice.counts.refused.total() / max(1, twice.devices)
    for how, value, unit in (
        ("capacity", flood.throughput, "devices/s"),
        ("acknowledged at twice of it", twice.throughput, "devices/s"),
        ("refused of them", refused, "share"),
        ("p99 at half of it afterwards", 1000 * after.latencies()["p99"], "ms"),
    ):
        yield Comparison("overload", how, value, unit, twice.seconds)


async def _measured() -> tuple[Played, list[Played]]:
    flood = Offer((Step(FLOOD, SECONDS),), PER_CALL, PATIENCE)
    async with pipeline(devices_for(flood, PROCESSES), 1) as (_, running):
        (first,) = await _played(running, flood, "flood")
    capacity = first.throughput
    steps = tuple(Step(share * capacity, SECONDS) for share in (0.5, 2.0, 0.5))
    offer = Offer(steps, PER_CALL, PATIENCE)
    # Another pipeline: what the first one holds is no part of this.
    async with pipeline(devices_for(offer, PROCESSES), 1) as (_, running):
        return first, await _played(running, offer, "steps")


async def _played(running: LocalPipeline, offer: Offer, name: str) -> list[Played]:
    found: list[Played] = []
    with tempfile.TemporaryDirectory(prefix=f"hubbub-bench-{name}-") as folder:
        deployment = deployment_of(running, running.directory / "tickets")
        await play(deployment, offer, PROCESSES, Path(folder), _Silent(), found.append)
    return found


ROWS = (overload,)
