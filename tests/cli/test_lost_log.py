"""A service whose write-ahead log was deleted while it was down does not start as if nothing were missing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from support.cli import hubbub


async def test_a_killed_service_whose_log_is_deleted_starts_only_once_that_is_accepted(tmp_path: Path) -> None:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    draft = Draft("kiosks", schedule, 100, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))
    async with LocalPipeline(draft, tmp_path / "pipeline") as running:
        data = running.folder.of("shuffler") / "data"
        async with running.device() as device:
            await device.submit({"theme": "dark"})
        assert [each.submissions for each in await running.status()] == [1]
        await running.kill(Role.SHUFFLER)
        (data / "shuffler.db-wal").unlink()
        with pytest.raises(ServiceError, match=r"shuffler\.db-wal is missing, and the store was not closed before"):
            await running.start(Role.SHUFFLER)
        settings = running.folder.of("shuffler") / "shuffler.toml"
        accepted = hubbub("shuffler", settings, "--accept-lost-log", "--json")
        assert accepted.json == {"service": "shuffler", "store": str(data / "shuffler.db")}
        assert f"{data / 'shuffler.db'} is whole" in hubbub("shuffler", settings, "--check-store").out
        await running.start(Role.SHUFFLER)
        assert [each.submissions for each in await running.status()] == [0]  # what was acknowledged is lost
