"""A round through real processes whose stores are in PostgreSQL: they are killed on the way, and the server crashes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from support.cli import hubbub
from support.patience import PATIENCE, pause
from support.postgres import OwnServer, secrets_in
from support.thoroughness import usually

DEVICES = usually(40, 100)


@pytest.fixture
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


async def test_a_round_in_postgresql_comes_to_a_certificate_that_verifies(
    tmp_path: Path, server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.with_password(tmp_path / "passwords")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "passwords"))
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    draft = Draft("kiosks", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))
    async with LocalPipeline(draft, tmp_path / "pipeline", database=address) as running:
        names = [f"device {number}" for number in range(DEVICES)]
        for name in names:
            async with running.device(name) as device:
                if name == names[3 * DEVICES // 4]:
                    # Both services run on: what was acknowledged before is there after, and so is what waits meanwhile.
                    await asyncio.to_thread(server.crash)
                    # No call is open once the server is started again: a fork amid calls of gRPC may crash.
                    log = running.services[Role.SHUFFLER].log
                    while "the database does not answer" not in log.read_text():
                        with pytest.raises((Refusal, Unreachable)):
                            await device.submit({"theme": "dark"}, timeout=1.0)
                    await asyncio.to_thread(server.start)
                    await device.submit({"theme": "dark"}, timeout=PATIENCE)
                else:
                    await device.submit({"theme": "dark"}, timeout=PATIENCE)
            if name == names[DEVICES // 2]:
                await running.kill(Role.SHUFFLER)
                await running.start(Role.SHUFFLER)
        assert [each.submissions for each in await running.status()] == [DEVICES]
        file = running.services[Role.SHUFFLER].log
        # A thread writes the log.
        while "the database answers again" not in (log := file.read_text()):
            await pause()
        assert log.count("the database does not answer") == log.count("the database answers again") == 1
        assert "Traceback" not in log
        await running.kill(Role.ANALYZER)
        await running.start(Role.ANALYZER)
        await running.close_round()
        found = await running.results()
        path = tmp_path / "certificate.json"
        path.write_bytes(found.certificate)
        assert hubbub("verify", path, "--json").json["verified"]
        for role in (Role.SHUFFLER, Role.ANALYZER):
            await running.stop(role)
            settings = running.folder.of(role) / f"{role.value}.toml"
            assert "is whole" in hubbub(role.value, settings, "--check-store").out
            assert "nothing was created" in hubbub(role.value, settings, "--create-store").err
            # The round is over, and so are its secrets.
            assert secrets_in(running.folder.of(role) / "data") == []
        monkeypatch.delenv("PGPASSFILE")
        assert "no password supplied" in hubbub(role.value, settings, "--check-store").err
