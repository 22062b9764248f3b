"""A program that runs the pipeline is ended from outside: its services do not outlive it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.ended_with_test import started_program
from support.patience import CALL_SECONDS

PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram

async def main() -> None:
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator")
    privacy = Privacy(epsilon=2.0, delta=1e-4, epsilon_local=16.0)
    draft = Draft("kiosks", schedule, 500, privacy, (Histogram("theme", ("light", "dark")),))
    async with LocalPipeline(draft, Path(sys.argv[1])) as pipeline:
        print(json.dumps([service.pid for service in pipeline.services.values()]), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_services_end_with_the_program_that_started_them(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "pipeline"
    with started_program([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        pids = json.loads(program.stdout.readline())
        services = [os.pidfd_open(pid) for pid in pids]
        program.send_signal(number)
        assert program.wait(CALL_SECONDS) == -number
    for service, pid in zip(services, pids, strict=True):
        waiting = select.poll()
        waiting.register(service, select.POLLIN)
        ended = waiting.poll(1000 * CALL_SECONDS)
        os.close(service)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        assert ended, pid
    assert all("draining" in (folder / "logs" / f"{role}.log").read_text() for role in ("shuffler", "analyzer"))
