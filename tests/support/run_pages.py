"""Pages whose commands run to the letter, in one shell and one folder, with outputs compared in shape."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.forked_commands import folder_for_path
from support.markdown_blocks import fenced
from support.patience import PATIENCE
from support.source_tree import ROOT

MARK = "==== step {} ===="
STARTS = ("set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT")

FINGERPRINT = re.compile(r"\b[0-9a-f]{8}(-?[0-9a-f]{8}){7}\b|\b[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?")
LAYOUT = re.compile(r"[━─█▏▎▍▌▋▊▉│┃┏┳┓┡╇┩└┴┘ ]+")
"""Bars and the lines of tables: a column of notes is there only if a row has one."""
BY_CHANCE = "may be 0"
"""A note at counts near zero, which noise gives and takes."""


@dataclass(frozen=True)
class Step:
    """A block of commands, and the output that the page shows below it."""

    commands: str
    shown: str


def steps(page: str, after: str = "") -> list[Step]:
    """The `sh` and `python` blocks of docs/PAGE.md from the words `after` on, and the `text` block below each."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert after in text
    begin = text.index(after)
    blocks = [block for block in fenced(text) if block.start >= begin]
    found: list[Step] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language in ("sh", "python"):
            commands = block.text if block.language == "sh" else f"python - <<'PROGRAM'\n{block.text}PROGRAM\n"
            shown = ""
            if following is not None and following.language == "text":
                shown = following.text if "\n#" not in text[block.end : following.start] else ""
            found.append(Step(commands, shown))
    return found


@contextlib.contextmanager
def _usual_ports(script: list[Step]) -> Iterator[None]:
    """Wait until no other test uses the ports that pages name, if these steps use them."""
    if not any("hubbub shuffler" in step.commands for step in script):
        yield
        return
    with Path(tempfile.gettempdir(), f"hubbub-usual-ports-{os.getuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(script: list[Step], folder: Path, before: str = "", *, from_nothing: bool = False) -> list[str]:
    """Run steps in one shell that stops at the first failure; what each printed on stdout and stderr.

    Services of pages have the usual ports. One test has them at a time, so a test may wait for another's. `hubbub` is
    forked from a process that has imported what it needs, or with `from_nothing` the one that is installed.
    """
    installed = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_usual_ports(script))
        path = installed
        if not from_nothing:
            around = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hubbub-")))
            path = f"{stack.enter_context(folder_for_path(around))}{os.pathsep}{installed}"
        return _run(script, folder, before, path)


def _run(script: list[Step], folder: Path, before: str, path: str) -> list[str]:
    parts = [*STARTS, before]
    for number, step in enumerate(script):
        parts.append(f"echo '{MARK.format(number)}'\n{step.commands}")
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(parts)],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=PATIENCE)
    finally:
        # A shell that is killed leaves its services.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, printed
    return re.split(r"==== step \d+ ====\n", printed)[1:]


def shape(line: str) -> str:
    """A line without its numbers, times, fingerprints and layout."""
    line = FINGERPRINT.sub("#", line).replace(BY_CHANCE, "")
    line = NUMBER.sub("0", TIME.sub("@", line))
    return spaced(line)


def spaced(line: str) -> str:
    """A line without its layout."""
    return LAYOUT.sub(" ", line).strip()


def unlike(shown: str, printed: str, *, exactly: bool = False) -> list[str]:
    """Lines that a page shows and a command did not print, in their order; … at an end leaves out what follows.

    They are compared in shape, or with `exactly` with their numbers.
    """
    seen = spaced if exactly else shape
    found = [seen(line) for line in printed.splitlines()]
    missing = []
    for line in shown.splitlines():
        wanted = seen(line)
        if wanted in ("…", ""):
            continue
        short = wanted.removesuffix("…").strip() if wanted.endswith("…") else None
        at = next(
            (i for i, each in enumerate(found) if each == wanted or (short is not None and each.startswith(short))),
            None,
        )
        if at is None:
            missing.append(line)
        else:
            found = found[at + 1 :]
    return missing
