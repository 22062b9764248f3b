"""Puts a symmetric pair of atoms on a grid that it dominates, by lines that touch its curve.

Write H(x) = Σ (gap − x·q)₊ for the hockey stick at e^ε = 1 + x. Atoms of any set S give a line that is never above it,
L_S(x) = Σ_S (gap − x·q), and the atoms of larger ratio than that of a point give the line that touches H there. Here a
line touches H in the middle between each two points of the grid. At a point the lower one of the two lines beside it is
taken. So between two points the chord is below the line that touches H between them, and below H. The lower convex hull
of these heights has its corners on the grid: it is the curve of a pair, which the atoms' pair dominates.

A corner is below H by about H''·(step/2)²/2, so the pair's variance is smaller by about a quarter of the squared step.
Moving each atom down to the next point would lose half a step of its loss, which adds up over rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import HALF_POINTS, LossGrid, Places, dot, grid_step


def tangent_grid(chunks: Iterable[Atoms]) -> LossGrid:
    """Put a symmetric pair on a grid that it dominates; atoms that underflowed are left out, which only lowers it."""
    parts = [part.accurate() for part in chunks]
    side = _Side(np.concatenate([part.q for part in parts]), np.concatenate([part.gap for part in parts]))
    places, mass = side.corners(step := side.step)
    return both_sides(step, (places, mass), (places, mass))


def tangent_grid_of(above: tuple[Array, Array], below: tuple[Array, Array]) -> LossGrid:
    """Put any pair on a grid that it dominates: (Q-masses, P − Q > 0) of its atoms, and (P-masses, Q − P > 0)."""
    forth, back = _Side(*above), _Side(*below)
    step = max(forth.step, back.step)
    return both_sides(step, forth.corners(step), back.corners(step))


def both_sides(step: float, forth: tuple[Places, Array], back: tuple[Places, Array]) -> LossGrid:
    """Return losses of a pair whose curves are below the true ones: `forth` of P against Q, `back` of Q against P.

    Each has places above 0, in steps, and the masses of the lesser of its two laws there. Above ratio 1 the atoms are
    those of `forth`, under ratio 1 they are the mirror images of those of `back`, and the rest is at ratio 1. Write
    H(α) for Σ (p − αq)₊ over all atoms. From α = 1 on only the first count. For α < 1, H(α) = p* − αq* + αH'(1/α), H'
    of the mirror image and p*, q* the masses of all atoms. The true pair has 1 − α there. So H is below the truth at
    every α if p* ≤ 1 and p* ≤ q*: that is, if the first atoms have no larger excess of P over Q than the second have of
    Q over P. Hence the first are scaled down to the excess of the second. Products are below, too: Σ (p − αq)₊ of a
    product with another pair is a mean of H.
    """
    (above, q), (below, p) = forth, back
    first, second = dot(q, np.expm1(step * above)), dot(p, np.expm1(step * below))
    q = q * (second / first) if first > second else q
    upper = q * np.exp(step * above)
    total = float(upper.sum()) + float(p.sum())
    # P has mass 1 at most. Scaling down lowers both curves, which is safe here.
    scale = 1 / max(1.0, total * (1 + 1e-12))
    low, high = int(below.max(initial=0)), int(above.max(initial=0))
    masses = np.zeros(low + high + 1)
    np.add.at(masses, low - below, p * scale)
    np.add.at(masses, low + above, upper * scale)
    masses[low] += max(0.0, 1 - total * scale)
    return LossGrid(step, -low, masses, 0.0, pessimistic=False)


class _Side:
    """The atoms on one side of ratio 1: masses of the lesser law, and by how much the other law's exceed them."""

    def __init__(self, q: Array, gap: Array) -> None:
        self._q, self._gap, self._loss = q, gap, np.log1p(gap / q)
        self.step = grid_step(float(self._loss.max(initial=0.0)))
        """The step of a grid for them."""

    def corners(self, step: float) -> tuple[Places, Array]:
        """Return places above 0 in steps, and masses of the lesser law, whose curve is below that of the atoms."""
        heights = _heights(self._q, self._gap, self._loss, step)
        # Sums of n terms have a relative error of n roundings; slopes, of neighbors, one of as many as points.
        heights *= 1 - (len(self._q) + 64 * HALF_POINTS) * 2.0**-52
        # Where no atom is near, the curve is a line.
        near = np.zeros(len(heights) + 2, dtype=bool)
        near[np.floor(self._loss / step).astype(np.int64) + 1] = True
        near = near[1:] | near[:-1]
        places = np.flatnonzero(near[: len(heights)] | (np.arange(len(heights)) == 0))
        corners, mass = atoms_below(heights[places], lambda kept: np.diff(np.expm1(step * places[kept])))
        return places[corners], mass


def atoms_below(heights: Array, widths: Callable[[Places], Array]) -> tuple[Places, Array]:
    """Return corners of the lower convex hull of heights that fall to the last one, and masses, of a curve below it.

    `widths` are those between neighbors of some of the points. The slope of Σ qᵢ(xᵢ − x)₊ rises by qᵢ at xᵢ. Slopes
    that rise by rounding are lowered: each is a part of all heights before it, and of no other.

    A point above the chord between its two neighbors is no corner, whichever others are left out: so all of them are
    left out at once. Heights are nearly convex, so that is done a few times.
    """
    kept = np.arange(len(heights))
    while True:
        falls = -np.diff(heights[kept]) / widths(kept)
        above = np.flatnonzero(falls[1:] > falls[:-1]) + 1
        if not above.size or len(kept) == 2:
            break
        kept = np.delete(kept, above)
    falls = np.minimum.accumulate(falls)
    return kept[1:], np.append(falls[:-1] - falls[1:], falls[-1:])


def _heights(q: Array, gap: Array, loss: Array, step: float) -> Array:
    """Return heights at the points of the grid, none below 0; the last one is 0.

    Atoms of the second half of a cell are counted from the point after it on. If that would give the point a negative
    height they are counted from the one before, as those beyond the last point are: any sets may be taken.
    """
    halves = np.floor(loss * (2 / step)).astype(np.int64)
    cell, late = halves // 2, halves % 2 == 1
    points = int(cell.max(initial=0)) + 1
    x = np.expm1(step * np.arange(points + 1))

    def sums(which: NDArray[np.bool_], at: Places, weights: Array) -> Array:
        return np.bincount(at[which], weights[which], points + 1).astype(float)

    excess = gap - x[cell] * q
    early_q, early = sums(~late, cell, q), np.maximum(sums(~late, cell, excess), 0.0)
    late_q, before = sums(late, cell + 1, q), np.maximum(sums(late, cell + 1, excess), 0.0)
    after = np.minimum(sums(late, cell + 1, gap - x[cell + 1] * q), 0.0)
    down = np.arange(points + 1) == points
    while True:
        here = early + np.where(down, 0.0, after)
        mass = early_q + np.where(down, 0.0, late_q)
        here[:-1] += np.where(down, before, 0.0)[1:]
        mass[:-1] += np.where(down, late_q, 0.0)[1:]
        beyond = np.cumsum(mass[::-1])[::-1]
        # Each line's fall to the point before it: no term is negative, so no digits are lost.
        falls = here[1:points] + beyond[1:points] * np.diff(x[:points])
        right = np.append(np.cumsum(falls[::-1])[::-1], 0.0)
        heights: Array = right + np.minimum(here[:points], 0.0)
        heights[0] = right[0]
        below = heights < 0
        if not below.any():
            return heights
        down[:points] |= below


def coarser_below(p: Array, losses: Array) -> Array:
    """Put P-masses at equally spaced losses on every other one, from the first on, as a law below; return all masses.

    There is an odd number of points. The first two and the last two have no mass, and the losses span 300 at most.

    Here the curve H(α) is that of all α > 0, which begins at P's mass. As in the module, heights are those of the lower
    one of two lines, and a line touches H at each point between. An atom there counts half for it, or less if the line
    would fall below 0. Where no atom is near H is a line, so only points near an atom can be corners of the hull.
    """
    step, alpha = float(losses[1] - losses[0]), np.exp(losses - losses[len(losses) // 2])
    # A difference of neighbors would lose the digits of a small step.
    q, rise = p / alpha, alpha[:-1] * math.expm1(step)
    height = np.append(np.cumsum((rise * np.cumsum(q[::-1])[::-1][1:])[::-1])[::-1], 0.0)
    # What lines at odd points take from the heights at the even ones before and after them.
    before, after = q[1::2] * rise[::2], q[1::2] * rise[1::2]
    share = np.divide(height[2::2], after, out=np.full(len(after), 0.5), where=after > 0)
    share = np.minimum(share, 0.5)
    taken = np.maximum(np.append(0.0, share * after), np.append((1 - share) * before, 0.0))
    near = p[::2] > 0
    near[1:] |= p[1::2] > 0
    near[:-1] |= p[1::2] > 0
    near[0] = near[-1] = True
    places = np.flatnonzero(near)
    x = np.append(0.0, alpha[::2][places])

    def widths(kept: Places) -> Array:
        between = x[kept[1:-1]] * np.expm1(2 * step * np.diff(places[kept[1:] - 1]))
        return np.append(x[kept[1]], between)

    # As many roundings as points in each sum, and some more. A line that meets 0 at a point may miss it by rounding.
    heights = np.append(float(p.sum()), np.maximum(height[::2] - taken, 0.0)[places]) * (1 - len(p) * 2.0**-45)
    corners, mass = atoms_below(heights, widths)
    found = np.zeros(len(near))
    found[places[corners - 1]] = mass * x[corners]
    return found
