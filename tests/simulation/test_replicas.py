"""Replicas: real processes that answer devices of one keeper's rounds, on one database; they and it are killed."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device
from hubbub.deploy.authority import Authority
from hubbub.deploy.chain import change
from hubbub.deploy.local import LocalPipeline
from hubbub.deploy.supervise import Service
from hubbub.protos.keys import Role
from hubbub.protos.task import Draft, Privacy, Schedule
from hubbub.queries.histogram import Histogram
from support import postgres
from support.command import hubbub

pytestmark = pytest.mark.slow

DEVICES = 60
COMMON = ("tasks", "operator_key", "successions", "processes", "enrolments_per_second", "count_step", "limits", "log")


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    return Draft("kiosks", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


def as_toml(table: dict[str, Any]) -> str:
    """Write settings; texts, numbers and lists are written in TOML as in JSON, and tables come last."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in table.items() if not isinstance(value, dict)]
    for name, value in table.items():
        if isinstance(value, dict):
            lines += [f"[{name}]", as_toml(value)]
    return "\n".join(lines) + "\n"


def replica_of(pipeline: LocalPipeline, name: str, keeper: str, database: str) -> Service:
    """Make a replica's folder and settings; nothing of the shuffler's keys is in it."""
    of_keeper = pipeline.folder.of(Role.SHUFFLER)
    given = tomllib.loads((of_keeper / "shuffler.toml").read_text())
    folder = of_keeper.with_name(name)
    shutil.copytree(of_keeper / "tasks", folder / "tasks")
    shutil.copytree(of_keeper / "trust", folder / "trust")
    shutil.copy(pipeline.folder.trusted("operator", Role.SHUFFLER), folder / "trust")
    (folder / "successions").mkdir()
    (folder / "tls").mkdir()
    operator = pipeline.folder.of(Role.OPERATOR)
    authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
    authority.save_certificate(folder / "tls" / "authority.pem")
    hosts = ("127.0.0.1", "localhost")
    authority.issue("replica", hosts, folder / "tls" / "replica.pem", folder / "tls" / "replica.key")
    settings = {key: given[key] for key in COMMON if key in given} | {
        "role": "replica",
        "listen": "127.0.0.1:0",
        "store": database,
        "keepers": [keeper],
        "shuffler_key": "trust/shuffler.pub.pem",
        "tls": {"authority": "tls/authority.pem", "certificate": "tls/replica.pem", "key": "tls/replica.key"},
    }
    path = folder / "replica.toml"
    path.write_text(as_toml(settings))
    return Service("shuffler", path, pipeline.logs / f"{name}.log")


async def test_devices_of_two_replicas_count_once_whoever_is_killed(tmp_path: Path) -> None:
    names = [f"device {number}" for number in range(DEVICES)]
    database, keeper = postgres.new_database(), free_address()
    async with LocalPipeline(draft(), tmp_path / "pipeline", database=database) as pipeline:

        def device(where: Service, name: str) -> Device:
            return Device(
                pipeline.task.encode(),
                operator_key=pipeline.operator_key,
                shuffler_key=pipeline.shuffler_key,
                state=pipeline.folder.of("client") / f"{name}.db",
                shuffler=where.addresses["submission"],
                authority=pipeline.authority,
                ticket=pipeline.ticket(name),
            )

        async def submit(where: Service, some: Iterable[str]) -> None:
            for name in some:
                async with device(where, name) as each:
                    await each.submit({"theme": "dark"})

        await pipeline.stop(Role.SHUFFLER)
        settings = pipeline.folder.of(Role.SHUFFLER) / "shuffler.toml"
        change(settings, "keeper_listen", keeper)
        change(settings, "role", "keeper")
        await pipeline.services[Role.SHUFFLER].start()
        assert "submission" not in pipeline.services[Role.SHUFFLER].addresses
        one, other = (replica_of(pipeline, name, keeper, database) for name in ("replica-1", "replica-2"))
        try:
            await asyncio.gather(one.start(), other.start())
            await asyncio.gather(submit(one, names[:20]), submit(other, names[20:30]))
            await one.kill()
            await submit(other, names[30:35])
            for name in names[35:40]:
                async with device(other, name) as each:
                    await each.prepare({"theme": "dark"})
            # The keeper is away: those who are enrolled go on, at a replica that has the round's secrets.
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
