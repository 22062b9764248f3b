"""Rows by the name of their statistic, for tests that know what they asked."""

from __future__ import annotations

from hubbub.queries.estimation.estimates import Estimate, Estimates, Row


def row(estimates: Estimates | None, statistic: str, category: str | None = None) -> Row:
    """The one row of a statistic."""
    assert estimates is not None
    (found,) = (row for row in estimates.rows if (row.statistic, row.category) == (statistic, category))
    return found


def number(estimates: Estimates | None, statistic: str, category: str | None = None) -> Estimate:
    """The number of a statistic that has one."""
    found = row(estimates, statistic, category).estimate
    assert found is not None
    return found


def counts(estimates: Estimates | None) -> list[Estimate]:
    """A histogram's counts, in the order of its categories."""
    assert estimates is not None
    return [row.estimate for row in estimates.rows if row.statistic == "count" and row.estimate is not None]


def consistent(estimates: Estimates | None) -> list[float]:
    """A histogram's consistent counts, in the order of its categories."""
    assert estimates is not None
    return [row.consistent for row in estimates.rows if row.statistic == "count" and row.consistent is not None]
