"""Real processes that answer devices of one leader's rounds, on one database; they and it are killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from hubbub.client import Device
from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.init.frontends import add_frontend
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.ports import FREE, kept_address
from hubbub.deploy.local.process import ServiceProcess
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from support import postgres
from support.cli import hubbub
from support.patience import PATIENCE

DEVICES = 60


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    return Draft("kiosks", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


def frontend_of(pipeline: LocalPipeline, name: str, leader: str, database: str) -> ServiceProcess:
    """Make a front end's folder; nothing of the shuffler's keys is in it."""
    root, operator = pipeline.folder.root, pipeline.folder.of(Role.OPERATOR)
    authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
    settings = add_frontend(root, name, authority, LOOPBACK, database, [leader])
    for key, value in (("listen", FREE), ("metrics_listen", FREE), ("enrollments_per_second", 1_000_000)):
        change(settings, key, value)
    return ServiceProcess("shuffler", settings, pipeline.logs / f"{name}.log")


# test_kills_at_any_moment.py kills the front ends of a cluster too.
@pytest.mark.exhaustive
async def test_devices_of_two_frontends_count_once_whoever_is_killed(tmp_path: Path) -> None:
    names = [f"device {number}" for number in range(DEVICES)]
    database, leader = postgres.new_database(), kept_address()
    async with LocalPipeline(draft(), tmp_path / "pipeline", database=database) as pipeline:

        def device(where: ServiceProcess | str, name: str) -> Device:
            return Device(
                pipeline.task.encode(),
                operator_key=pipeline.operator_key,
                shuffler_key=pipeline.shuffler_key,
                state=pipeline.folder.of("client") / f"{name}.db",
                shuffler=where if isinstance(where, str) else where.addresses["submission"],
                authority=pipeline.authority,
                ticket=pipeline.ticket(name),
            )

        async def submit(where: ServiceProcess | str, some: Iterable[str]) -> None:
            for name in some:
                async with device(where, name) as each:
                    await each.submit({"theme": "dark"}, timeout=PATIENCE)

        await pipeline.stop(Role.SHUFFLER)
        settings = pipeline.folder.of(Role.SHUFFLER) / "shuffler.toml"
        change(settings, "leader_listen", leader)
        change(settings, "role", "leader")
        await pipeline.services[Role.SHUFFLER].start()
        assert "submission" not in pipeline.services[Role.SHUFFLER].addresses
        one, other = (frontend_of(pipeline, name, leader, database) for name in ("frontend-1", "frontend-2"))
        try:
            await asyncio.gather(one.start(), other.start())
            await asyncio.gather(submit(one, names[:20]), submit(other, names[20:30]))
            # Who knows both goes on with the other one.
            both = ",".join(each.addresses["submission"] for each in (one, other))
            await one.kill()
            await submit(both, names[30:35])
            for name in names[35:40]:
                async with device(other, name) as each:
                    await each.prepare({"theme": "dark"})
            # The leader is away: those who are enrolled go on, at a front end that has the round's secrets.
            await pipeline.kill(Role.SHUFFLER)
            for name in names[35:40]:
                async with device(other, name) as each:
                    assert len(await each.resend(early=True)) == 1
            await pipeline.services[Role.SHUFFLER].start()
            await one.start()
            await asyncio.gather(submit(one, names[40:50]), submit(other, names[50:]))
            status = await pipeline.close_round()
            assert status.submissions == DEVICES
            found = await pipeline.results()
            path = tmp_path / "certificate.json"
            path.write_bytes(found.certificate)
            assert hubbub("verify", path, "--json").json["verified"]
            assert b'"reports":60' in found.certificate.replace(b" ", b"")
        finally:
            await asyncio.gather(one.stop(), other.stop())
