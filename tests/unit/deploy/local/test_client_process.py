"""Workers that play devices: one answers line by line, and one that ends or fails says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hubbub.deploy.local.client_process import ClientProcess
from hubbub.protos.errors import HubbubError

pytestmark = pytest.mark.from_nothing

PLAYER = """
import json, os, sys
for line in sys.stdin:
    if line == "end\\n":
        sys.exit("no more devices")
    fails = line == "fail\\n"
    print(json.dumps({"failed": "an answer"} if fails else {"process": os.getpid(), "line": line}), flush=True)
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientProcess:
    (tmp_path / "player.py").write_text(PLAYER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return ClientProcess("player", tmp_path / "log")


async def test_one_process_answers_line_by_line_until_it_is_stopped(worker: ClientProcess) -> None:
    processes = set()
    for line in (b"one\n", b"two\n"):
        await worker.start()
        worker.write(line)
        said = await worker.read()
        assert said["line"] == line.decode()
        processes.add(said["process"])
    await worker.stop()
    (process,) = processes
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


async def test_one_that_ends_or_fails_says_why(worker: ClientProcess) -> None:
    await worker.start()
    worker.write(b"fail\n")
    with pytest.raises(HubbubError, match=r"^an answer$"):
        await worker.read()
    worker.write(b"end\n")
    with pytest.raises(HubbubError, match=r"a worker ended with status 1; the end of .*log: no more devices"):
        await worker.read()
    await worker.stop()


async def test_one_that_was_not_started_is_given_nothing(worker: ClientProcess) -> None:
    with pytest.raises(HubbubError, match="not started"):
        worker.write(b"one\n")
    with pytest.raises(HubbubError, match="not started"):
        await worker.read()
