"""Rows: a query's published numbers, each with the name of its statistic, the same for every kind of question.

Nothing here needs numpy, so that programs that only read results import little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate, the standard deviation of the privacy noise on it, and its 95 % interval."""

    value: float
    standard_error: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Row:
    """One statistic of a query: its name, and the category it is about where there is one.

    `estimate` is None where the statistic has no value, such as the mean where nobody can be said to have answered.
    `consistent` is a count's projection on counts that are not negative and add up to the reports: it is biased.
    """

    statistic: str
    estimate: Estimate | None
    category: str | None = None
    consistent: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Estimates:
    """A query's rows. Where values were clipped to a range before they were counted, the range is `clipped_to`.

    Where answers are decoded later, from candidates, `table` is what they are decoded from (`queries.lookup`).
    """

    kind: str
    rows: tuple[Row, ...]
    unit: str = ""
    clipped_to: tuple[float, float] | None = None
    table: bytes = b""


Truth = Mapping[tuple[str, str | None], float]
"""True values by statistic and category, where the answers themselves are known: in a demo or a simulation."""
