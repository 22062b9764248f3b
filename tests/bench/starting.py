"""Starting: how long each service takes from its command to its ports, as an operator who restarts it sees it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

from rows import Outcome, Row
from submitting import TASK, now

from hubbub.deploy.local import LocalPipeline
from hubbub.protos.keys import Role

RUNS = 5
"""Starts of each service; the store is there from the start before."""

SECONDS = 1.5
"""What a start may take."""


def starting() -> Iterator[Outcome]:
    """One row a service."""
    yield from asyncio.run(_measured())


async def _measured() -> list[Outcome]:
    async with LocalPipeline(TASK.format(start=now())) as pipeline:
        return [
            Row(f"start_{role.value}", await _median(pipeline, role), "s", SECONDS)
            for role in (Role.SHUFFLER, Role.ANALYZER)
        ]


async def _median(pipeline: LocalPipeline, role: Role) -> float:
    seconds = []
    for _ in range(RUNS):
        await pipeline.stop(role)
        started = time.perf_counter()
        await pipeline.start(role)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


ROWS = (starting,)
