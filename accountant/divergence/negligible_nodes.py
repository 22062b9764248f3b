"""Bounds the nodes of the contour integral at which the integrand is negligible, which are most of them.

Let f(t) = Σ q_j e^{itd_j} be the transform of a tilted draw and V its variance. As |f|² = Σ q_j q_k cos(t(d_j − d_k)),
its slope at t is at most Σ q_j q_k |d_j − d_k|²·t = 2Vt in size. And |f|, which no shift of the draws changes, has a
slope of at most D = Σ q_j |d_j − x| for every x. So one value, at the middle c of [a, b], gives on all of [a, b]

    |f|² ≤ |f(c)|² + V·(b² − c²)    and    |f| ≤ |f(c)| + D·(b − a)/2.

If the n-th power of that, times the smoothing at a, is at most e^−40.5, none of the nodes in [a, b] is evaluated, and
each is charged with it. Otherwise the interval is cut, down to a few nodes, which are evaluated.
Near 0, |f(c)|² is about 1 − Vc², and the first bound excludes all nodes except those with a relevant value; farther out
the second one excludes steps of a tenth of V/D. So a hundred values replace some thousand nodes. If draws are on a
lattice |f| returns to 1: there no bound is small, and the nodes are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.tilted import TiltedDraw

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

QUIET = -40.5
"""Log of the size, relative to the integrand's at t = 0, up to which nodes are charged and not evaluated."""

_FIRST, _PIECES = 64, 8
"""Number of intervals into which all nodes are cut first, and then each interval that is not excluded."""

_FEW = 32
"""Most nodes of an interval that is not cut further."""

_ROUNDED = 1e-9
"""Charge for the rounding of a logarithm of about −40 and of its parts."""


@dataclass(frozen=True)
class Nodes:
    """The nodes 0, step, 2·step, … of one integral, `last` + 1 of them, and the smoothing h of its integrand."""

    step: float
    last: int
    smoothing: float

    def at(self, places: Whole) -> Array:
        """Return the positions of these nodes."""
        return places.astype(np.float64) * self.step


def loud(draw: TiltedDraw, draws: int, nodes: Nodes, tilt: float) -> tuple[Whole, float]:
    """Return the nodes to evaluate, in their order, and a bound on the sum of the others, t and −t together.

    It bounds Σ 2|F(t)|·(1/(θ² + t²) + h²), F the n-th power times e^{−h²t²/2}.
    """
    found, charge = [np.zeros(1, dtype=np.int64)], 0.0
    first, last = _cut(np.array([1]), np.array([nodes.last]), _FIRST)
    while first.size:
        size = log_size(draw, draws, nodes.at(first), nodes.at(last), nodes.smoothing)
        still = size <= QUIET
        near, count = nodes.at(first[still]), (last - first + 1)[still]
        charge += float(count @ (2 * np.exp(size[still]) * (1 / (tilt**2 + near**2) + nodes.smoothing**2)))
        few = ~still & (last - first < _FEW)
        found.append(_between(first[few], last[few]))
        open_still = ~still & ~few
        first, last = _cut(first[open_still], last[open_still], _PIECES)
    return np.sort(np.concatenate(found)), charge * (1 + _ROUNDED)


def _cut(first: Whole, last: Whole, pieces: int) -> tuple[Whole, Whole]:
    """Return the intervals, each cut into so many pieces; pieces without nodes are left out."""
    edges = first[:, None] + (last - first + 1)[:, None] * np.arange(pieces + 1) // pieces
    low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel() - 1
    return low[low <= high], high[low <= high]


def _between(first: Whole, last: Whole) -> Whole:
    """Return all whole numbers of the intervals."""
    count = last - first + 1
    places: Whole = np.arange(int(count.sum())) + np.repeat(first - (np.cumsum(count) - count), count)
    return places


def log_size(draw: TiltedDraw, draws: int, near: Array, far: Array, smoothing: float) -> Array:
    """Return numbers never below ln |F(t)| on each interval of t, from `near` to `far`, both at least 0."""
    middle = (near + far) / 2
    # A little longer than the interval, to include the rounding of its ends.
    half = (far - near) / 2 * (1 + _ROUNDED) + _ROUNDED * middle * 1e-3
    real, imaginary = draw.transform(middle)
    # |f(c)|² − 1, with what it may be wrong by.
    here = np.maximum(2 * real + real**2 + imaginary**2, -1.0) + draw.doubt(middle)
    growing = here + draw.variance * half * (2 * middle + half)
    sliding = (np.sqrt(1 + here) + draw.deviation * half) ** 2 - 1 + draw.doubt(0.0)
    excess = np.minimum(np.minimum(growing, sliding), 0.0)
    left: Array = draws / 2 * np.log1p(excess) - (smoothing * near) ** 2 / 2
    return left * (1 - _ROUNDED)
