"""Rows with a goal, and comparisons with what others do, measured in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

Direction = Literal["<=", ">="]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """One measured `value` against its `limit`; the goal holds for their ratio, on the side that `direction` says."""

    name: str
    value: float
    unit: str
    limit: float
    direction: Direction = "<="
    goal: float = 1.0

    @property
    def ratio(self) -> float:
        """Value over limit."""
        return self.value / self.limit

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        return self.ratio <= self.goal if self.direction == "<=" else self.ratio >= self.goal


@dataclass(frozen=True)
class Comparison:
    """What another way gives for the row of that name, and how long it takes."""

    name: str
    how: str
    value: float
    unit: str
    seconds: float


Outcome = Row | Comparison


def timed(
    work: Callable[[], Result], repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Result]:
    """Median seconds of `repeats` calls after a first one that is not counted, and what the last one returned."""
    result = work()
    seconds = []
    for _ in range(repeats):
        started = clock()
        result = work()
        seconds.append(clock() - started)
    return statistics.median(seconds), result


def timed_once(work: Callable[[], Result], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Result]:
    """Seconds of one call, and what it returned: for work that keeps what it computed, or that takes long."""
    started = clock()
    result = work()
    return clock() - started, result
