"""The whole demo, against the seals and opens that its devices cost on all cores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from cores import all_cores, open_bare, rate, seal_bare
from row import Comparison, Outcome, Row
from sample_task import INNER_BYTES

from hubbub.queries.randomizers.krr import SYMBOL_BYTES

QUERIES = 2
"""Queries of the demo: its devices seal and have opened one outer envelope, and an inner one for each."""

SAMPLE = 20_000
"""Devices of one measurement of the limit."""

MODES = {"demo_all": (), "demo_all_open": ("--admission", "open", "--honest-share", "0.5")}
"""Rows, with the options of the demo that they are of."""

DEVICES = "all"
"""Devices of the demo."""

RUNS = 3
"""Measurements of the limit, before the demo and again after it."""


def _devices(count: int) -> float:
    """Do one core's part for `count` devices; return the seconds."""
    outer = sum(work(QUERIES * INNER_BYTES, count) for work in (seal_bare, open_bare))
    return outer + sum(work(SYMBOL_BYTES, QUERIES * count) for work in (seal_bare, open_bare))


def demo() -> Iterator[Outcome]:
    """All flights, once with enrolled devices and once with whoever comes: from starting the services to stopping them.

    What enrolling costs is not in the limit: of the second alone, seals and opens are nearly all that has to be done.
    """
    limits = _limits()
    found = {name: _played(*options) for name, options in MODES.items()}
    limits += _limits()
    for name, (devices, seconds) in found.items():
        yield Row.of(name, "devices/s", devices / sum(seconds.values()), limits)
        for stage, spent in seconds.items():
            yield Comparison(name, stage, devices / spent, "devices/s", spent)


def _played(*options: str) -> tuple[int, dict[str, float]]:
    """Run the demo; return its devices, and the seconds of each of its stages."""
    words = [sys.executable, "-m", "hubbub.cli.main", "demo", "--devices", DEVICES, *options, "--json"]
    document = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return document["devices"], document["seconds"]


def _limits() -> list[float]:
    with all_cores() as pool:
        return [rate(pool, _devices, SAMPLE) for _ in range(RUNS)]


ROWS = (demo,)
