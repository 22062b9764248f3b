"""`hubbub status` beside real services: both, one, none."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from hubbub.deploy.local import LocalPipeline
from hubbub.protos.keys import Role
from hubbub.protos.messages import RoundState
from hubbub.protos.task import Draft, Privacy, Schedule
from hubbub.queries.histogram import Histogram
from support.command import Ran

pytestmark = pytest.mark.slow

DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    20,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0),
    (Histogram("theme", ("light", "dark")),),
)


async def status(settings: Path, *words: str) -> Ran:
    return await command("status", str(settings), *words)


async def command(*words: str) -> Ran:
    command = [sys.executable, "-m", "hubbub.deploy.cli", *words]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


def operator_settings(pipeline: LocalPipeline) -> Path:
    path = pipeline.folder.of("operator") / "operator.toml"
    text = path.read_text()
    text = text.replace("127.0.0.1:7302", pipeline.services[Role.SHUFFLER].addresses["control"])
    path.write_text(text.replace("127.0.0.1:7402", pipeline.services[Role.ANALYZER].addresses["results"]))
    return path


async def test_status_says_where_rounds_stand_at_both_services_and_at_one(tmp_path: Path) -> None:
    async with LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        settings = operator_settings(pipeline)
        for number in range(20):
            async with pipeline.device(f"device {number}") as device:
                await device.submit({"theme": "dark"})
        before = await status(settings)
        assert before.status == 0, before.err
        assert all(word in before.out for word in ("at the shuffler", "at the analyzer", "kiosks", "awaited", "20"))
        task = str(pipeline.directory / "task.json")
        closed = await command("close", str(settings), task)
        assert (closed.status, closed.out) == (0, "round 0 is cut with 20 submissions\n"), closed.err
        await pipeline.results(0)
        while (await pipeline.status())[0].state is not RoundState.ERASED:
            pass
        after = (await status(settings, "--json")).json
        assert after["errors"] == {}
        fine = {"troubles": [], "log_lines_lost": 0}
        assert after["conditions"] == {"shuffler": fine, "analyzer": fine}
        for words in ((), ("--round", "0")):
            again = await command("close", str(settings), task, *words)
            assert (again.status, again.out) == (1, "")
            assert "round 0" in again.err
            assert "erased" in again.err
        assert [(each["state"], each["submissions"]) for each in after["rounds"]] == [("erased", 20)]
        (standing,) = after["analyzer_rounds"]
        assert (standing["task"], standing["state"], standing["waiting_for"]) == ("kiosks", "certified", "nothing")
        assert standing["queries"][0]["valid"] == 20

        shown = {each["where"]: (each["party"], round(each["days_left"])) for each in after["certificates"]}
        control, results = (
            f"the {role.value} at {pipeline.services[role].addresses[port]}"
            for role, port in ((Role.SHUFFLER, "control"), (Role.ANALYZER, "results"))
        )
        own, authority = (settings.parent / "tls" / name for name in ("operator.pem", "authority.pem"))
        assert shown == {
            str(own): ("operator", 825),
            str(authority): ("hubbub authority", 3650),
            control: ("shuffler", 825),
            results: ("analyzer", 825),
        }
        assert "ends in" not in before.out

        await pipeline.stop(Role.ANALYZER)
        half = await status(settings, "--json")
        assert half.status == 1
        assert half.json["analyzer_rounds"] is None
        assert half.json["rounds"] == after["rounds"]
        assert [each["party"] for each in half.json["certificates"]] == ["hubbub authority", "operator", "shuffler"]
        address = pipeline.services[Role.ANALYZER].addresses["results"]
        assert "the analyzer did not answer: " in half.err
        assert f"({address}); is it running, and is that its address?" in half.err
        people = await status(settings)
        assert people.status == 1
        assert "at the shuffler" in people.out
        assert "at the analyzer" not in people.out

        await pipeline.stop(Role.SHUFFLER)
        none = await status(settings, "--json")
        assert (none.status, none.json["rounds"], none.json["analyzer_rounds"]) == (1, None, None)
        assert set(none.json["errors"]) == {"analyzer", "shuffler"}
        assert "Traceback" not in none.err
