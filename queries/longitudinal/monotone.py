"""The counts of a state that changes once, which never falls, projected on series that never fall either.

Where each state changes at most once, from no to yes, the true counts f rise from 0 on. Of the estimates y so far the
nearest such series P(y) is published beside them: that of least squares, found by pooling neighbours that fall. It is
biased, and never farther from the truth: for every such f, whatever y is,

    Σ_t (P(y)_t − f_t)² ≤ Σ_t (y_t − f_t)²   and   max_t |P(y)_t − f_t| ≤ max_t |y_t − f_t|,

since a projection on a convex set brings nothing farther from a member of it, and since P rises with each y_t and moves
by c where all of y do. By the same, where y − w ≤ f ≤ y + w in all rounds, P(y − w) ≤ f ≤ P(y + w): so a band of the
estimates, which holds in all rounds at once, is one of the series. (Robertson, Wright and Dykstra, 1988, ch. 1.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hubbub.queries.estimation.bands import half_width
from hubbub.queries.estimation.estimates import Estimate, Row


def rising(values: Sequence[float]) -> list[float]:
    """Return the nearest series, in least squares, that never falls and is nowhere below 0."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            before, places = pools.pop()
            total, count = total + before, count + places
        pools.append((total, count))
    # The nearest one from 0 on is the nearest of all, cut at 0.
    return [max(total / count, 0.0) for total, count in pools for _ in range(count)]


def rising_rows(counts: Mapping[int, Estimate]) -> tuple[Row, ...]:
    """Return the series of the counts so far, by round, with the intervals of a band; it has no standard errors."""
    found = [counts[number] for number in sorted(counts)]
    width = half_width(len(found))
    values, errors = [each.value for each in found], [width * (each.standard_error or 0.0) for each in found]
    below, above = (
        rising([value + side * error for value, error in zip(values, errors, strict=True)]) for side in (-1, 1)
    )
    series = zip(sorted(counts), rising(values), below, above, strict=True)
    return tuple(
        Row("smoothed_count", Estimate(value, None, lower, upper, (lower, upper)), f"round {number}")
        for number, value, lower, upper in series
    )
