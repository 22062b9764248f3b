"""How long each service takes from its command to its ports, as an operator who restarts it sees it.

The shuffler also with a round under way: it has the ids of all that it holds in memory before it serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator

from row import Outcome, Row
from sample_task import INNER_BYTES
from submitting import TASK, now

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore, tables

RUNS = 5
"""Starts of each service; the store is there from the start before."""

SECONDS = 1.5
"""What a start may take."""

HELD, HELD_SECONDS = 10**6, 2.5
"""Submissions of the round under way, and what a start with them may take."""

LARGE, LARGE_SECONDS = 10**7, 10.0
"""The same for `--large`: 1.2 GB of disk."""

BLOCK = 1000
"""Submissions of one commit."""


def starting() -> Iterator[Outcome]:
    """One row a service."""
    yield from asyncio.run(_measured())


async def _measured() -> list[Outcome]:
    async with LocalPipeline(TASK.format(start=now())) as pipeline:
        return [
            Row.of(f"start_{role.value}", "s", await _seconds(pipeline, role), SECONDS)
            for role in (Role.SHUFFLER, Role.ANALYZER)
        ]


async def _seconds(pipeline: LocalPipeline, role: Role) -> list[float]:
    seconds = []
    for _ in range(RUNS):
        await pipeline.stop(role)
        started = time.perf_counter()
        await pipeline.start(role)
        seconds.append(time.perf_counter() - started)
    return seconds


def restarting() -> Iterator[Outcome]:
    """A restart in the middle of a round."""
    yield asyncio.run(_restarted("restart", HELD, HELD_SECONDS))


def restarting_large() -> Iterator[Outcome]:
    """A restart in the middle of a large round; run by `--large`."""
    yield asyncio.run(_restarted("restart_large", LARGE, LARGE_SECONDS))


async def _restarted(name: str, held: int, limit: float) -> Row:
    async with LocalPipeline(TASK.format(start=now())) as pipeline:
        await pipeline.stop(Role.SHUFFLER)
        # What was written last is synced, so that no start waits for it.
        await asyncio.to_thread(_hold, pipeline, held)
        await pipeline.start(Role.SHUFFLER)
        return Row.of(name, "s", await _seconds(pipeline, Role.SHUFFLER), limit)


def _hold(pipeline: LocalPipeline, held: int) -> None:
    """Have the shuffler's store hold so many submissions in its first round, as if devices had sent them."""
    with contextlib.closing(ShufflerSqliteStore(pipeline.folder.of("shuffler") / "data")) as store:
        (round_,) = asyncio.run(store.rounds())
        connection = store._database.writer
        connection.execute("BEGIN")
        for block in range(held // BLOCK):
            known = {os.urandom(16): os.urandom(16) for _ in range(BLOCK)}
            tables.insert_block(connection, round_.key, block, known, [os.urandom(BLOCK * INNER_BYTES)])
        connection.execute("COMMIT")


ROWS = (starting, restarting)
LARGE_ROWS = (restarting_large,)
