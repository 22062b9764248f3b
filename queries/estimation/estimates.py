"""A query's published numbers, each with the name of its statistic, the same for every kind of question.

Nothing here needs numpy, so that programs that only read results import little.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Group = tuple[tuple[str, str], ...]
"""Who a row is about, as attributes and their values: (("region", "north"),). Everybody, where it is empty."""


BEGINNING = "beginning"
"""The statistic of how many hold a longer text that begins so."""


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate, the standard deviation of the privacy noise on it, and its 95 % interval.

    `standard_error` is None for a statistic that has an interval and no standard error, such as a quantile.
    `simultaneous` is the interval of a band: with a chance of 95 %, all of the query's hold at once.
    """

    value: float
    standard_error: float | None
    lower: float
    upper: float
    simultaneous: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """One statistic of a query: its name, and the category it is about where there is one.

    `estimate` is None where the statistic has no value, such as the mean where nobody can be said to have answered.
    `consistent` is a count's projection on counts that are not negative and add up to the reports: it is biased.
    `at` is where a function is evaluated: a distribution's edge, or a quantile's probability; of the beginning of texts
    it is the round that counted it. `significant` says of a count whether it is more than noise can be where nobody
    holds the category, and `p_value` how often noise alone is as large; both are None where that is not asked.
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
        """What tells it from the other rows of its query: the statistic, and a text of all that it is about."""
        # Names and categories are printable, so the separator is in none of them.
        about = [f"{attribute}={value}" for attribute, value in self.group]
        about += [] if self.at is None else [repr(self.at)]
        about += [] if self.category is None else [self.category]
        return self.statistic, _SEPARATOR.join(about) if about else None


_SEPARATOR = "\x1f"


def key_in(group: Group, key: tuple[str, str | None]) -> tuple[str, str | None]:
    """Return the key of a group's row, given that of the same row without a group."""
    statistic, about = key
    member = [f"{attribute}={value}" for attribute, value in group]
    return statistic, _SEPARATOR.join([*member, *([] if about is None else [about])]) or None


@dataclass(frozen=True)
class Estimates:
    """A query's rows. Where values were clipped to a range before they were counted, the range is `clipped_to`.

    Where answers are decoded later, from candidates, `table` is what they are decoded from (`queries.texts.lookup`).
    `notes` are sentences about all of them, such as the error rate of a selection.
    """

    kind: str
    rows: tuple[Row, ...]
    unit: str = ""
    clipped_to: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    table: bytes = b""


Truth = Mapping[tuple[str, str | None], float]
"""True values by `Row.key`, where the answers themselves are known: in a demo or a simulation."""
