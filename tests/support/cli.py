"""Running `hubbub` as people do: a process of its own (`support.forked`), its exit status, stdout and stderr."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.forked import Place, be, context
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


def _run(words: Sequence[str], place: Place, out: Path, err: Path) -> None:
    place.enter()
    _become(0, os.devnull, os.O_RDONLY)
    _become(1, out, os.O_WRONLY)
    _become(2, err, os.O_WRONLY)
    be(words)


def _become(number: int, path: Path | str, flags: int) -> None:
    opened = os.open(path, flags | os.O_APPEND)
    os.dup2(opened, number)
    os.close(opened)
