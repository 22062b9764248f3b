"""Whatever surrounds a process (environment, terminal, closed or full streams): it does its work, or says why not."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.deploy.init.folders import initialize
from support.cli import hubbub_here
from support.patience import PATIENCE

MODULE = ("-m", "hubbub.cli.main")
FLAGS = ("", "-I", "-E", "-s", "-P", "-O", "-OO", "-B", "-bb", "-u", "-W error", "-X dev", "-X utf8=0", "-X importtime")
"""How Python is started; without `site`, as -S has it, it finds no package at all."""

FAULTS = ("Traceback", "a fault in hubbub", "Exception ignored", "Fatal Python", "Warning: ")

VARIABLES: Mapping[str, list[str | None]] = {
    "http_proxy": ["http://127.0.0.1:9", "nonsense", ""],
    "https_proxy": ["http://127.0.0.1:9", "socks5://x:y@z"],
    "ALL_PROXY": ["http://127.0.0.1:9"],
    "no_proxy": ["*", "localhost"],
    "LC_ALL": ["C", "POSIX", "C.UTF-8", "xx_XX.nothing", "de_DE.UTF-8", "tr_TR.UTF-8"],
    "LANG": ["C", "de_DE.ISO-8859-1", ""],
    "LC_NUMERIC": ["de_DE.UTF-8"],
    "COLUMNS": ["0", "1", "2", "3", "20", "80", "1000", "many", "-5", "100000", "١"],
    "LINES": ["0", "x"],
    "NO_COLOR": ["1", ""],
    "FORCE_COLOR": ["1", "3"],
    "TERM": ["dumb", "", "xterm-256color", "nonsense", None],
    "HOME": [None, "/missing", "", "/dev/null", "/proc"],
    "USER": [None],
    "LOGNAME": [None],
    "TMPDIR": ["/missing", "/proc", "", "/dev/null", "relative"],
    "PATH": [None, ""],
    "TZ": ["nonsense", "Pacific/Kiritimati", "", ":/missing", "UTC+99", "EST5EDT,M3.2.0,M11.1.0"],
    "PYTHONWARNINGS": ["error", "default", "nonsense"],
    "PYTHONUTF8": ["0", "1"],
    "PYTHONIOENCODING": ["ascii", "latin-1", "utf-8:strict"],
    "PYTHONUNBUFFERED": ["1"],
    "PYTHONDEVMODE": ["1"],
    "PYTHONOPTIMIZE": ["1", "2"],
    "PYTHONSAFEPATH": ["1"],
    "PYTHONHASHSEED": ["0", "4294967295", "random"],
    "PYTHONINTMAXSTRDIGITS": ["0", "640"],
    "PYTHONPYCACHEPREFIX": ["/missing", "/proc"],
    "PYTHONNOUSERSITE": ["1"],
    "PYTHONNODEBUGRANGES": ["1"],
    "PYTHONPATH": ["/missing", ""],
    "PYTHONCOERCECLOCALE": ["0"],
    "PYTHONMALLOC": ["debug"],
    "PYTHONFAULTHANDLER": ["1"],
    "PYTHONTRACEMALLOC": ["1"],
    "TERMINAL_WIDTH": ["x", "40"],
    "TTY_COMPATIBLE": ["0", "1"],
    "TTY_INTERACTIVE": ["0", "1"],
    "JUPYTER_COLUMNS": ["x"],
    "CLICOLOR_FORCE": ["1"],
    "CI": ["true"],
    "GITHUB_ACTIONS": ["true"],
    "OMP_NUM_THREADS": ["x"],
    "SSLKEYLOGFILE": ["/missing/keys"],
    "OPENSSL_CONF": ["/missing"],
    "SQLITE_TMPDIR": ["/missing"],
    "ARROW_DEFAULT_MEMORY_POOL": ["nonsense"],
    "ARROW_IO_THREADS": ["x"],
    "GRPC_POLL_STRATEGY": ["nonsense", "", "poll", "x,epoll1"],
    "GRPC_DNS_RESOLVER": ["nonsense"],
    "PYTHONDONTWRITEBYTECODE": ["1"],
    "PYTHONASYNCIODEBUG": ["1"],
    "OPENBLAS_NUM_THREADS": ["x", "64"],
    "GRPC_VERBOSITY": ["NONSENSE", "DEBUG"],
    "MPLCONFIGDIR": ["/missing"],
    "SOURCE_DATE_EPOCH": ["today", "", "0", "-1"],
    "MPLBACKEND": ["nonsense", "TkAgg"],
    "XDG_CONFIG_HOME": ["/missing"],
    "JAVA_HOME": ["/missing"],
    "SSL_CERT_FILE": ["/missing"],
}
"""Values that people's shells, containers and build machines set; None takes the variable away."""

SURROUNDINGS = st.dictionaries(st.sampled_from(sorted(VARIABLES)), st.integers(0, 6), max_size=5).map(
    lambda drawn: {name: VARIABLES[name][place % len(VARIABLES[name])] for name, place in drawn.items()}
)

SHELL = (
    "umask 077",
    "umask 000",
    "ulimit -n 64",
    "ulimit -c 0",
    "ulimit -s 256",
    "ulimit -v 3000000",
    "trap '' CHLD",
    "trap '' PIPE",
    "trap '' INT TERM HUP",
    "cd /proc",
    "mkdir gone && cd gone && rmdir ../gone",
    "exec <&-",
    "exec </dev/full",
    "exec 3>&- 4</dev/null",
)
"""What a shell, a container or another program does before it runs a command. Python does not start with a folder as
its stdin."""

PLACES = ("plain", "with space", "new\nline", os.fsdecode(b"l\xe4tin"), "it's \"$x`", "-dash", "ünï 東", "a[b]{c}%s")
"""Names of the folder that a command's files are in."""

COMMANDS: Mapping[tuple[str, ...], int] = {
    ("--version",): 0,
    ("--help",): 0,
    ("plan", "--help"): 0,
    ("account", "epsilon", "--mechanism", "krr", "--categories", "4", "--gamma", "25%", "--reports", "1e2", "--delta",
     "1e-6"): 0,
    ("account", "bounds", "--mechanism", "hashed", "--cells", "4", "--gamma", "25%", "--reports", "9", "--delta",
     "0.1"): 0,
    ("plan", "@deployment/operator/task.toml", "--no-compare"): 0,
    ("draft", "@data.csv"): 0,
    ("simulate", "--data", "@data.csv", "--column", "città"): 0,
    ("keys", "list", "@deployment/shuffler/shuffler.toml"): 0,
    ("status", "@deployment/operator/operator.toml"): 1,
    ("submit", "@deployment/client/client.toml", "--answer", "theme=light", "--answer", "session=1e9", "--timeout",
     "1"): 1,
    ("submit", "@deployment/client/client.toml", "--timeout", "1"): 2,
    ("device", "status", "@deployment/client/client.toml"): 0,
    ("device", "budget", "@deployment/client/client.toml"): 0,
    ("results", "@deployment/operator/operator.toml"): 1,
    ("health", "shuffler", "@deployment/shuffler/shuffler.toml"): 1,
    ("close", "@deployment/operator/operator.toml", "@deployment/client/task.json"): 1,
    ("sign", "@deployment/client/task.json", "--key", "@deployment/operator/identity.pem"): 0,
    ("simulate", "--data", "@data.csv", "--column", "città", "--compare", "krr", "--reports", "60", "--repeat", "2"): 0,
    ("account", "plot", "--mechanism", "krr", "--categories", "4", "--gamma", "1/4", "--delta", "1e-6", "--over",
     "reports", "--from", "10", "--to", "20", "--points", "2", "--bound", "local", "--out", "@plot.svg"): 0,
    ("draft", "@data.csv", "--out", "@data.csv"): 2,
    ("init", "@deployment"): 1,
    ("demo", "--list"): 0,
    ("verify", "@missing.json"): 1,
    ("verify", "@data.csv"): 1,
    ("account", "epsilon", "--reports", "many"): 2,
    ("nothing",): 2,
}  # fmt: skip
"""Commands with their exit status in plain surroundings; a word after @ is a file."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made")
    initialize(made / "first" / "deployment")
    (made / "first" / "data.csv").write_text("città,n\n" + "é,1\nß,2\n" * 60, "utf-8")
    parties = made / "first" / "deployment"
    task = parties / "client" / "task.json"
    ran = hubbub_here("plan", parties / "operator" / "task.toml", "--out", task)
    assert ran.status == 0, ran.err
    for role in ("operator", "shuffler"):
        ran = hubbub_here("sign", task, "--key", parties / role / "identity.pem")
        assert ran.status == 0, ran.err
    for place in PLACES:
        shutil.copytree(made / "first", made / place)
    return made


@contextmanager
def stream(kind: str, said: list[bytes]) -> Iterator[int | None]:
    """Open what a process writes to; None closes it. `said` gets what was written, where it can be read."""
    if kind == "closed":
        yield None
    elif kind == "full":
        with Path("/dev/full").open("wb") as full:
            yield full.fileno()
    elif kind == "file":
        with tempfile.TemporaryFile() as file:
            yield file.fileno()
            file.seek(0)
            said.append(file.read())
    else:
        reading, writing = pty.openpty() if kind == "terminal" else os.pipe()
        most = 20 if kind == "head" else 10**9
        reader = threading.Thread(target=_read, args=(reading, most, said))
        reader.start()
        try:
            yield writing
        finally:
            os.close(writing)
            reader.join()


def _read(descriptor: int, most: int, said: list[bytes]) -> None:
    found = b""
    while len(found) < most:
        try:
            more = os.read(descriptor, min(most, 4096))
        except OSError:
            # So a terminal ends.
            break
        if not more:
            break
        found += more
    os.close(descriptor)
    said.append(found)


def run(
    words: list[str],
    folder: Path,
    around: Mapping[str, str | None],
    out: str,
    err: str,
    before: Sequence[str],
    flags: str,
) -> tuple[int, bytes, bytes]:
    """Run a command as a process from nothing; return its status and what it wrote."""
    environment = {**os.environ, **{name: value for name, value in around.items() if value is not None}}
    for name in [name for name, value in around.items() if value is None]:
        environment.pop(name, None)
    wrote: list[bytes] = []
    complained: list[bytes] = []
    with stream(out, wrote) as stdout, stream(err, complained) as stderr:
        closing = " ".join(f"{number}>&-" for number, to in ((1, stdout), (2, stderr)) if to is None)
        shell = shutil.which("sh") or "/bin/sh"
        process = subprocess.Popen(
            [
                shell,
                "-c",
                "\n".join([*before, f'exec "$@" {closing}']),
                "sh",
                sys.executable,
                *flags.split(),
                *MODULE,
                *words,
            ],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
    return status, b"".join(wrote), b"".join(complained)


@pytest.mark.from_nothing
@settings(max_examples=5)
@given(
    st.sampled_from(sorted(COMMANDS)),
    st.booleans(),
    SURROUNDINGS,
    st.sampled_from(["file", "pipe", "head", "closed", "full", "terminal"]),
    st.sampled_from(["file", "closed", "terminal"]),
    st.lists(st.sampled_from(SHELL), max_size=2, unique=True),
    st.sampled_from(PLACES),
    st.sampled_from(FLAGS),
)
def test_a_command_does_its_work_whatever_surrounds_it(
    folder: Path,
    words: tuple[str, ...],
    as_json: bool,
    around: dict[str, str | None],
    out: str,
    err: str,
    before: list[str],
    place: str,
    flags: str,
) -> None:
    with_json = as_json and words[0] not in ("--version", "--help", "nothing")
    said = [str(folder / place / word[1:]) if word.startswith("@") else word for word in words]
    status, wrote, complained = run([*said, *["--json"] * with_json], folder, around, out, err, before, flags)
    told = f"{flags} {said} {around} {out} {err} {before}: {status}\n{wrote!r}\n{complained!r}"
    assert not any(fault.encode() in wrote + complained for fault in FAULTS), told
    usual = COMMANDS[words]
    # The reader may have read all that is written; a full disk is told of, unless nothing is written to it.
    allowed = {"head": {usual, 141}, "full": {usual, 1}}.get(out, {usual})
    assert status in allowed, told
    if usual == 0 and status == 0 and out in ("file", "pipe"):
        assert wrote, told
        if with_json and "--help" not in words:
            json.loads(wrote)
    # With --json, `health` tells in its document what does not serve.
    if usual and err == "file" and out != "full" and not (with_json and words[0] == "health"):
        assert b"rror" in complained, told
