"""Devices held through two front ends of a shuffler, against one; each front end has one core.

A front end, with the process that opens for it, may use one core, in both measurements. PostgreSQL, the leader and the
load are on all cores, as they are beside whatever is measured: what each of them took of a core stands beside the row.
Where there are no more cores than front ends, that is taken from the two, and less than twice is what is left of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any

import grpc
from cores import all_cores
from machine import processes, with_children
from row import Comparison, Outcome, Row
from submitting import SUBMIT_BATCH, TASK, _batches, _made, _proven, now, sent

from hubbub.client.submit import Retrying
from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.init.frontends import add_frontend
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.ports import FREE
from hubbub.deploy.local.process import ServiceProcess
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import KeyRecord, Role
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.sqlite.enrollment import masters
from support import postgres

BATCHES, DEVICES = 200, 100
"""Calls in one run, and how many devices each is of."""

AT_A_TIME = 5
"""Calls on their way to one front end."""

RUNS = 5
"""Runs of one front end and of both, by turns."""

FRONTENDS = 2
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def frontends() -> Iterator[Outcome]:
    """The row, and what each party took of a core for a device while both front ends were called."""
    with all_cores() as pool:
        yield from asyncio.run(_measured(pool))


async def _measured(pool: Any) -> list[Outcome]:
    database = postgres.new_database()
    async with (
        LocalPipeline(TASK.format(start=now()), database=database) as pipeline,
        contextlib.AsyncExitStack() as on,
    ):
        leader = await _leader(pipeline)
        running = [
            await on.enter_async_context(_frontend(pipeline, index, leader, database)) for index in range(FRONTENDS)
        ]
        channels = [
            await on.enter_async_context(open_channel(each.addresses["submission"], TLS(pipeline.authority)))
            for each in running
        ]
        task = pipeline.task.task
        key_sets = [await Retrying().retry(partial(SubmissionCaller(each).get_round, task.id, 0)) for each in channels]
        to = Destination(task.id, 0, key_sets[0].hash)
        public = KeyRecord.read(key_sets[0].shuffler, pipeline.shuffler_key).public_key
        made = await _made(pool, public, to, 2 * RUNS * BATCHES * DEVICES)
        with contextlib.closing(ShufflerKeyring(pipeline.folder.of(Role.SHUFFLER) / "copy")) as keyring:
            (master,) = keyring.read(masters)
        requests = iter(_batches(to, _proven(master, to, made), DEVICES))
        keeping = pipeline.services[Role.SHUFFLER]
        parties = {
            "frontends": [each.pid or 0 for each in running],
            "PostgreSQL": [_server_of()],
            "leader": [keeping.pid or 0],
        }
        return await _by_turns(channels, requests, parties)


async def _leader(pipeline: LocalPipeline) -> str:
    """Start the pipeline's shuffler again as a leader alone; return where front ends ask it."""
    await pipeline.stop(Role.SHUFFLER)
    folder = pipeline.folder.of(Role.SHUFFLER)
    # The proofs of made-up devices are made by its master key; a keyring is its leader's alone while that runs.
    await asyncio.to_thread(shutil.copytree, folder / "data", folder / "copy")
    change(folder / "shuffler.toml", "role", "leader")
    change(folder / "shuffler.toml", "leader_listen", FREE)
    await pipeline.services[Role.SHUFFLER].start()
    return pipeline.services[Role.SHUFFLER].addresses["leader"]


@contextlib.asynccontextmanager
async def _frontend(pipeline: LocalPipeline, index: int, leader: str, database: str) -> AsyncIterator[ServiceProcess]:
    """Start a front end on a core of its own."""
    root, operator = pipeline.folder.root, pipeline.folder.of(Role.OPERATOR)
    authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
    settings = add_frontend(root, f"frontend-{index + 1}", authority, LOOPBACK, database, [leader])
    for key, value in (("listen", FREE), ("metrics_listen", ""), ("processes", 1)):
        change(settings, key, value)
    service = ServiceProcess("shuffler", settings, pipeline.logs / f"frontend-{index + 1}.log")
    # What is started has the cores of who starts it.
    if CORES:
        os.sched_setaffinity(0, {CORES[index % len(CORES)]})
    try:
        await service.start()
    finally:
        if CORES:
            os.sched_setaffinity(0, CORES)
    try:
        yield service
    finally:
        await service.stop()


async def _by_turns(
    channels: Sequence[grpc.aio.Channel], requests: Iterator[bytes], parties: dict[str, list[int]]
) -> list[Outcome]:
    one, both = [], []
    taken: dict[str, list[float]] = {name: [] for name in (*parties, "load")}
    for _ in range(RUNS):
        one.append(BATCHES * DEVICES / await _sent(channels[:1], [next(requests) for _ in range(BATCHES)]))
        before = _processor(parties)
        both.append(BATCHES * DEVICES / await _sent(channels, [next(requests) for _ in range(BATCHES)]))
        for name, seconds in _processor(parties).items():
            taken[name].append(1e6 * (seconds - before[name]) / (BATCHES * DEVICES))
    two = statistics.median(both)
    row = Row.of("frontends", "devices/s", both, one)
    shares = [(name, statistics.median(each)) for name, each in taken.items()]
    seconds = BATCHES * DEVICES / two
    return [
        row,
        *(Comparison("frontends", f"{name}, of a core for a device", each, "µs", seconds) for name, each in shares),
    ]


async def _sent(channels: Sequence[grpc.aio.Channel], requests: Sequence[bytes]) -> float:
    return (await sent(channels, SUBMIT_BATCH, requests, AT_A_TIME)).seconds


# What processes took


def _processor(parties: dict[str, list[int]]) -> dict[str, float]:
    """Seconds of a core that each party's processes took so far, their children among them, and this one."""
    found = processes()
    return {name: sum(with_children(pid, found) for pid in pids) for name, pids in parties.items()} | {
        "load": time.process_time()
    }


def _server_of() -> int:
    """The process of the server that tests start; 0 for one on another machine."""
    with contextlib.suppress(OSError):
        return int((postgres.data_folder() / "postmaster.pid").read_text().splitlines()[0])
    return 0


ROWS = (frontends,)
