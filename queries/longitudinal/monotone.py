"""Projects the estimated counts of a state that changes once on series that never fall.

If each state changes at most once, from no to yes, the true counts f never fall, and start at 0 or above. The nearest
such series P(y) to the estimates y so far, in least squares, is published next to them. It is found by pooling
neighbors that fall. It is biased, and never farther from the truth: for every such f and every y,

    Σ_t (P(y)_t − f_t)² ≤ Σ_t (y_t − f_t)²   and   max_t |P(y)_t − f_t| ≤ max_t |y_t − f_t|.

The first is true because a projection on a convex set increases no distance to a member of the set. The second is true
because P rises with each y_t, and moves by c if all of y do. For the same reason, if y − w ≤ f ≤ y + w in all rounds,
then P(y − w) ≤ f ≤ P(y + w). So a band of the estimates that covers all rounds at once gives a band of the series.
(Robertson, Wright and Dykstra, 1988, ch. 1.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hubbub.queries.estimation.bands import half_width, rate_of
from hubbub.queries.estimation.estimates import Estimate, Row


def rising(values: Sequence[float]) -> list[float]:
    """Return the nearest series, in least squares, that never falls and is never below 0."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            before, places = pools.pop()
            total, count = total + before, count + places
        pools.append((total, count))
    # The nearest series that is never below 0 is the nearest rising one, clipped at 0.
    return [max(total / count, 0.0) for total, count in pools for _ in range(count)]


def rising_rows(counts: Mapping[int, Estimate]) -> tuple[Row, ...]:
    """Return the projected series of the counts so far, by round, with a band; it has no standard errors."""
    found = [counts[number] for number in sorted(counts)]
    width = half_width(rate_of(len(found)))
    values, errors = [each.value for each in found], [width * (each.standard_error or 0.0) for each in found]
    below, above = (
        rising([value + side * error for value, error in zip(values, errors, strict=True)]) for side in (-1, 1)
    )
    series = zip(sorted(counts), rising(values), below, above, strict=True)
    return tuple(
        Row("smoothed_count", Estimate(value, None, lower, upper, (lower, upper)), f"round {number}")
        for number, value, lower, upper in series
    )
