"""Computes simultaneous confidence intervals (bands), and inverts a band into intervals of quantiles.

If each of m intervals misses its value with a probability of at most α/m, one or more of them miss with a probability
of at most α, however they depend on each other (Bonferroni). So a band has m intervals at α/m. It is as certain as one
interval at that level. Those of counts are exact (`count_law`), and others are near (`near_interval`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

from hubbub.queries.estimation.estimates import LEVEL, Estimate, Estimates, Row

Z_95 = 1.96
"""Half-width of a 95 % interval of the normal law, in standard errors."""


def rate_of(intervals: int) -> float:
    """Return the probability with which each of so many intervals of a band may miss."""
    return (1 - LEVEL) / max(intervals, 1)


@lru_cache(maxsize=256)
def half_width(rate: float) -> float:
    """Return the half-width z, in standard errors, of an interval of the normal law that misses at that rate."""
    return NormalDist().inv_cdf(1 - rate / 2)


def near_half_width(z: float, error: float, reach: float) -> float:
    """Return the half-width z·error + reach·(z² + 2)/6 of a near interval.

    The second part is how much further a Poisson law's upper quantile is than a normal law's, at most, at any mean
    (`tests/unit/queries/estimation/test_bands.py`). Of a sum of few random terms of at most `reach`, which no Poisson
    law is, the quantiles are hardly further. So where few reports are noise, the interval is wide, and where many are,
    it is normal. It is no bound: the standard error is an estimate.
    """
    return z * error + reach * (z**2 + 2) / 6


def near_interval(
    value: float, error: float, reach: float, within: tuple[float, float], rate: float
) -> tuple[float, float]:
    """Return a near interval around a sum over many reports, each of which moves it by at most `reach`.

    It has values `within` a range only.
    """
    half = near_half_width(half_width(rate), error, reach)
    low, high = (min(max(value + side * half, within[0]), within[1]) for side in (-1, 1))
    return low, high


def with_bands(estimates: Estimates) -> Estimates:
    """Return a query's estimates, each with a simultaneous interval over all rows that have an error.

    A quantile's interval is the inversion of its group's band of the cumulative distribution. It does not count as a
    further interval: if the band covers, so do all quantiles' intervals. A row that has an interval already keeps it.
    """
    counted = sum(row.estimate is not None and row.estimate.interval is not None for row in estimates.rows)
    rate = rate_of(counted)
    rows = tuple(banded(row, rate) for row in estimates.rows)
    if estimates.clipped_to is None or all(row.statistic != QUANTILE for row in rows):
        return replace(estimates, rows=rows)
    span = estimates.clipped_to
    return replace(estimates, rows=tuple(_inverted(row, rows, span) for row in rows))


CDF = "cdf"
"""The statistic of the share of people up to an edge."""

QUANTILE = "quantile"
"""The statistic of the value such that a given share of people is at or below it."""


def banded(row: Row, rate: float) -> Row:
    """Return a row with an interval that misses at that rate, as one of a band, unless it has one."""
    return row if row.estimate is None else replace(row, estimate=in_band(row.estimate, rate))


def in_band(estimate: Estimate, rate: float) -> Estimate:
    """Return an estimate with its interval of a band, which misses at that rate, unless it has one."""
    if estimate.standard_error is None or estimate.simultaneous is not None:
        return replace(estimate, interval=None)
    ends = (estimate.lower, estimate.upper) if estimate.interval is None else estimate.interval(rate)
    return replace(estimate, simultaneous=ends, interval=None)


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
