"""Checks if two nodes whose values differ by one cover a node whose values differ by two, −1 against +1.

A difference by two uses two of the changes. With small b it costs a little less than two single differences, so two of
those are composed instead. This is not assumed: both curves δ(ε) are first compared at *every* ε.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.curves import Curve, blanket_curve, grid_below
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import Finite
from hubbub.accountant.mechanisms.longitudinal import Node
from hubbub.accountant.numbers import UNIT_ROUNDOFF
from hubbub.accountant.pairs.finite import FinitePairs

SPARED = 1000
"""One report in so many is left out of the two single differences, as room for the errors of the comparison: they then
cost a twentieth of a percent more than necessary."""

DEEP = 100.0
"""Below δ = e^−DEEP nothing is compared: that is 10^−20 of any δ from 10^−20 on. The composition charges so little for
the masses of other pairs; a curve does not need it, as its errors are charged already (accounting-tree.md)."""

DELTA_LEAST = 1e-20
"""Least δ at which that is true."""

DOUBT = 1e-9
"""Relative error of the sums below: some ten thousand terms, none of them negative."""


def single(node: Node) -> Finite:
    """Return the law of a node whose values differ by one."""
    return Finite(node.law, neighbors=((0, 1), (1, 2))) if node.signed else Finite(node.law)


def double(node: Node) -> Finite:
    """Return the law of a node whose values differ by two."""
    return Finite(node.law, neighbors=((0, 2),))


def spared(reports: int) -> int:
    """Return the number of reports at which two single differences are composed instead of a double one."""
    return max(1, reports - -(-reports // SPARED))


@lru_cache(maxsize=256)
def covered(node: Node, reports: int) -> bool:
    """Whether the node's double difference was shown to cost at most two single ones at `spared` reports.

    True only if δ of the former, from above, is at every ε at most δ of the latter, from below, plus e^−DEEP. Both are
    symmetric pairs, so ε < 0 follows.
    """
    twice, once = (FinitePairs(law(node), by_blanket=True) for law in (double, single))
    above = blanket_curve(twice.curve_points(), twice.local_epsilon, reports, DEEP)
    below = grid_below(blanket_curve(once.curve_points(), once.local_epsilon, spared(reports), DEEP))
    return _never_above(above, below)


def _never_above(above: Curve, below: LossGrid) -> bool:
    """Whether the chords of `above` are below the tangents of two rounds of `below`, all convex in x = e^ε."""
    epsilons = np.asarray(above.places * above.step, dtype=np.float64)
    x, chord = np.exp(epsilons), above.upper * (1 + DOUBT)
    values, falls = _two_rounds(below, epsilons)
    # On an interval the larger of the tangents at its ends, minus the chord, is least at an end or where they meet.
    left, right, fall, next_fall = values[:-1], values[1:], falls[:-1], falls[1:]
    bend = np.maximum(fall - next_fall, 1e-300)
    meet = np.clip((left - right + fall * x[:-1] - next_fall * x[1:]) / bend, x[:-1], x[1:])
    tangents = np.maximum(left - fall * (meet - x[:-1]), right + next_fall * (x[1:] - meet)) * (1 - DOUBT)
    share = (meet - x[:-1]) / (x[1:] - x[:-1])
    chords = chord[:-1] + share * (chord[1:] - chord[:-1])
    at_ends = bool(np.all(values[:-1] >= chord[:-1])) and values[-1] + math.exp(-DEEP) >= chord[-1]
    return at_ends and bool(np.all(tangents >= chords))


def _two_rounds(grid: LossGrid, epsilons: Array) -> tuple[Array, Array]:
    """Return δ of two rounds at these ε, and its rate of fall with e^ε: Σ pᵢ·δ(ε − ℓᵢ), never above the truth."""
    kept = grid.masses > 0
    losses, p = grid.losses[kept], grid.masses[kept]
    ratios = np.exp(-losses)
    q = p * ratios
    # Sums over all losses above a point, by its place on the grid: P-mass and Q-mass.
    p_above, q_above = (_above(grid.masses), _above(grid.masses * np.exp(-grid.losses)))
    values, falls = np.zeros(len(epsilons)), np.zeros(len(epsilons))
    for place, epsilon in enumerate(epsilons.tolist()):
        first = np.floor((epsilon - losses) / grid.step).astype(np.int64) + 1 - grid.first
        start = np.minimum(np.maximum(first, 0), len(grid.masses))
        above = p_above[start]
        # The difference cancels; its error is at most that of its two sums.
        wrong = 4 * len(grid.masses) * UNIT_ROUNDOFF * above
        beyond = q_above[start]
        values[place] = p @ np.maximum(above - math.exp(epsilon) * ratios * beyond - wrong, 0.0)
        falls[place] = q @ beyond
    return values * (1 - DOUBT), falls


def _above(masses: Array) -> Array:
    return np.append(np.cumsum(masses[::-1])[::-1], 0.0)
