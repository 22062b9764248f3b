"""Computes simultaneous confidence intervals (bands), and inverts a band into intervals of quantiles.

Šidák's inequality: for jointly normal errors of any correlation, P(all |Z_i| ≤ z) ≥ Π P(|Z_i| ≤ z). So with
z = Φ⁻¹((1 + 0.95^(1/m))/2), all m intervals estimate ± z·(standard error) cover their values at once with a probability
of at least 95 %. This is as accurate as the coverage of one interval: estimates are sums over all reports, and nearly
normal if each symbol is expected some dozens of times. If errors are strongly correlated, the probability is higher.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from statistics import NormalDist

from hubbub.queries.estimation.estimates import Estimate, Estimates, Row

LEVEL = 0.95
"""The coverage probability of an interval, or of a whole band."""

Z_95 = 1.96
"""Half-width of a 95 % interval of the normal law, in standard errors."""


def half_width(intervals: int) -> float:
    """Return the half-width, in standard errors, of so many simultaneous intervals (Šidák)."""
    if intervals <= 1:
        return Z_95
    return NormalDist().inv_cdf((1 + LEVEL ** (1 / intervals)) / 2)


def with_bands(estimates: Estimates) -> Estimates:
    """Return a query's estimates, each with a simultaneous interval over all rows that have an error.

    A quantile's interval is the inversion of its group's band of the cumulative distribution. It does not count as a
    further interval: if the band covers, so do all quantiles' intervals. A row that has an interval already keeps it.
    """
    counted = sum(row.estimate is not None and bool(row.estimate.standard_error) for row in estimates.rows)
    width = half_width(counted)
    rows = tuple(banded(row, width) for row in estimates.rows)
    if estimates.clipped_to is None or all(row.statistic != QUANTILE for row in rows):
        return replace(estimates, rows=rows)
    span = estimates.clipped_to
    return replace(estimates, rows=tuple(_inverted(row, rows, span) for row in rows))


CDF = "cdf"
"""The statistic of the share of people up to an edge."""

QUANTILE = "quantile"
"""The statistic of the value such that a given share of people is at or below it."""


def banded(row: Row, width: float) -> Row:
    """Return a row with the interval of a band of that half-width, in standard errors, unless it has one."""
    estimate = row.estimate
    if estimate is None or estimate.standard_error is None or estimate.simultaneous is not None:
        return row
    return replace(row, estimate=in_band(estimate, width))


def in_band(estimate: Estimate, width: float) -> Estimate:
    """Return an estimate with the interval of a band of that half-width, in standard errors."""
    reach = width * (estimate.standard_error or 0.0)
    return replace(estimate, simultaneous=(estimate.value - reach, estimate.value + reach))


def _inverted(row: Row, rows: Sequence[Row], span: tuple[float, float]) -> Row:
    if row.statistic != QUANTILE or row.estimate is None or row.at is None:
        return row
    edges, band = [span[0]], []
    for other in rows:
        if (other.statistic, other.group) == (CDF, row.group) and other.estimate and other.at is not None:
            edges.append(other.at)
            band.append(other.estimate.simultaneous or (0.0, 1.0))
    ends = invert([*edges, span[1]], band, row.at)
    return replace(row, estimate=replace(row.estimate, simultaneous=ends))


def invert(edges: Sequence[float], band: Sequence[tuple[float, float]], probability: float) -> tuple[float, float]:
    """Return the ends of a quantile's interval: `band` has the ends of F at every edge but the first and the last.

    The quantile is the least x with F(x) ≥ p. If the whole band covers F, then F(e) < p at every edge whose upper end
    is below p, so the quantile is above the largest such edge. And F(e) ≥ p at every edge whose lower end reaches p, so
    the quantile is at most the smallest such edge. Nothing is assumed about the distribution between two edges.
    """
    # F rises. So if the band covers F, its lower ends may be raised to those before, and its upper ends lowered to
    # those after. If they cross, the band does not cover F, and the wider of both readings is returned.
    lower = list(accumulate((ends[0] for ends in band), max))
    upper = list(accumulate((ends[1] for ends in reversed(band)), min))[::-1]
    first = bisect_left(upper, probability)
    last = bisect_left(lower, probability) + 1
    return edges[min(first, last - 1)], edges[max(last, first + 1)]


def interpolated(edges: Sequence[float], shares: Sequence[float], probability: float) -> float:
    """Return the quantile of rising `shares` at `edges` (0 at the first, 1 at the last), linear between two edges."""
    after = min(max(bisect_left(shares, probability), 1), len(edges) - 1)
    low, high = shares[after - 1], shares[after]
    part = (probability - low) / (high - low) if high > low else 1.0
    return edges[after - 1] + part * (edges[after] - edges[after - 1])


def within(value: float, ends: tuple[float, float]) -> Estimate:
    """Return an estimate with that interval and without a standard error; a value outside is moved to its end."""
    return Estimate(min(max(value, ends[0]), ends[1]), None, *ends)
