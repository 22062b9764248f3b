"""Builds pairs from upper bounds on δ(ε), for blankets that are not walks: of RAPPOR, Laplace noise and finite laws.

The blanket's pair dominates a batch's views for every two inputs, and is symmetric (`divergence.blankets`); if no two
inputs are worst at every ε, the largest of their curves is that of such a pair (`divergence.finite`). Its curve δ(ε) is
convex in e^ε, so it is below the lower convex hull of upper bounds at single points, and that hull is itself the curve
of a pair (as for k = 2, `largest_curve`). So several draws of a report with many values need no lattice: each point of
the curve is one contour integral.

From below: by convexity the curve is also above every line through two of its points, outside of them. With a lower end
at the nearer point and an upper end at the farther one, such a line surely is below. That needs no symmetry: a pair
(P, Q) has one curve of P against Q, and one of Q against P (`grid_below`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.grid import LossGrid, Places, grid_step, lower_hull
from hubbub.accountant.losses.largest_curve import grid_from_curve
from hubbub.accountant.losses.tangents import atoms_below, both_sides

PER_DEVIATION = 18
"""Points of the curve per standard deviation of the loss: chords add 1/(6·18²) to its variance, 0.03 % of ε."""

STEPS = 64
"""Most steps per standard deviation: points are whole steps apart, as steps are powers of two and the deviation not."""

FAR = 64
"""From so many distances of points on their distance is this share of ε.

If hardly any report says anything, the local ε may be a million deviations away.
"""

USUAL, WIDEST = 3 / 8, 16
"""Beyond this share of the deviations that a single loss may reach, distances grow with the square of ε, up to ε/16.

The losses of two rounds or more seldom reach that far if their sum does not exceed what is stated: two of half of it
each are far likelier than one of all. The least favorable is two rounds, where chords then add up to 0.08 % to ε.
"""

PRECISION = 0.01
"""Smoothing of each point of the curve: about a ten-thousandth of δ at relevant ε."""

LINES = 4
"""Fewest points of a curve that give a bound from below."""

MOST_BITS, LEAST_BITS = 14, 1
"""Corners of a curve from below are multiples of its step over a power of two, if there are up to 2^14 of them."""


class Evaluated(Protocol):
    """A pair, or the largest of several, known by its δ(ε) at any ε."""

    def variance(self) -> float:
        """Return the variance of one draw of its sum at ε = 0, the largest of several."""

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of an upper bound of δ(`epsilon`) of `people` reports; -inf if that is 0."""

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of a lower bound of it."""


@dataclass(frozen=True)
class Curve:
    """Upper ends of δ at e^(places·step), falling; the last one counts as an infinite loss.

    `known` are lower ends at the same places, if they are known without asking the points.
    """

    points: Evaluated
    people: int
    places: Places
    upper: Array
    step: float
    known: Array | None = None

    def lower(self) -> Array:
        """Return lower ends of δ at the same places."""
        if self.known is not None:
            return self.known
        epsilons = (place * self.step for place in self.places.tolist())
        seen = (self.points.log_lower(self.people, epsilon, PRECISION) for epsilon in epsilons)
        return np.array([math.exp(each) if each > -700 else 0.0 for each in seen])


def blanket_curve(
    points: Evaluated, epsilon_local: float, people: int, log_tail: float, *, finely: bool = False
) -> Curve:
    """Evaluate δ(ε) of the blanket's pair from ε = 0 until it is below e^−log_tail, at the local ε at the latest.

    `finely` halves the distances of points: lines from below miss the curve by thrice as much as chords.
    """
    deviation = math.sqrt(points.variance() / people)
    # With few people the deviation can exceed the local ε, the end of the curve; then that sets the step.
    step = min(grid_step(deviation, STEPS), grid_step(epsilon_local, 8 * STEPS))
    apart = min(deviation / step, STEPS) / PER_DEVIATION
    # At the curve's end, δ = e^−log_tail, a Gaussian loss is sqrt(2·log_tail) deviations away.
    usual = USUAL * deviation * math.sqrt(2 * log_tail) / step

    def evaluate(loss: float) -> float:
        return points.log_upper(people, loss, PRECISION) if loss < epsilon_local else -math.inf

    # δ(ε) is 0 from the local ε on, so the loop ends there at the latest.
    places, seen, wanted = [0], [evaluate(0.0)], 0.0
    while seen[-1] > -log_tail:
        wanted += max(apart, wanted / FAR, min(apart * (wanted / usual) ** 2, wanted / WIDEST))
        places.append(max(round(wanted), places[-1] + 1))
        seen.append(evaluate(places[-1] * step))
    if finely:
        step /= 2
        middles = [(one + two, evaluate((one + two) * step)) for one, two in pairwise(places)]
        finer = sorted([*zip((2 * place for place in places), seen, strict=True), *middles])
        places, seen = [place for place, _ in finer], [height for _, height in finer]
    upper = [min(1.0, math.exp(each) * (1 + 1e-14)) for each in seen]
    return Curve(points, people, np.array(places), np.array(upper), step)


def symmetric_hull(curve: Curve) -> Curve:
    """Return the curve of a symmetric pair below the given upper ends, for a bound that need not be one itself.

    The true H(x), x = e^ε, is convex, and H(1/x) = 1 − 1/x + H(x)/x. So it is below the given ends and their mirror
    images, and below the lower convex hull of both; the hull has the same two properties. Its lower ends here are of
    this hull: they are below it by as much, relatively, as the given end there is uncertain.
    """
    # By x − 1, and heights as sums of parts above 0: differences of numbers near 1 would lose a small δ altogether.
    losses, ends = curve.places * curve.step, curve.upper
    back = losses[:0:-1]
    x, mirrored = np.expm1(losses), (np.expm1(-back), ends[:0:-1] * np.exp(-back) - np.expm1(-back))
    every, heights = (np.concatenate(each) for each in zip(mirrored, (x, ends), strict=True))
    corners = lower_hull(every, heights)
    # Rounding is far below what the ends themselves were raised by.
    hull = np.minimum(ends, np.interp(x, every[corners], heights[corners]) * (1 + 1e-13))
    return replace(curve, upper=hull, known=hull * (curve.lower() / np.maximum(ends, 1e-300)))


def grid_above(curve: Curve) -> LossGrid:
    """Return losses of a symmetric pair whose curve is above the true one."""
    return grid_from_curve(curve.places, curve.upper, curve.step)


def grid_below(forth: Curve, back: Curve | None = None) -> LossGrid:
    """Return losses of a pair whose curves are below the true ones: `forth` of P against Q, `back` of Q against P.

    Without `back` the pair is symmetric.

    A line needs two points on its side of a third one. A curve of fewer points is below the resolved δ from its first
    point on; then nothing is shown from below, and all mass is at ratio 1.
    """
    back = back or forth
    if min(len(forth.places), len(back.places)) < LINES:
        return LossGrid(min(forth.step, back.step), 0, np.ones(1), 0.0, pessimistic=False)
    step = min(max(_fine_step(forth), _fine_step(back)), forth.step, back.step)
    return both_sides(step, _atoms_below(forth, step), _atoms_below(back, step))


def _fine_step(curve: Curve) -> float:
    """Return a step for corners between the curve's points, of which each point is a multiple."""
    return curve.step * 2.0 ** -max(MOST_BITS - int(curve.places[-1]).bit_length(), LEAST_BITS)


def _atoms_below(curve: Curve, step: float) -> tuple[Places, Array]:
    """Return losses above 0 in units of `step`, and Q-masses, of atoms whose curve is below `curve`."""
    places, heights = _points_below(curve, step)
    corners, mass = atoms_below(heights, lambda kept: np.diff(np.expm1(step * places[kept])))
    return places[corners], mass


def _points_below(curve: Curve, step: float) -> tuple[Places, Array]:
    """Return places, e^(place·step) − 1 = x, and heights, whose lower convex hull in x is below the curve.

    Between two of its points the curve is above the line through the two before, and above the line through the two
    after. The larger of these bends upwards only at their intersection, so the hull touches only those points and the
    ends. Beyond the last point but one it is above the line through the two before, and above 0.

    An intersection is moved to the nearest place on the grid, onto the lower of the two lines. That is still safe. Let
    it be moved to the right, onto the line from the left. The corner before it is not above that line, as it is below
    the chord that the line extends; so the hull is not above the line up to the new corner. Beyond it the hull is below
    where it was. The other way is the mirror image. Without that, atoms between two places would all lose a part of a
    step, which adds up over rounds. But no height is below 0: raised to 0, a corner would be above the line. If that
    line is below 0 there, the corner is moved to the left, where both lines are above 0.
    """
    x, low, high = np.expm1(curve.places * curve.step), curve.lower(), curve.upper
    falls = np.diff(x)
    before = -np.maximum(high[:-1] - low[1:], 0.0) / falls
    after = -np.maximum(low[:-1] - high[1:], 0.0) / falls
    left, right = before[:-2], after[2:]
    start, stop = slice(1, -2), slice(2, -1)
    apart = np.minimum(left - right, -1e-300)
    meet = (low[stop] - low[start] + left * x[start] - right * x[stop]) / apart
    exact = np.log1p(np.clip(meet, x[start], x[stop])) / step
    places = np.rint(exact)
    # The line from the left falls below 0 behind an intersection at height 0: then only the other way is left.
    places = np.where(low[start] + left * (np.expm1(step * places) - x[start]) < 0, np.floor(exact), places)
    here = np.expm1(step * places)
    heights = np.minimum(low[start] + left * (here - x[start]), low[stop] + right * (here - x[stop]))
    # The curve may reach 0 before the last point, at the local ε: so the end is that line's own zero, or before it.
    zero = np.log1p(x[-2] - (low[-2] / before[-2] if before[-2] < 0 else 0.0)) * (1 - 1e-12) / step
    end = max(math.floor(zero), round(float(curve.places[-2] * curve.step / step)))
    first = low[1] + after[1] * (x[0] - x[1])
    every = np.concatenate([[0.0], places, [end]]).astype(np.int64)
    # Of several heights at one place the lowest is safe.
    found, which = np.unique(every, return_inverse=True)
    lowest = np.full(len(found), np.inf)
    np.minimum.at(lowest, which, np.maximum(np.concatenate([[first], heights, [0.0]]), 0.0))
    return found, lowest
