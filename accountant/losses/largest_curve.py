"""Computes, for kRR with k = 2, a pair from the largest δ(ε) over all inputs of the others, and the attack on zeros.

The truth is the maximum over the number of ones among the others. Dropping others never lowers a divergence
(balle-2019, Lemma A.2), which bounds blocks of these numbers; at each ε the largest block bounds δ(ε). Every true
hockey-stick curve is convex in e^ε, and so is below the *lower convex hull* of upper bounds at single points. The hull
is itself the curve of a pair, which therefore dominates every single one. Both directions are covered, since
exchanging ones and zeros exchanges P and Q; so the pair is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomial_shift import log_delta_ends, shift_at
from hubbub.accountant.divergence.binomials import DIRECT_POINTS, Array, Binomial
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.losses.atoms import TINY
from hubbub.accountant.losses.grid import LossGrid, Places, dot, grid_step, lower_hull, symmetric_grid
from hubbub.accountant.losses.tangents import tangent_grid_of
from hubbub.accountant.mechanisms import KRR

BLOCKS = 1024
"""Blocks of the numbers of ones: equally wide ones count 1/1024 fewer people each, which costs 0.05 % of ε."""

NARROWEST = 4096
"""The narrowest block is so small a share of all people: it costs 0.012 % of ε."""

APART = 1.0
"""The bound on δ at x deviations falls by at least about APART·s·x² from the last numbers of ones to the first.

s is the deviation of the loss. A wrong guess is safe: it only makes blocks wide where they are worst.
"""

ALIKE = 10_000
"""Expected wrong reports from which on all numbers of ones are equal to 1e-4, so that one round's hull is enough."""

MOST_POINTS = 2**26
"""Most points of a grid made of a curve: half a gigabyte. Randomizers of tasks have far fewer."""

PER_DEVIATION = 32
"""Points of the curve per standard deviation of the loss: chords add 1/(6·16²) to its variance at most, 0.03 % of ε."""

FAR = 5
"""From this many deviations on the distance of points is a fortieth of ε."""


@dataclass(frozen=True)
class BlockCurves:
    """Bounds on δ at ε = places·step: a row for each place, a column for each block of numbers of ones."""

    places: NDArray[np.int64]
    step: float
    values: Array


def two_rr_grid(mechanism: KRR, reports: int, dummies: int, log_tail: float) -> LossGrid:
    """Return losses of a symmetric pair that dominates one round of binary randomized response."""
    if (reports + dummies) * mechanism.other > ALIKE:
        return grid_from_curve(*_largest(mechanism, reports, dummies, log_tail))
    curves = block_curves(mechanism, reports, dummies, log_tail)
    return grid_from_curve(curves.places, curves.values.max(axis=1), curves.step)


@lru_cache(maxsize=8)
def block_curves(mechanism: KRR, reports: int, dummies: int, log_tail: float) -> BlockCurves:
    """Evaluate δ of every block until all are below e^−log_tail."""
    step = _curve_step(mechanism, reports + dummies)
    edges = np.unique(np.rint(np.linspace(0, reports, min(BLOCKS, reports) + 1)))
    places, values = _until_small(lambda epsilon: _blocks(mechanism, edges, dummies, epsilon), step, log_tail)
    return BlockCurves(places, step, np.array(values))


def _until_small(bound: Callable[[float], Array], step: float, log_tail: float) -> tuple[Places, list[Array]]:
    """Ask `bound` at places that rise from 0, until all its values are below e^−log_tail."""
    places, values = [0], [bound(0.0)]
    while values[-1].max() > math.exp(-log_tail):
        here = places[-1]
        places.append(here + (1 if here < FAR * PER_DEVIATION else here // (8 * FAR)))
        values.append(bound(places[-1] * step))
    return np.array(places), values


def _largest(mechanism: KRR, reports: int, dummies: int, log_tail: float) -> tuple[Places, Array, float]:
    """Return places, the largest δ of all blocks at each, and the step. Each place has blocks of its own.

    Any blocks that cover all numbers of ones give a bound; it is looser by the people that the worst block leaves out.
    Far out, δ falls from the last numbers of ones to the first, and blocks may be wider as they are farther from the
    last: so many people can be left out as δ has fallen. Near ε = 0 all numbers are alike, and all blocks equally wide.
    """
    step, spread = _curve_step(mechanism, reports + dummies), _spread(mechanism, reports + dummies)

    def bound(epsilon: float) -> Array:
        return _blocks(mechanism, _edges(reports, spread, epsilon / spread), dummies, epsilon)

    places, values = _until_small(bound, step, log_tail)
    return places, np.array([each.max() for each in values]), step


def _edges(reports: int, spread: float, away: float) -> Array:
    """Return the first numbers of ones of all blocks, and `reports`, for an ε that is `away` deviations.

    δ among so many people fewer is larger by a relative (1 + x²)/2 times their share, x = `away`. So a block that
    begins a share y from the last may be wider by growth·y, growth = 2·APART·s·x²/(1 + x²).
    """
    growth = min(2 * APART * spread * away**2 / (1 + away**2) + 1e-9, 0.1)
    most = 2 * BLOCKS if away < 1 else BLOCKS
    narrowest = max(growth / math.expm1(most * growth), 1 / NARROWEST)
    count = math.ceil(math.log1p(growth / narrowest) / growth)
    shares = np.expm1(growth * np.arange(count + 1)) / math.expm1(growth * count)
    return np.unique(np.concatenate([[0.0], np.floor(reports * (1 - shares)), [float(reports)]]))


def _spread(mechanism: KRR, people: int) -> float:
    other = float(mechanism.other)
    return (1 - 2 * other) / math.sqrt(people * other * (1 - other))


def _curve_step(mechanism: KRR, people: int) -> float:
    spread = _spread(mechanism, people)
    return min(grid_step(spread, PER_DEVIATION), grid_step(mechanism.epsilon_local, 4 * PER_DEVIATION))


def _blocks(mechanism: KRR, edges: Array, dummies: int, epsilon: float) -> Array:
    """Return a bound on δ at `epsilon` for each block of the others' numbers of ones; 0 from the local ε on."""
    shift = shift_at(mechanism, epsilon, dummies)
    if shift is None:
        return np.zeros(len(edges) - 1)
    # A block runs from edges[i] to edges[i+1] − 1 ones: edges[i] ones and reports − edges[i+1] zeros are certain.
    _, upper = log_delta_ends(shift, edges[-1] - edges[1:], edges[:-1])
    return np.minimum(1.0, np.exp(upper) * (1 + 1e-14))


def grid_from_curve(places: Places, values: Array, step: float) -> LossGrid:
    """Return the symmetric pair whose curve is the lower convex hull of `values` at e^(places·step), and their mirror.

    `places` rise from 0. By symmetry δ(0) is at most the chord between any point and its mirror image, which is
    (e^ε − 1 + 2δ(ε))/(e^ε + 1).
    """
    above = np.expm1(places * step)
    values = values.copy()
    values[0] = min([values[0], *((above[1:] + 2 * values[1:]) / (above[1:] + 2))])
    corners = lower_hull(above, values)
    slopes = -np.diff(values[corners]) / np.diff(above[corners])
    # The curve is Σ qᵢ(xᵢ − x)₊, so the Q-mass at a corner is its change of slope, and the P-mass xᵢ times that.
    # The curve's value at its last point is P-mass at an infinite loss.
    q = np.append(slopes[:-1] - slopes[1:], slopes[-1:])
    points = int(places[corners[-1]]) + 1
    if points > MOST_POINTS:
        raise AccountingError(
            f"losses need a grid of {points} points, and at most {MOST_POINTS} are computed; use a randomizer whose "
            "probabilities differ by more, compared with its local epsilon"
        )
    half = np.zeros(points)
    half[places[corners[1:]]] = np.maximum(q, 0.0) * (1 + above[corners[1:]])
    infinite = float(values[-1])
    mirrored = dot(half, 1 + np.exp(-step * np.arange(len(half))))
    # The rest of P's mass is put at ratio 1, where it adds to no δ(ε) with ε ≥ 0.
    half[0] = max(0.0, 1 - infinite - mirrored)
    return symmetric_grid(half, step, infinite)


def zeros_grid(mechanism: KRR, reports: int, log_tail: float) -> LossGrid:
    """Return losses that an attack reaches if all others have 0: N ~ B(n, p), with a likelihood linear in N.

    The losses are those of the zero against the one: the heavier tail.
    """
    # The zero's law has the masses `first`, the one's has r times as much.
    first, gain, ratio = zeros_law(mechanism, reports, log_tail)
    first, gain, ratio = (each[first > TINY] for each in (first, gain, ratio))
    more, less = gain > 0, gain < 0
    second = first * ratio
    return tangent_grid_of((second[less], (-gain * first)[less]), (first[more], (gain * first)[more]))


def zeros_law(mechanism: KRR, reports: int, log_tail: float) -> tuple[Array, Array, Array]:
    """Return masses of N ~ B(n, p), p = γ/2, all with 0, and the likelihood ratio r of N if one has 1: r − 1, r.

    That law has one B(1, 1−p) among them, so r = (N(1−p)/p + (n−N)p/(1−p))/n. Bins of N are merged, which keeps both
    masses. Both r − 1 and r have a small relative error, r even near 0.
    """
    law = Binomial(reports, mechanism.other)
    low, high = law.window(log_tail)
    step = max(1, (high - low) // (4 * DIRECT_POINTS) + 1)
    edges = low + step * np.arange((high - low) // step + 2)
    q, moment = law.bins(edges)
    seen = q > 0
    count = edges[:-1][seen] + moment[seen] / q[seen]
    more, less = mechanism.likelihood_ratio, 1 / mechanism.likelihood_ratio
    gain = (count * float(more - 1) + (reports - count) * float(less - 1)) / reports
    ratio = (count * float(more) + (reports - count) * float(less)) / reports
    return q[seen], gain, ratio
