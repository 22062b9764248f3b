"""`hubbub status` beside real services: both, one, none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundState
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from support.cli import Ran, hubbub
from support.messages import NO_ROUND_ANYWHERE
from support.patience import pause
from support.samples import FEW

DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    20,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW),
    (Histogram("theme", ("light", "dark")),),
)


async def status(settings: Path, *words: str) -> Ran:
    return await command("status", str(settings), *words)


async def command(*words: str) -> Ran:
    command = [sys.executable, "-m", "hubbub.cli.main", *words]
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
            await pause()
        after = (await status(settings, "--json")).json
        assert after["errors"] == {}
        fine = {"incidents": [], "log_lines_lost": 0}
        assert after["incidents"] == {"shuffler": fine, "analyzer": fine}
        for words in ((), ("--round", "0")):
            again = await command("close", str(settings), task, *words)
            said = "round 0 is closed already: it is finished with 20 submissions; nothing was changed\n"
            assert (again.status, again.out, again.err) == (0, said, "")
        assert [(each["state"], each["submissions"]) for each in after["rounds"]] == [("finished", 20)]
        (analyzer_status,) = after["analyzer_rounds"]
        assert (analyzer_status["task"], analyzer_status["state"], analyzer_status["waiting_for"]) == (
            "kiosks",
            "certified",
            "nothing",
        )
        assert analyzer_status["queries"][0]["valid"] == 20

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
        assert f"the analyzer at {address} did not answer: " in half.err
        assert half.err.rstrip().endswith("; check that it is running and that the address is right")
        people = await status(settings)
        assert people.status == 1
        assert "at the shuffler" in people.out
        assert "at the analyzer" not in people.out

        await pipeline.stop(Role.SHUFFLER)
        none = await status(settings, "--json")
        assert (none.status, none.json["rounds"], none.json["analyzer_rounds"]) == (1, None, None)
        assert set(none.json["errors"]) == {"analyzer", "shuffler"}
        assert "Traceback" not in none.err


# test_readme.py and test_init_cluster.py rehearse, and wait for results.
@pytest.mark.exhaustive
async def test_made_up_devices_fill_a_round_and_its_results_are_waited_for(tmp_path: Path) -> None:
    async with LocalPipeline(DRAFT, tmp_path / "the pipeline") as pipeline:
        operator, client = operator_settings(pipeline), pipeline.folder.of("client") / "client.toml"
        client.write_text(client.read_text().replace("127.0.0.1:7301", pipeline.shuffler))
        shutil.copy(pipeline.directory / "task.json", client.parent)
        # Nothing was sent yet: the wait is given up, saying what for, and the command names the way to wait.
        with pytest.raises(ServiceError, match="the shuffler waits for submissions until"):
            await pipeline.results(0, stalled_after=0.1)
        early = await ran("results", operator)
        assert early.status == 1
        waits = "kiosks round 0 is awaited and waits for its delivery by the shuffler, which cuts it at "
        assert waits in early.err
        assert "--wait SECONDS" in early.err
        missing = await ran("results", operator, "--round", "5", "--wait", "60")
        assert missing.status == 1
        assert "task kiosks has rounds 0 to" in missing.err
        mistyped = await ran("results", operator, "--task", "kiosk", "--wait", "60")
        assert mistyped.status == 1
        assert "no round of task kiosk; `hubbub status` shows all rounds" in mistyped.err

        data = tmp_path / "themes.tsv"
        data.write_text("look\n" + "light\n" * 12)
        first, second = (tickets_in(tmp_path / f"{name}.jsonl", pipeline) for name in ("first", "second"))
        words = ("--devices", "10", "--answer", "theme=light", "--answer", "theme=dark")
        without = await ran("rehearse", client, *words)
        assert without.status == 2
        assert (
            "admits enrolled devices, and there are 0 tickets for 10 devices; make tickets with `hubbub enroll"
            in without.err
        )
        stated = await ran("rehearse", client, *words, *first)
        assert (stated.status, stated.out) == (0, "acknowledged: 10 devices of task kiosks\n")
        filed = await ran("rehearse", client, "--data", data, "--column", "theme=look", "--json", *second)
        assert (filed.json["accepted"], filed.json["refused"]) == (12, {})
        bad = await ran("rehearse", client, "--devices", "9", "--answer", "theme=pink", "--json", *second)
        assert (bad.status, bad.json["accepted"], bad.json["refused"]) == (1, 0, {"bad_answer": 9})

        await pipeline.close_round(0)
        results = await ran("results", operator, "--task", "kiosks", "--wait", "60", "--json")
        assert results.status == 0, results.err
        assert results.json["queries"][0]["valid"] == 22
        shown = await ran("results", operator, "--task", "kiosks")
        assert " if only the person's own device is honest; everybody else may work together, " in shown.out
        assert shown.out.endswith("as the certificate states; hubbub verify computes it again\n")

        one = await ran("status", operator, "--task", "kiosks", "--json")
        assert {each["task"] for each in one.json["analyzer_rounds"]} == {"kiosks"}
        none = await ran("status", operator, "--task", "others")
        assert none.status == 1
        assert f"{NO_ROUND_ANYWHERE} others" in none.err
        lines = await watched(operator)
        assert len(lines) == 2
        assert {each["analyzer_rounds"][0]["state"] for each in lines} == {"certified"}


def tickets_in(path: Path, pipeline: LocalPipeline) -> tuple[str, Path]:
    path.write_bytes(b"\n".join(pipeline.tickets(12)))
    return "--tickets", path


async def ran(name: str, *words: str | Path) -> Ran:
    return await asyncio.to_thread(hubbub, name, *words)


async def watched(settings: Path) -> list[Any]:
    """Read two lines of `status --watch --json`, and end it by Ctrl-C."""
    command = [sys.executable, "-m", "hubbub.cli.main", "status", str(settings), "--watch", "--json"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert await process.stderr.read() == b""
        assert await process.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return lines
