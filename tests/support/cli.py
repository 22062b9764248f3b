"""Running `hubbub` as people do: a process of its own, its exit status, stdout and stderr.

Each is forked from one that has loaded what commands load, half a second of every start; how `hubbub` starts from
nothing is shown by the tests of the README, the demo and `tests/cli/test_start.py`, and a child inherits nothing else:
the first process runs no command, opens no file and starts no thread.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from support.patience import PATIENCE

# Nothing of gRPC, which starts threads and reads its variables when it is loaded.
LOADED = (
    "hubbub.accountant",
    "hubbub.cli.main",
    "hubbub.cli.app",
    "hubbub.deploy.init.folders",
    "hubbub.planning.plan",
    "hubbub.protos.sealing.envelope",
    "rich.table",
    "rich.progress",
)


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


def hubbub(*words: str | Path, folder: Path | None = None) -> Ran:
    """Run `hubbub` with these words, in that folder and with the environment of now."""
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said) / "out", Path(said) / "err"
        out.touch()
        err.touch()
        place = _Place(folder or Path.cwd(), dict(os.environ), _umask(), out, err)
        process = _context().Process(target=_run, args=([str(word) for word in words], place))
        process.start()
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"hubbub {words} took more than {PATIENCE} s; it said: {err.read_text()}")
        ran = Ran(process.exitcode, out.read_text(), err.read_text())
        process.close()
        return ran


@dataclass(frozen=True)
class _Place:
    """What a process is given beside its words; `out` and `err` are files."""

    folder: Path
    environment: Mapping[str, str]
    umask: int
    out: Path
    err: Path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    return context


def _run(words: Sequence[str], place: _Place) -> None:
    """Be `hubbub WORDS` there."""
    from hubbub.cli.main import main

    os.chdir(place.folder)
    os.umask(place.umask)
    os.environ.clear()
    os.environ.update(place.environment)
    _become(0, os.devnull, os.O_RDONLY)
    _become(1, place.out, os.O_WRONLY)
    _become(2, place.err, os.O_WRONLY)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = ["hubbub", *words]
    main()


def _become(number: int, path: Path | str, flags: int) -> None:
    opened = os.open(path, flags | os.O_APPEND)
    os.dup2(opened, number)
    os.close(opened)
