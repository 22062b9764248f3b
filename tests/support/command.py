"""Running `hubbub` as people do: a process of its own, its exit status, stdout and stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    """Run `hubbub` with these words."""
    done = subprocess.run(
        [sys.executable, "-m", "hubbub.deploy.cli", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=None,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
