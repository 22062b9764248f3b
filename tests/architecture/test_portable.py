"""A device and the accountant run where Python has no module of Unix: these are hidden, and both are used."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

from hubbub.accountant import KRR, epsilon_bracket
from support.patience import PATIENCE
from support.samples import START, Parties, make_tls, sample_task, signed

HIDE = """
import asyncio, json, multiprocessing, os, signal, sqlite3, ssl, subprocess, sys, tempfile
import cryptography.x509, google.protobuf.message, grpc.aio
# The libraries above have their own ways on each system, and are loaded. What comes now is ours.
for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"):
    sys.modules[name] = None
everywhere = ("SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN")
for name in dir(signal):
    if name.startswith("SIG") and name not in everywhere:
        delattr(signal, name)
for name in ("alarm", "pause", "pthread_kill", "pthread_sigmask", "setitimer", "sigwait", "sigtimedwait"):
    delattr(signal, name)
for name in (
    "chown", "fchmod", "fchown", "fdatasync", "fork", "forkpty", "fstatvfs", "getegid", "geteuid", "getgid",
    "getgroups", "getloadavg", "getuid", "killpg", "mkfifo", "posix_fallocate", "pread", "pwrite",
    "register_at_fork", "setsid", "statvfs", "sysconf", "uname", "O_CLOEXEC",
    "O_DIRECTORY", "O_DSYNC", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC",
):
    delattr(os, name)
"""
"""What Windows lacks, gone before anything of ours is loaded."""

DEVICE = """
from pathlib import Path
import hubbub.client.gateway, hubbub.client.recorder
from hubbub.client import Device, Retrying, RetryPolicy, Unreachable

async def use(folder):
    device = Device(
        (folder / "task.json").read_bytes(),
        operator_key=(folder / "operator").read_bytes(),
        shuffler_key=(folder / "shuffler").read_bytes(),
        authority=folder / "authority.pem",
        state=folder / "device.sqlite",
        shuffler="127.0.0.1:1",
        retrying=Retrying(RetryPolicy(total=0.1, call=0.1)),
        clock=lambda: float({start}),
    )
    async with device:
        try:
            await device.submit({{"carrier": "UA", "delay": 12.5}})
        except Unreachable:
            status = device.status()
            print(json.dumps([status.task, status.waiting, status.current.answer.name]))

asyncio.run(use(Path({folder!r})))
"""

ACCOUNTANT = """
from fractions import Fraction
import hubbub.accountant
from hubbub.accountant import KRR, epsilon_bracket
print(json.dumps(epsilon_bracket(KRR(16, Fraction(1, 4)), 1000, 1e-6).epsilon_upper))
"""


def run_hidden(script: str, *libraries: str) -> str:
    """Run a program without the modules of Unix, which `libraries` had when they were loaded; return what it prints."""
    loads = "\n".join(f"import {library}" for library in libraries)
    command = [sys.executable, "-c", f"{loads}\n{HIDE}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_device_keeps_an_answer_that_nobody_takes_yet(tmp_path: Path) -> None:
    parties = Parties.generate()
    task = sample_task(parties)
    (tmp_path / "task.json").write_bytes(signed(task, parties).encode())
    (tmp_path / "operator").write_bytes(parties.operator.public)
    (tmp_path / "shuffler").write_bytes(parties.shuffler.public)
    authority = Path(make_tls(tmp_path / "tls", "shuffler")["shuffler"].authority)
    (tmp_path / "authority.pem").write_bytes(authority.read_bytes())
    said = run_hidden(DEVICE.format(folder=str(tmp_path), start=START))
    assert json.loads(said) == [task.name, [0], "KEPT"]


def test_the_accountant_gives_the_same_number() -> None:
    said = run_hidden(ACCOUNTANT, "numpy", "scipy.fft", "scipy.optimize", "scipy.special", "scipy.stats")
    assert json.loads(said) == epsilon_bracket(KRR(16, Fraction(1, 4)), 1000, 1e-6).epsilon_upper
