"""A shuffler drains when it is asked to stop, and its workers go when it is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.shuffler.test_server import Deployment

from hubbub.service.transport.ports import ENDS_WITH_STDIN
from support.ended_with_test import started_program
from support.patience import CALL_SECONDS, PATIENCE

RUN = """
import asyncio, sys
from pathlib import Path
from hubbub.shuffler.server import serve
from hubbub.shuffler.settings import load

if __name__ == "__main__":
    asyncio.run(serve(load(Path(sys.argv[1])), announce=lambda addresses: print(addresses, flush=True)))
"""

SETTINGS = """
listen = "127.0.0.1:0"
control_listen = "127.0.0.1:0"
analyzer = "127.0.0.1:1"
tasks = ["tasks"]
data = "data"
identity = "identity.pem"
operator_key = "operator.pub.pem"
processes = 1

[tls]
authority = "tls/authority.pem"
certificate = "tls/shuffler.pem"
key = "tls/shuffler.key"
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    Deployment(tmp_path)
    (tmp_path / "shuffler.toml").write_text(SETTINGS)
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "shuffler.toml")]
    with started_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"submission" in process.stdout.readline()
        yield process


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_drains_and_leaves_when_asked_to(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"draining" in errors
    assert b"Traceback" not in errors


def test_a_service_that_ends_with_its_stdin_drains_when_that_closes(tmp_path: Path) -> None:
    Deployment(tmp_path)
    (tmp_path / "shuffler.toml").write_text(SETTINGS)
    (tmp_path / "run.py").write_text(RUN)
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "shuffler.toml")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with started_program(command, **pipes, env={**os.environ, ENDS_WITH_STDIN: "1"}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert b"submission" in process.stdout.readline()
        process.stdin.write(b"what is written is passed over")
        process.stdin.flush()
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"draining" in errors


def test_signals_that_others_reload_at_are_ignored(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
        process.send_signal(number)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert b"draining" in errors
    assert all(name in errors for name in (b"SIGHUP", b"SIGUSR1", b"SIGUSR2"))


def test_workers_go_with_a_killed_shuffler(process: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    deadline = time.monotonic() + CALL_SECONDS
    workers = [int(pid) for pid in children.read_text().split()]
    assert workers
    descriptors = [os.pidfd_open(pid) for pid in workers]
    process.kill()
    for descriptor in descriptors:
        # poll, which takes descriptors of any number; select takes none from 1,024 on.
        end = select.poll()
        end.register(descriptor, select.POLLIN)
        ended = end.poll(max(0, deadline - time.monotonic()) * 1000)
        os.close(descriptor)
        assert ended
