"""Rows with a goal, and comparisons with what others do, measured in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from goals import GOALS, RowGoal

Result = TypeVar("Result")


@dataclass(frozen=True)
class Row:
    """What was measured in each run, `values`, against its limit in the same run, `limits`.

    A limit that is no measurement, or that was measured apart from the values, has another number of them: then every
    value is compared with their median.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    limits: tuple[float, ...]
    others: float = 0.0
    """The share of all cores that other programs took meanwhile."""

    @classmethod
    def of(cls, name: str, unit: str, values: Sequence[float] | float, limits: Sequence[float] | float) -> Row:
        """Make a row of the runs' values and limits, in order; a number stands for one of them."""
        return cls(name, unit, _all(values), _all(limits))

    @property
    def goal(self) -> RowGoal:
        """The goal for the ratio of value and limit."""
        return GOALS[self.name]

    @property
    def value(self) -> float:
        """The median value."""
        return statistics.median(self.values)

    @property
    def limit(self) -> float:
        """The median limit."""
        return statistics.median(self.limits)

    @property
    def ratios(self) -> list[float]:
        """Value over limit, run by run."""
        if len(self.limits) == len(self.values):
            return [value / limit for value, limit in zip(self.values, self.limits, strict=True)]
        return [value / self.limit for value in self.values]

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return statistics.median(self.ratios)

    @property
    def worst(self) -> float:
        """The ratio of the worst run."""
        return max(self.ratios) if self.goal.upper else min(self.ratios)

    @property
    def best(self) -> float:
        """The ratio of the best run."""
        return min(self.ratios) if self.goal.upper else max(self.ratios)

    @property
    def spread(self) -> float:
        """How far the middle half of the limits reaches, as a share of their median; 0 for a limit that is given."""
        if len(self.limits) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.limits, n=4, method="inclusive")
        return (third - first) / self.limit

    @property
    def verdict(self) -> str:
        """Whether the median reaches the goal, as far as the machine was quiet enough to judge."""
        return self.goal.verdict(self.ratio, self.spread, self.others)


def _all(numbers: Sequence[float] | float) -> tuple[float, ...]:
    return (numbers,) if isinstance(numbers, float | int) else tuple(numbers)


@dataclass(frozen=True)
class Comparison:
    """What another way gives for the row of that name, and how long it takes."""

    name: str
    how: str
    value: float
    unit: str
    seconds: float


Outcome = Row | Comparison


def together(measured: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """Put several measurements of the same rows together: the runs of each row are then their medians.

    Comparisons are those of the last measurement.
    """
    if len(measured) == 1:
        return list(measured[0])
    return [_together(each, measured) if isinstance(each, Row) else each for each in measured[-1]]


def _together(row: Row, measured: Sequence[Sequence[Outcome]]) -> Row:
    same = [each for outcomes in measured for each in outcomes if isinstance(each, Row) and each.name == row.name]
    limits = [each.limit for each in same]
    others = statistics.median(each.others for each in same)
    # So that the ratio is the median of the measurement's own, not that of two medians.
    values = [each.ratio * each.limit for each in same]
    return Row(row.name, row.unit, tuple(values), tuple(limits), others)


def timed(
    work: Callable[[], Result], repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> tuple[list[float], Result]:
    """Seconds of each of `repeats` calls after a first one that is not counted, and what the last one returned."""
    result = work()
    seconds = []
    for _ in range(repeats):
        started = clock()
        result = work()
        seconds.append(clock() - started)
    return seconds, result


def timed_once(work: Callable[[], Result], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Result]:
    """Seconds of one call, and what it returned: for work that keeps what it computed, or that takes long."""
    started = clock()
    result = work()
    return clock() - started, result
