"""How long the command line takes to say what it has, and an application to import what it embeds."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator

from row import Comparison, Outcome, Row

RUNS = 9
"""Starts of each program, after one that may compile modules."""

SECONDS = 0.15
"""What a start may take of the processor, the interpreter's own included."""

STARTED = {
    "command_help": ("-m", "hubbub.cli.main", "--help"),
    "import_client": ("-c", "import hubbub.client"),
}


def commanding() -> Iterator[Outcome]:
    """One row a program."""
    for name, words in STARTED.items():
        yield Row.of(name, "s", _runs(words), SECONDS)
    used = statistics.median(_runs(("-c", "from hubbub.client import Device")))
    yield Comparison("import_client", "with Device and all that it needs", used, "s", used)


def _runs(words: tuple[str, ...]) -> list[float]:
    return [_processor(words) for _ in range(RUNS + 1)][1:]


def _processor(words: tuple[str, ...]) -> float:
    """Run the interpreter on these words; return the seconds of the processor that it took."""
    before = _children()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


ROWS = (commanding,)
