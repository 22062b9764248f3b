"""A program that keeps its memory in dies without a core file; where the limit alone would not do, too."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.shuffler.admit.opening_worker import LENGTH, RoundKey, write_header
from support.patience import PATIENCE
from support.source_tree import MODULES

PR_GET_DUMPABLE = 3
ASKED = f"__import__('ctypes').CDLL(None).prctl({PR_GET_DUMPABLE}, 0, 0, 0, 0)"
"""1 where a process can be dumped, which is so at the start of every program, and 0 where it cannot."""

LIMITS = "__import__('resource').getrlimit(__import__('resource').RLIMIT_CORE)"
KEEP = "from hubbub.service.processes.hardening import disable_core_dumps; disable_core_dumps()"
RAISE = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)"
DIE = "import os; os.abort()"

UNLIMITED = ("sh", "-c", 'ulimit -S -c "$(ulimit -H -c)"; exec "$@"', "sh")
"""Starts a program with core files of any size that may be allowed.

Not by `preexec_fn`: it runs in a fork of the tests' own process, where gRPC may abort before the program starts.
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux whether a process can be dumped")


def died(folder: Path, *steps: str) -> bool:
    """Run a program that aborts, with no limit on its core file; return whether the kernel dumped it."""
    return was_dumped(subprocess.Popen([*UNLIMITED, sys.executable, "-c", "\n".join(steps)], cwd=folder))


def was_dumped(program: subprocess.Popen[bytes]) -> bool:
    """Wait until a program has died by SIGABRT; return whether the kernel dumped it."""
    status = os.waitpid(program.pid, 0)[1]
    program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == -signal.SIGABRT
    return os.WCOREDUMP(status)


def test_a_program_that_keeps_its_memory_in_is_not_dumped(tmp_path: Path) -> None:
    assert not died(tmp_path, KEEP, DIE)
    assert list(tmp_path.iterdir()) == []


def test_nor_where_the_limit_does_not_count(tmp_path: Path) -> None:
    # Only a privileged process can raise its limit again; any other dies of the exception, and not of the signal.
    assert not died(tmp_path, KEEP, f"try:\n    {RAISE}\nexcept ValueError: pass", DIE)


def test_without_it_a_program_is_dumped_where_it_may_be(tmp_path: Path) -> None:
    is_allowed = resource.getrlimit(resource.RLIMIT_CORE)[1] != 0
    assert died(tmp_path, DIE) == is_allowed


COMMAND = """
import sys
from hubbub.cli import main
sys.argv = ["hubbub", "--version"]
try:
    main.main()
except SystemExit:
    pass
"""


@pytest.mark.parametrize("program", [KEEP, COMMAND], ids=["alone", "command"])
def test_programs_say_that_they_cannot_be_dumped(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nprint({ASKED}, {LIMITS})"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines()[-1] == "0 (0, 0)"


def test_the_analyzers_workers_cannot_be_dumped() -> None:
    opening_pool = OpeningPool(1)
    try:
        asked = opening_pool._pool(None).submit(eval, f"({ASKED}, {LIMITS})")
        assert asked.result(60) == (0, (0, 0))
    finally:
        opening_pool.close()


def test_the_shufflers_openers_cannot_be_dumped(tmp_path: Path) -> None:
    key = RoundKey(Destination(bytes(32), 0, bytes(32)), DEFAULT.generate_key()[0], 48)
    program = subprocess.Popen(
        [*UNLIMITED, sys.executable, "-m", "hubbub.shuffler.admit.opening_worker"],
        cwd=tmp_path,
        stdin=PIPE,
        stdout=PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(write_header(key, 0))
    program.stdin.flush()
    assert program.stdout.read(LENGTH) == bytes(LENGTH)  # it holds the key, and has no more to do
    program.send_signal(signal.SIGABRT)
    assert not was_dumped(program)
    program.stdin.close()
    program.stdout.close()


PROGRAMS = [path for path in MODULES if '__name__ == "__main__"' in path.read_text()]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_every_program_keeps_its_memory_in(path: Path) -> None:
    assert "    disable_core_dumps()\n" in path.read_text()


def test_the_programs_are_known() -> None:
    assert {path.name for path in PROGRAMS} >= {"main.py", "opening_worker.py", "worker.py"}
