"""Running `hubbub` as people do: a process of its own (`support.forked`), its exit status, stdout and stderr.

A test of what a command does, and not of how it starts and ends, may run it in its own process (`hubbub_here`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from support.forked import PROGRAM, Place, be, context
from support.patience import PATIENCE


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
        process = context().Process(
            target=_run, args=([str(word) for word in words], Place.here(folder=folder), out, err)
        )
        process.start()
        process.join(PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"hubbub {words} took more than {PATIENCE} s; it said: {err.read_text()}")
        ran = Ran(process.exitcode, out.read_text(), err.read_text())
        process.close()
        return ran


def hubbub_here(*words: str | Path, folder: Path | None = None) -> Ran:
    """Run `hubbub` with these words in this process, which imports what a command needs once for all tests.

    What was computed once, such as a plan, is known to the next command. Services that it starts are forked
    (`support.preloaded`). It is for tests that run nothing else meanwhile: stdout, stderr and the folder are changed.
    """
    from hubbub.cli.main import main
    from support.preloaded import fork_services

    fork_services(True)
    out, err = io.StringIO(), io.StringIO()
    with (
        # The width of a terminal in which the tests run is not asked for.
        patch.dict(os.environ, {"COLUMNS": os.environ.get("COLUMNS", "80")}),
        contextlib.chdir(folder or Path.cwd()),
        _signals(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return Ran(ended.value.code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Handle signals afterwards as before: a command may handle them in its own way until its process ends."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _run(words: Sequence[str], place: Place, out: Path, err: Path) -> None:
    place.enter()
    _become(0, os.devnull, os.O_RDONLY)
    _become(1, out, os.O_WRONLY)
    _become(2, err, os.O_WRONLY)
    be(PROGRAM, words)


def _become(number: int, path: Path | str, flags: int) -> None:
    opened = os.open(path, flags | os.O_APPEND)
    os.dup2(opened, number)
    os.close(opened)
