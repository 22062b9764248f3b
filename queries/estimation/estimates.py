"""A query's published numbers, each with the name of its statistic, in the same form for every kind of question.

This module does not need numpy, so that programs that only read results import little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Group = tuple[tuple[str, str], ...]
"""The people a row is about, as attributes and their values: (("region", "north"),). Empty means everybody."""


BEGINNING = "beginning"
"""The statistic of how many people have a longer text that begins so."""


Interval = Callable[[float], tuple[float, float]]
"""From the probability with which an interval may miss the true value to its ends."""

LEVEL = 0.95
"""The coverage probability of an interval, or of a whole band."""

SHOWN_COUNTS = 20
"""How many counts of a query are printed or drawn, the largest ones. Files, and tables of pages, have all of them."""

_UNORDERED = frozenset({"histogram", "text", "top"})
"""Kinds of questions whose smaller counts may be left out: their categories have no order and no groups."""


def may_be_left_out(kind: str | None, statistic: str) -> bool:
    """Return whether a number of that kind of question is a count that is left out if there are many larger ones."""
    return kind in _UNORDERED and statistic == "count"


def about_left_out(counts: int) -> str:
    """Return what to say below a table that shows the largest of so many counts."""
    return f"the largest {SHOWN_COUNTS} of {counts:,} counts; --all-counts prints the others too"


@dataclass(frozen=True)
class Estimate:
    """An estimate, the standard deviation of the privacy noise on it, and its 95 % interval.

    The value of a count or a sum is unbiased: it may be negative, and outside its interval, which has possible values
    only. A ratio, such as a mean of those who answered if their number is an estimate, is biased where few answer.

    `standard_error` is None for a statistic that has an interval and no standard error, such as a quantile.
    `simultaneous` is the interval of a band: with a probability of 95 %, all of the query's intervals of the band cover
    their true values at once. `interval` returns intervals of other levels, until a query's band is computed; it is
    None for a number that is known.
    """

    value: float
    standard_error: float | None
    lower: float
    upper: float
    simultaneous: tuple[float, float] | None = None
    interval: Interval | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, value: float, standard_error: float, interval: Interval) -> Estimate:
        """Return an estimate with its 95 % interval."""
        return cls(value, standard_error, *interval(1 - LEVEL), interval=interval)

    @classmethod
    def known(cls, value: float) -> Estimate:
        """Return a number without noise."""
        return cls(value, 0.0, value, value)

    def mapped(self, offset: float, factor: float) -> Estimate:
        """Return the estimate of offset + factor·(the estimated number)."""

        def ends(first: float, second: float) -> tuple[float, float]:
            low, high = offset + factor * first, offset + factor * second
            return (low, high) if factor >= 0 else (high, low)

        value, error, interval = offset + factor * self.value, abs(factor) * (self.standard_error or 0.0), self.interval
        if interval is None:
            return Estimate(value, error, *ends(self.lower, self.upper))
        return Estimate.of(value, error, lambda rate: ends(*interval(rate)))


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
