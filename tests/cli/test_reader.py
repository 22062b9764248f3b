"""A reader's folder, as `hubbub init` makes it: the reader sees the rounds of both services, and closes none."""

from __future__ import annotations

import asyncio
from pathlib import Path

from unit.service.rpc.test_looks import SIGNED, TASK

from hubbub.deploy.init.folders import initialise
from hubbub.results import connect
from support.both_services import served
from support.cli import hubbub


async def test_a_readers_folder_shows_both_services_and_closes_nothing(tmp_path: Path) -> None:
    root = initialise(tmp_path / "deployment").root
    (tmp_path / "task.json").write_bytes(SIGNED.encode())
    async with served(root) as addresses:
        reader = root / "reader" / "reader.toml"
        seen = await asyncio.to_thread(hubbub, "status", reader, "--json")
        assert seen.status == 0, seen.err
        assert TASK.id.hex() in seen.out
        refused = await asyncio.to_thread(hubbub, "close", reader, tmp_path / "task.json", "--round", "0")
        assert refused.status == 1
        assert "role operator, and the one shown is that of reader" in " ".join(refused.err.split())
        tasks = await asyncio.to_thread(connect(addresses["analyzer"], root / "reader").tasks)
        assert [each.task_id for each in tasks] == [TASK.id]
