"""Defines the periods of a longitudinal query, and the dyadic intervals of periods over which changes are summed."""

from dataclasses import dataclass
from functools import cached_property

from hubbub.accountant.errors import AccountingError, shown

PERIODS_LIMIT = 2**16
"""Most periods: hourly rounds for seven years."""

CHANGES_LIMIT = 256
"""Most changes of a device's boolean: above it no strategy gains from a limit on changes."""


@dataclass(frozen=True)
class Horizon:
    """d `periods`, 1 … d, over which a boolean that starts at 0 changes at most `changes` times (k).

    Periods are padded to the next power of two, 2^L. The node (h, j), j = 1, 2, …, is the interval from period
    (j − 1)·2^h + 1 to j·2^h; its value is the boolean's at its end minus the one before its start: −1, 0 or 1. The
    nodes that make up [1, t] have distinct levels, and their values add up to the boolean at t. Nodes that would end
    after d never end, so nobody sends them: levels are those with 2^h ≤ d.

    Raises AccountingError for numbers out of range, and if there would be more changes than periods.
    """

    periods: int
    changes: int

    def __post_init__(self) -> None:
        _check("periods", self.periods, PERIODS_LIMIT)
        _check("changes", self.changes, CHANGES_LIMIT)
        if self.changes > self.periods:
            raise AccountingError(
                f"changes is {self.changes}; give at most the {self.periods} periods, as a boolean changes once in each"
            )

    @cached_property
    def levels(self) -> int:
        """How many levels have a node that ends: ⌊log₂ d⌋ + 1."""
        return self.periods.bit_length()

    def nodes(self, level: int, period: int | None = None) -> int:
        """Return how many nodes of `level` have ended by the end of `period` (default: the last)."""
        return self.until(period) >> level

    def until(self, period: int | None) -> int:
        """Return `period`, checked; the last one if it is None."""
        if period is None:
            return self.periods
        _check("period", period, self.periods)
        return period

    def cover(self, period: int) -> tuple[tuple[int, int], ...]:
        """Return the nodes (h, j) that make up [1, `period`], the longest first: one for each set bit of `period`."""
        self.until(period)
        return tuple((level, period >> level) for level in reversed(range(self.levels)) if period >> level & 1)

    def ending(self, period: int) -> tuple[int, int]:
        """Return the longest node (h, j) that ends with `period`, as in a cover; its length is the lowest set bit."""
        level = (self.until(period) & -period).bit_length() - 1
        return level, period >> level


def _check(name: str, value: object, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise AccountingError(f"{name} is {shown(value)}; give a whole number from 1 to {most}")
