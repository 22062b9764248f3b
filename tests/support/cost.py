"""The CPU seconds of its process and of all that it started, whoever waits for them.

Wall time says more about who else uses a machine; CPU seconds say what a test asks of it. `--cost FILE` adds a line for
each test, for each module that is collected, and for each process's collection as a whole. `tests/costs.txt` has what
was measured for slow tests: they are marked `slow` when they are collected.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

COSTS = Path(__file__).parents[1] / "costs.txt"
"""A line for each slow test, or slow case of one: its CPU seconds, and its name. `make costs` writes it."""


def recorded() -> dict[str, float]:
    """CPU seconds of slow tests by their names, and of slow cases by theirs."""
    lines = (line.partition(" ") for line in COSTS.read_text().splitlines())
    return {name: float(seconds) for seconds, _, name in lines}


def mark_slow(items: list[pytest.Item]) -> None:
    """Mark all tests that are recorded as slow."""
    costs = recorded()
    for item in items:
        if {item.nodeid, item.nodeid.partition("[")[0]} & costs.keys():
            item.add_marker("slow")


def spent() -> float:
    """CPU seconds of this process and of all its descendants, those that run and those that were waited for."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(map(_spent_by, _children(os.getpid())))


def _spent_by(process: int) -> float:
    """CPU seconds of a process and of its descendants; none where it has ended meanwhile or there is no `/proc`."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime, stime, cutime and cstime, in ticks: proc(5).
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(_spent_by, _children(process)))


def _children(process: int) -> list[int]:
    """The processes that a process started; fewer, or none, if it or a thread of it ends meanwhile."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{process}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
    return found


class Cost:
    """Writes what is spent, a line each: what, a tab, seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _note(self, what: str, seconds: float) -> None:
        with self._path.open("a") as file:
            file.write(f"{what}\t{seconds:.2f}\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        before = spent()
        report = yield
        if isinstance(collector, pytest.Module):
            self._note(f"module {collector.nodeid}", spent() - before)
        return report

    def pytest_collection_finish(self) -> None:
        self._note("collection", spent())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = spent()
        result = yield
        self._note(f"test {item.nodeid}", spent() - before)
        return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow(items)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cost", metavar="FILE", help="add what each test costs, in CPU seconds, to this file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cost"):
        config.pluginmanager.register(Cost(Path(config.getoption("--cost")).absolute()))
