"""Bounds the nodes of the contour integral at which the integrand is negligible, which are most of them.

Let f(t) = Σ q_j e^{itd_j} be the transform of a tilted draw and V its variance. As |f|² = Σ q_j q_k cos(t(d_j − d_k)),
its slope at t is at most Σ q_j q_k |d_j − d_k|²·t = 2Vt in size. And |f|, which no shift of the draws changes, has a
slope of at most D = Σ q_j |d_j − x| for every x. So one value, at the middle c of [a, b], gives on all of [a, b]

    |f|² ≤ |f(c)|² + V·(b² − c²)    and    |f| ≤ |f(c)| + D·(b − a)/2.

If the n-th power of that, times the smoothing at a, is at most e^−40.5, none of the nodes in [a, b] is evaluated, and
each is charged with it. Otherwise the interval is cut, down to blocks of a few nodes, which are evaluated.
Near 0, |f(c)|² is about 1 − Vc², and the first bound excludes all nodes except those with a relevant value; farther out
the second one excludes steps of a tenth of V/D. So a hundred values replace some thousand nodes. If draws are on a
lattice |f| returns to 1: there no bound is small, and the nodes are evaluated.

All intervals of one length are evaluated at once. Their middles are the starts of some longer ones, each with the same
few offsets, so that there are few exponentials to compute (`TiltedDraw.transform`).
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

PIECES = 8
"""Number of intervals into which each interval that is not excluded is cut."""

BLOCK = 32
"""Nodes of an interval that is not cut further."""

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
    """Return the first nodes of the blocks to evaluate, in their order, and a bound on the sum of the other nodes.

    It bounds Σ 2|F(t)|·(1/(θ² + t²) + h²), t and −t together, F the n-th power times e^{−h²t²/2}. A block has `BLOCK`
    nodes, of which those beyond the last are to be left out.
    """
    length = BLOCK
    while length * PIECES <= nodes.last:
        length *= PIECES
    first, charge = np.zeros(1, dtype=np.int64), 0.0
    while True:
        places, half = np.arange(PIECES) * length, (length - 1) / 2 * nodes.step
        size = log_size(draw, draws, nodes.at(first), nodes.at(places) + half, half, nodes.smoothing).ravel()
        first = np.add.outer(first, places).ravel()
        near, count = nodes.at(first), np.clip(nodes.last + 1 - first, 0, length)
        # 0 is in the first block, which is never quiet: |F(0)| is 1.
        still = size <= QUIET
        each = 2 * np.exp(np.minimum(size, QUIET)) * (1 / (tilt**2 + near**2) + nodes.smoothing**2)
        charge += float(count[still] @ each[still])
        first = first[~still & (count > 0)]
        if length == BLOCK:
            return first, charge * (1 + _ROUNDED)
        length //= PIECES


def log_size(draw: TiltedDraw, draws: int, starts: Array, middles: Array, half: float, smoothing: float) -> Array:
    """Return numbers never below ln |F(t)| on intervals of t that reach `half` to either side, none below 0.

    Each has its middle at one of `starts` plus one of `middles`; shape (starts, middles).
    """
    middle = np.add.outer(starts, middles)
    near = np.maximum(middle - half, 0.0)
    # A little longer than the interval, to include the rounding of its ends.
    reach = half * (1 + _ROUNDED) + _ROUNDED * middle * 1e-3
    real, imaginary = draw.transform(starts, middles)
    # |f(c)|² − 1, with what it may be wrong by.
    here = np.maximum(2 * real + real**2 + imaginary**2, -1.0) + draw.doubt(middle)
    growing = here + draw.variance * reach * (2 * middle + reach)
    sliding = (np.sqrt(1 + here) + draw.deviation * reach) ** 2 - 1 + draw.doubt(0.0)
    excess = np.minimum(np.minimum(growing, sliding), 0.0)
    left: Array = draws / 2 * np.log1p(excess) - (smoothing * near) ** 2 / 2
    return left * (1 - _ROUNDED)
