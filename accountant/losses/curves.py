"""Builds pairs from upper bounds on δ(ε), for blankets that are not walks: of RAPPOR, Laplace noise and finite laws.

The blanket's pair dominates a batch's views for every two inputs, and is symmetric (`divergence.blankets`); if no two
inputs are worst at every ε, the largest of their curves is that of such a pair (`divergence.finite`). Its curve δ(ε) is
convex in e^ε, so it is below the lower convex hull of upper bounds at single points, and that hull is itself the curve
of a pair (as for k = 2, `envelope`). So several draws of a report with many values need no lattice: each point of the
curve is one contour integral.

From below: by convexity the curve is also above every line through two of its points, outside of them. With a lower end
at the nearer point and an upper end at the farther one, such a line surely is below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.envelope import grid_from_curve, lower_hull
from hubbub.accountant.losses.grid import LossGrid, grid_step, merge_ratios

PER_DEVIATION = 16
"""Points of the curve per standard deviation of the loss: chords add 1/(6·16²) to its variance, 0.03 % of ε."""

FAR = 8
"""Beyond this many deviations the distance of points is doubled."""

PRECISION = 0.03
"""Smoothing of each point of the curve: about a thousandth of δ at relevant ε."""

LINES = 4
"""Fewest points of a curve that give a bound from below."""


class Evaluated(Protocol):
    """A symmetric pair, or the largest of several, known by its δ(ε) at any ε."""

    def variance(self) -> float:
        """Return the variance of one draw of its sum at ε = 0, the largest of several."""

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of an upper bound of δ(`epsilon`) of `people` reports; -inf if that is 0."""

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of a lower bound of it."""


@dataclass(frozen=True)
class Curve:
    """Upper ends of δ at e^(places·step), falling; the last one counts as an infinite loss."""

    points: Evaluated
    people: int
    places: np.ndarray[tuple[int], np.dtype[np.int64]]
    upper: Array
    step: float

    def lower(self) -> Array:
        """Return lower ends of δ at the same places."""
        epsilons = (place * self.step for place in self.places.tolist())
        seen = (self.points.log_lower(self.people, epsilon, PRECISION) for epsilon in epsilons)
        return np.array([math.exp(each) if each > -700 else 0.0 for each in seen])


def blanket_curve(points: Evaluated, epsilon_local: float, people: int, log_tail: float) -> Curve:
    """Evaluate δ(ε) of the blanket's pair from ε = 0 until it is below e^−log_tail, at the local ε at the latest."""
    # With few people the deviation can exceed the local ε, the end of the curve; then that sets the step.
    local = grid_step(epsilon_local, 8 * PER_DEVIATION)
    step = min(grid_step(math.sqrt(points.variance() / people), PER_DEVIATION), local)

    def evaluate(place: int) -> float:
        if place * step >= epsilon_local:
            return -math.inf
        return points.log_upper(people, place * step, PRECISION)

    # δ(ε) is 0 from the local ε on, so the loop ends there at the latest.
    places, seen = [0], [evaluate(0)]
    while seen[-1] > -log_tail:
        places.append(places[-1] + (1 if places[-1] < FAR * PER_DEVIATION else 2))
        seen.append(evaluate(places[-1]))
    upper = [min(1.0, math.exp(each) * (1 + 1e-14)) for each in seen]
    return Curve(points, people, np.array(places), np.array(upper), step)


def grid_above(curve: Curve) -> LossGrid:
    """Return losses of a symmetric pair whose curve is above the true one."""
    return grid_from_curve(curve.places, curve.upper, curve.step)


def grid_below(curve: Curve) -> LossGrid:
    """Return losses of a symmetric pair whose curve is below the true one.

    A line needs two points on its side of a third one. A curve of fewer points is below the resolved δ from its first
    point on; then nothing is shown from below, and all mass is at ratio 1.
    """
    if len(curve.places) < LINES:
        return merge_ratios(np.ones(1), np.zeros(1))
    x, y = _points_below(np.expm1(curve.places * curve.step), curve)
    corners = lower_hull(x, y)
    slopes = -np.diff(y[corners]) / np.diff(x[corners])
    q = np.maximum(np.append(slopes[:-1] - slopes[1:], slopes[-1:]), 0.0)
    ratio = 1 + x[corners[1:]]
    total = float(q @ (1 + ratio))
    # Laws have mass 1 at most. Scaling down lowers the curve, which is safe here.
    q = q / max(1.0, total)
    p, loss, even = q * ratio, np.log(ratio), max(0.0, 1 - total)
    return merge_ratios(np.concatenate([p, q, [even]]), np.concatenate([loss, -loss, [0.0]]))


def _points_below(x: Array, curve: Curve) -> tuple[Array, Array]:
    """Return points, x = e^ε − 1, whose lower convex hull is below the curve.

    Between two of its points the curve is above the line through the two before, and above the line through the two
    after. The larger of these bends upwards only at their intersection, so the hull touches only those points and the
    ends.
    """
    low, high = curve.lower(), curve.upper
    falls = np.diff(x)
    before = -np.maximum(high[:-1] - low[1:], 0.0) / falls
    after = -np.maximum(low[:-1] - high[1:], 0.0) / falls
    left, right = before[:-2], after[2:]
    start, end = slice(1, -2), slice(2, -1)
    apart = np.minimum(left - right, -1e-300)
    meet = (low[end] - low[start] + left * x[start] - right * x[end]) / apart
    place = np.clip(meet, x[start], x[end])
    height = np.minimum(
        np.maximum(low[start] + left * (place - x[start]), 0.0), np.maximum(low[end] + right * (place - x[end]), 0.0)
    )
    first = low[1] + after[1] * (x[0] - x[1])
    return np.concatenate([x[:1], place, x[-1:]]), np.concatenate([[max(first, 0.0)], height, [0.0]])
