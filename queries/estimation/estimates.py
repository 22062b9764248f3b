"""A query's published numbers, each with the name of its statistic, in the same form for every kind of question.

This module does not need numpy, so that programs that only read results import little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Group = tuple[tuple[str, str], ...]
"""The people a row is about, as attributes and their values: (("region", "north"),). Empty means everybody."""


BEGINNING = "beginning"
"""The statistic of how many people have a longer text that begins so."""


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate, the standard deviation of the privacy noise on it, and its 95 % interval.

    `standard_error` is None for a statistic that has an interval and no standard error, such as a quantile.
    `simultaneous` is the interval of a band: with a probability of 95 %, all of the query's intervals of the band cover
    their true values at once.
    """

    value: float
    standard_error: float | None
    lower: float
    upper: float
    simultaneous: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """One statistic of a query.

    Attributes:
        statistic: its name.
        estimate: its estimate; None if it has no value, such as a mean if the estimated number of answers is not
            positive.
        category: the category that it is about, if any.
        consistent: a count's projection on counts that are not negative and add up to the reports: it is biased.
        unit: the unit of the estimate.
        group: the people that it is about.
        at: the point at which a function is evaluated: a distribution's edge, or a quantile's probability. For the
            beginning of texts it is the round that counted it.
        p_value: how often noise alone gives as large a count if nobody has the category; None if that is not tested.
        significant: whether the count is larger than that noise explains; None if that is not tested.
    """

    statistic: str
    estimate: Estimate | None
    category: str | None = None
    consistent: float | None = None
    unit: str = ""
    group: Group = ()
    at: float | None = None
    p_value: float | None = None
    significant: bool | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The key that identifies it among the rows of its query: the statistic, and a text of what it is about."""
        # Names and categories are printable, so none of them contains the separator.
        about = [f"{attribute}={value}" for attribute, value in self.group]
        about += [] if self.at is None else [repr(self.at)]
        about += [] if self.category is None else [self.category]
        return self.statistic, _SEPARATOR.join(about) if about else None


_SEPARATOR = "\x1f"


def key_in(group: Group, key: tuple[str, str | None]) -> tuple[str, str | None]:
    """Return the key of a group's row, given the key of the same row without a group."""
    statistic, about = key
    member = [f"{attribute}={value}" for attribute, value in group]
    return statistic, _SEPARATOR.join([*member, *([] if about is None else [about])]) or None


@dataclass(frozen=True)
class Estimates:
    """A query's rows.

    Attributes:
        kind: the kind of the question.
        rows: the statistics.
        unit: the unit of the question.
        clipped_to: the range to which values were clipped before they were counted, if they were.
        notes: sentences about all rows, such as the error rate of a selection.
        table: the table from which answers are decoded later, from candidates (`queries.texts.lookup`).
    """

    kind: str
    rows: tuple[Row, ...]
    unit: str = ""
    clipped_to: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    table: bytes = b""


Truth = Mapping[tuple[str, str | None], float]
"""True values by `Row.key`, if the answers themselves are known: in a demo or a simulation."""
