"""A round through real processes whose shuffler keeps it in PostgreSQL, and is killed on the way."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hubbub.deploy.local import LocalPipeline
from hubbub.protos.keys import Role
from hubbub.protos.task import Draft, Privacy, Schedule
from hubbub.queries.histogram import Histogram
from support import postgres
from support.command import hubbub


@pytest.mark.slow
async def test_a_round_in_postgresql_comes_to_a_certificate_that_verifies(tmp_path: Path) -> None:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    draft = Draft("kiosks", schedule, 100, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))
    address = postgres.new_database()
    async with LocalPipeline(draft, tmp_path / "pipeline", database=address) as running:
        names = [f"device {number}" for number in range(100)]
        for name in names:
            async with running.device(name) as device:
                await device.submit({"theme": "dark"})
            if name == names[50]:
                await running.kill(Role.SHUFFLER)
                await running.start(Role.SHUFFLER)
        assert [each.submissions for each in await running.status()] == [100]
        await running.close_round()
        found = await running.results()
        path = tmp_path / "certificate.json"
        path.write_bytes(found.certificate)
        assert hubbub("verify", path, "--json").json["verified"]
        await running.stop(Role.SHUFFLER)
        settings = running.folder.of("shuffler") / "shuffler.toml"
        assert "is whole" in hubbub("shuffler", settings, "--check-store").out
        assert "nothing was made" in hubbub("shuffler", settings, "--create-store").err
