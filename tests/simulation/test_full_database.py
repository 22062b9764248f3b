"""The disk under a PostgreSQL server fills while real services use it: nothing acknowledged is lost, and all go on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from hubbub.client import Fleet, Retrying, RetryPolicy
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import IncidentReport
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import open_channel
from hubbub.queries.questions.histogram import Histogram
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.postgres import OwnServer
from support.samples import FEW

CALL = 100
FULL = 3000
"""Devices whose submissions do not fit into the pages that tables have already."""


@pytest.fixture
def server() -> Iterator[OwnServer]:
    server = OwnServer(mebibytes=256)
    yield server
    server.close()


def fleet(running: LocalPipeline, seconds: float) -> Fleet:
    return Fleet(
        running.task.encode(),
        operator_key=running.operator_key,
        shuffler_key=running.shuffler_key,
        state=running.folder.of("client") / "fleet.db",
        shuffler=running.shuffler,
        authority=running.authority,
        retrying=Retrying(RetryPolicy(total=seconds, call=seconds, longest_pause=0.5)),
    )


async def submitted(running: LocalPipeline, first: int, last: int, seconds: float) -> tuple[int, set[str]]:
    """Have devices submit; return how many were acknowledged, and why others were refused."""
    many = [(str(each), {"theme": "dark"}) for each in range(first, last)]
    async with fleet(running, seconds) as carrier:
        done = await carrier.submit_many(many, 0, per_call=CALL)
    return done.accepted, set(done.refused)


async def incidents(running: LocalPipeline) -> IncidentReport:
    async with open_channel(running.services[Role.SHUFFLER].addresses["control"], running.operator_tls) as channel:
        return await ControlCaller(channel).get_incidents(CALL_SECONDS)


# tests/contract has stores refuse each change with a full disk.
@pytest.mark.exhaustive
async def test_a_full_disk_under_the_server_is_named_and_nothing_acknowledged_is_lost(
    tmp_path: Path, server: OwnServer
) -> None:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    privacy = Privacy(8.0, 1e-2, 16.0, large_delta=FEW)
    draft = Draft("kiosks", schedule, 100, privacy, (Histogram("theme", ("light", "dark")),), OPEN)
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("CREATE DATABASE hubbub")
    address = server.address.replace("/postgres?", "/hubbub?")
    async with LocalPipeline(draft, tmp_path / "pipeline", database=address) as running:
        assert await submitted(running, 0, CALL, 60.0) == (CALL, set())

        # Tables cannot grow: the transaction is rolled back as a whole, and its devices come again.
        filler = await asyncio.to_thread(server.fill)
        accepted, refused = await submitted(running, CALL, FULL, 10.0)
        assert accepted < FULL - CALL
        assert refused == {"not_ready"}
        (incident,) = (await incidents(running)).incidents
        assert "No space left on device" in incident.text
        assert "make room on its disk" in incident.text
        (status,) = await running.status()
        assert status.submissions == CALL + accepted  # what was acknowledged, and nothing else
        filler.unlink()
        async with asyncio.timeout(PATIENCE):
            assert await submitted(running, 0, FULL, 120.0) == (FULL, set())
        assert (await incidents(running)).incidents == ()
        (status,) = await running.status()
        assert status.submissions == FULL
        assert status.refusals["not_ready"] > 0

        # The write-ahead log cannot grow: the server ends all connections, and may not come back by itself.
        filler = await asyncio.to_thread(server.fill)
        await asyncio.to_thread(fill_log, server.address)
        accepted, refused = await submitted(running, FULL, FULL + CALL, 30.0)
        assert (accepted, refused) in ((0, {"not_ready"}), (CALL, set()))
        filler.unlink()
        await asyncio.to_thread(server.revive)
        async with asyncio.timeout(PATIENCE):
            assert await submitted(running, FULL, FULL + CALL, 120.0) == (CALL, set())

        # It is full when the round is cut, mixed and counted; once there is room, all of that goes on by itself.
        filler = await asyncio.to_thread(server.fill)
        closing = asyncio.create_task(running.close_round())
        await asyncio.wait({closing}, timeout=2.0)
        filler.unlink()
        await asyncio.wait({closing})
        while closing.exception() is not None:
            await pause()
            closing = asyncio.create_task(running.close_round())
            await asyncio.wait({closing})
        (query,) = (await running.results()).queries
        assert (query.reports, query.valid, dict(query.left_out)) == (FULL + CALL, FULL + CALL, {})
        for role in (Role.SHUFFLER, Role.ANALYZER):
            assert running.services[role].pid is not None
            assert "Traceback" not in running.services[role].log.read_text()


def fill_log(address: str) -> None:
    """Have the server begin segments of its write-ahead log until one has no room: then it ends by itself."""
    with contextlib.suppress(psycopg.Error), psycopg.connect(address, autocommit=True) as connection:
        for _ in range(1000):
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CREATE TABLE grows ()")
            connection.execute("DROP TABLE grows")
        pytest.fail("the log found room")
