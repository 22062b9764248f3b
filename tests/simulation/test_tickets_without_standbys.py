"""Tickets while a leader has no standby, and while leaders die between any two writes: none is redeemed in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from simulation import disk
from simulation.test_failover import Pair, draft
from simulation.test_frontends import frontend_of

from hubbub.client import Device, Retrying, RetryPolicy
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.ports import kept_address
from hubbub.deploy.local.process import ServiceProcess
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import CredentialAction
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller
from support import postgres
from support.cli import hubbub
from support.patience import CALL_SECONDS, pause

WAITS = "the shuffler waits for a standby"
SHORT, LONG = RetryPolicy(total=2.0), RetryPolicy(total=9.0, call=9.0)


@asynccontextmanager
async def pair_on_two_disks(folder: Path) -> AsyncIterator[tuple[LocalPipeline, Pair, str]]:
    """Two shufflers of which one must have what the other answers, neither started, and their database."""
    database = postgres.new_database()
    async with LocalPipeline(draft(), folder, database=database) as pipeline:
        await pipeline.stop(Role.SHUFFLER)
        pair = Pair(pipeline)
        for each in pair.folders:
            change(each / "shuffler.toml", "standbys", 1)
        try:
            yield pipeline, pair, database
        finally:
            await asyncio.gather(*(each.stop() for each in pair.services))


def device(pipeline: LocalPipeline, address: str, name: str, policy: RetryPolicy | None = None) -> Device:
    return Device(
        pipeline.task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=pipeline.folder.of("client") / f"{name}.db",
        shuffler=address,
        authority=pipeline.authority,
        ticket=pipeline.ticket(name),
        retrying=Retrying(policy or RetryPolicy()),
    )


async def submit(pipeline: LocalPipeline, address: str, name: str, policy: RetryPolicy | None = None) -> None:
    async with device(pipeline, address, name, policy) as one:
        await one.submit({"theme": "dark"})


async def redeemed(pair: Pair, which: int) -> int:
    async with pair.caller(which) as channel:
        status = await ControlCaller(channel).manage_credentials(CredentialAction.STATUS, (), CALL_SECONDS)
    return status.redeemed


def leader_address(pair: Pair, which: int) -> str:
    text = (pair.folders[which] / "shuffler.toml").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("leader_listen")]
    return line.split('"')[1]


async def is_alone(pair: Pair, which: int, *, alone: bool) -> None:
    """Return once a leader knows whether nobody follows it."""
    async with pair.caller(which) as channel:
        caller = ControlCaller(channel)
        while alone != any(each.kind == "standbys" for each in (await caller.get_incidents(CALL_SECONDS)).incidents):
            await pause()


async def unhealthy(service: ServiceProcess) -> str:
    while (asked := await asyncio.to_thread(hubbub, "health", "shuffler", service._settings)).status == 0:
        await pause()
    assert asked.status == 1
    return asked.err


async def test_while_no_standby_follows_everyone_is_told_why_and_keeps_the_ticket(tmp_path: Path) -> None:
    async with pair_on_two_disks(tmp_path / "pipeline") as (pipeline, pair, database):
        await pair.start(0)
        second = asyncio.create_task(pair.start(1))
        await pair.follows(0, 1)
        leaders = [leader_address(pair, which) for which in (0, 1)]
        frontend = frontend_of(pipeline, "frontend-1", leaders[1], database)
        change(frontend._settings, "leaders", leaders)
        change(frontend._settings, "listen", kept_address())
        await frontend.start()
        try:
            await submit(pipeline, frontend.addresses["submission"], "first")
            await pair.services[0].kill()
            await second
            places = [each.addresses["submission"] for each in (pair.services[1], frontend)]
            # A call in the seconds in which the leader may still hope says the same.
            early = [submit(pipeline, places[each], f"early {each}", LONG) for each in range(2)]
            for error in await asyncio.gather(*early, return_exceptions=True):
                assert isinstance(error, Refusal)
                assert WAITS in error.message
            await is_alone(pair, 1, alone=True)
            before = await redeemed(pair, 1)
            late = [submit(pipeline, places[each % 2], f"late {each}", SHORT) for each in range(4)]
            for error in await asyncio.gather(*late, return_exceptions=True):
                assert isinstance(error, Refusal)
                assert (error.reason, WAITS in error.message) == (Reason.NOT_READY, True)
            assert await redeemed(pair, 1) == before
            # It is unhealthy everywhere where tickets are brought, and named.
            assert "1 standby is asked for, and none follows" in await unhealthy(pair.services[1])
            assert "it redeems no tickets" in await unhealthy(frontend)
            first = asyncio.create_task(pair.start(0))
            await is_alone(pair, 1, alone=False)
            for name in (*(f"early {each}" for each in range(2)), *(f"late {each}" for each in range(4))):
                await submit(pipeline, places[0], name)
            assert await redeemed(pair, 1) == 7
            while (await asyncio.to_thread(hubbub, "health", "shuffler", frontend._settings)).status:
                await pause()
            first.cancel()
        finally:
            await frontend.stop()


POINTS = ("before sync 6", "after sync 7", "before write 20", "after write 23", "before write 26", "after sync 9")
"""Moments of a leader that has started, so far as it lets devices redeem their tickets."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", POINTS)
async def test_who_redeems_while_the_leader_dies_between_two_writes_gets_one_credential(
    tmp_path: Path, point: str
) -> None:
    library = disk.build(tmp_path)
    async with pair_on_two_disks(tmp_path / "pipeline") as (pipeline, pair, _database):
        data = pair.folders[0] / "data"
        pair.services[0].environment = disk.environment(library, data, tmp_path / "log", DISK_KILL=point)
        await pair.start(0)
        pair.services[0].environment = {}
        second = asyncio.create_task(pair.start(1))
        await pair.follows(0, 1)
        names, place = 0, pair.services[0].addresses["submission"]
        trying: asyncio.Task[None] | None = None
        while pair.services[0].pid is not None:
            if trying is None or trying.done():
                # Until the round has its keys, everybody is asked to come again.
                if trying is not None and trying.exception() is None:
                    names += 1
                trying = asyncio.create_task(submit(pipeline, place, f"device {names}", SHORT))
            await asyncio.wait({trying}, timeout=0.05)
        assert trying is not None
        # Its answer was lost, if it was made at all.
        await asyncio.gather(trying, return_exceptions=True)
        await second
        await is_alone(pair, 1, alone=True)
        first = asyncio.create_task(pair.start(0))
        await is_alone(pair, 1, alone=False)
        # The same state brings the same ticket again; those before had their answers.
        for name in range(names + 1):
            await submit(pipeline, pair.services[1].addresses["submission"], f"device {name}")
        assert await redeemed(pair, 1) == names + 1
        first.cancel()
