"""The whole demo, against the seals and opens that its devices cost on all cores."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

from cores import all_cores, open_bare, rate, seal_bare
from parts import INNER_BYTES
from rows import Comparison, Outcome, Row

from hubbub.queries.krr import SYMBOL_BYTES

QUERIES = 2
"""Queries of the demo: its devices seal and have opened one outer envelope, and an inner one for each."""

SAMPLE = 20_000
"""Devices of one measurement of the limit."""

RUNS = 3
"""Measurements of the limit, before the demo and again after it."""


def _devices(count: int) -> float:
    """Do one core's part for `count` devices; return the seconds."""
    outer = sum(work(QUERIES * INNER_BYTES, count) for work in (seal_bare, open_bare))
    return outer + sum(work(SYMBOL_BYTES, QUERIES * count) for work in (seal_bare, open_bare))


def demo() -> Iterator[Outcome]:
    """All flights, once: from starting the services to stopping them."""
    limits = _limits()
    words = [sys.executable, "-m", "hubbub.deploy.cli", "demo", "--devices", "all", "--json"]
    document = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    limits += _limits()
    devices, seconds = document["devices"], document["seconds"]
    limit = statistics.median(limits)
    yield Row("demo_all", devices / sum(seconds.values()), "devices/s", limit, ">=", 0.8)
    for stage, spent in seconds.items():
        yield Comparison("demo_all", stage, devices / spent, "devices/s", spent)


def _limits() -> list[float]:
    with all_cores() as pool:
        return [rate(pool, _devices, SAMPLE) for _ in range(RUNS)]


ROWS = (demo,)
