"""A forked `hubbub` of a shell is what the installed one is: streams, status, signals and end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ended_with_test import started_program
from support.forked_commands import folder_for_path
from support.patience import AGAIN_SECONDS, PATIENCE


@pytest.fixture
def around(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose PATH has it first."""
    (tmp_path / "first").mkdir()
    with folder_for_path(tmp_path / "first") as first:
        yield {**os.environ, "PATH": f"{first}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80"}


def ran(script: str, folder: Path, around: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=around, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_it_has_the_shells_folder_streams_and_variables_and_ends_with_its_status(
    tmp_path: Path, around: dict[str, str]
) -> None:
    done = ran("mkdir empty; cd empty; hubbub plan task.toml", tmp_path, around)
    says = "task.toml: No such file or directory; give as TASK.toml: the task as written by hand"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {says}\n")
    done = ran("printf x | hubbub verify /dev/stdin --json 2>&1 | HUBBUB=1 hubbub --version", tmp_path, around)
    assert (done.returncode, done.stdout.startswith("hubbub ")) == (0, True)
    done = ran("umask 077; hubbub init new --json > said; stat -c %a said new", tmp_path, around)
    assert done.stdout == "600\n700\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_who_started_it(tmp_path: Path, around: dict[str, str], number: signal.Signals) -> None:
    """It waits for the end of what it reads; once nobody reads that, it is gone."""
    os.mkfifo(tmp_path / "endless")
    command = [str(tmp_path / "first" / "hubbub"), "verify", str(tmp_path / "endless")]
    with started_program(command, env=around) as waiting:
        writer = opened(tmp_path / "endless")
        waiting.send_signal(number)
        assert waiting.wait(PATIENCE) == -number
    while is_read(writer):
        time.sleep(AGAIN_SECONDS)
    os.close(writer)


def opened(path: Path) -> int:
    """The end of a pipe that somebody reads, once somebody does."""
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(AGAIN_SECONDS)


def is_read(writer: int) -> bool:
    try:
        return os.write(writer, b" ") > 0
    except BrokenPipeError:
        return False
