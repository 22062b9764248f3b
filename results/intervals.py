"""Widens the 95 % intervals of rows to other levels, and makes bands that hold at once.

A published interval at 95 % has, on each side, a half-width h. That of a near interval is z·e + r·(z² + 2)/6, with the
standard error e, the reach r of one report, and z = 1.96 (`queries.estimation.bands`). So r·(z² + 2)/6 = h − z·e, and
the half-width at another level follows exactly. Intervals of counts by their exact law are treated alike: their tails
are between those of a normal and of a Poisson law, which this form is for. Where an interval was cut to possible
values, h is less than z·e, and the half-width is z·e at the other level, as if it had not been cut.

If each of m intervals misses with a probability of at most α/m, one or more miss with at most α, however they depend on
each other (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.errors import UsageError
from hubbub.queries.estimation.bands import half_width, rate_of
from hubbub.queries.estimation.estimates import LEVEL
from hubbub.results.published_row import PublishedRow

Z_USUAL = half_width(1 - LEVEL)
"""Half-width, in standard errors, of the normal law's interval at the level of published intervals."""


def halves(row: PublishedRow, rate: float) -> tuple[float, float]:
    """Return the half-widths below and above a row's estimate of an interval that misses with probability `rate`.

    They are in the row's unit, and never less than those of the published interval if `rate` is at most 5 %. A row
    without a standard error, such as a quantile, has its own half-widths, widened in proportion.

    Raises:
        UsageError: if the row has no number or no interval.
    """
    if row.estimate is None or row.lower is None or row.upper is None:
        raise UsageError(
            f"{row.query} in round {row.round} has no number ({row.reason or row.state}); choose another row"
        )
    z = half_width(rate)
    found = []
    for published in (row.estimate - row.lower, row.upper - row.estimate):
        if row.standard_error is None:
            found.append(max(published, 0.0) * z / Z_USUAL)
        else:
            further = max(published - Z_USUAL * row.standard_error, 0.0)
            found.append(z * row.standard_error + further * (z**2 + 2) / (Z_USUAL**2 + 2))
    return found[0], found[1]


def band(rows: Sequence[PublishedRow]) -> list[tuple[float, float]]:
    """Return an interval for each row; with a probability of 95 %, all of them hold at once.

    Raises:
        UsageError: if a row has no number.
    """
    rate = rate_of(len(rows))
    found = []
    for row in rows:
        below, above = halves(row, rate)
        value = row.estimate or 0.0
        found.append((value - below, value + above))
    return found
