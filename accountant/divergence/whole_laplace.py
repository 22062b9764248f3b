"""Bounds Laplace noise on a number by all that others send: laws of V above those of all answers, cell by cell.

Lengths here are in units of the noise's scale, so that answers are in [0, L], L = ε₀, and R_x has the density
e^{−|y−x|}/2. The bound is that of `whole_law`, with M = c·m, m the blanket: β = cγ, and M ≤ c·R_z for all z. α is e^ε.

**Only the potential counts.** For the victim's answers x, x' and another person's z let V = (R_x − αR_x')/R_z, and let
f(κ) = ∫ (R_x − αR_x' − κR_z)₊ = E(V − κ)₊ under R_z, the potential. U = V − (1 − α) has the mean 0. A law whose
potential is everywhere at least that is above it in the (increasing) convex order, so that E*[(ΣV)₊] only grows.
As R_z − M ≥ (1 − c)·R_z, that is true of this law, beside what is hidden: U/(1 − c) with the chance 1 − c, else 0. For
E(U − s)₊, s ≥ 0, is now at most ∫ (R_x − αR_x' − (1 − α + (1 − c)s)R_z)₊, and E(s − U)₊, s < 0, likewise.

**Three families are enough.** Stretch x, x' and z until the outermost two are 0 and L. Shrunk again, their noise has a
smaller scale; a Laplace variable is the sum of one of a smaller scale and an independent one, so adding noise makes it
that of scale 1. Hence what was is a post-processing of what is stretched, and its V a conditional mean. Mirrored
answers are alike. Three cases are left, each with one parameter in [0, L]:

* between: x = 0, x' = L, and z. V falls in y: reports with V > κ are those below some y₂. As ∂R_z/∂z is R_z above z and
  −R_z below, ∂f/∂z = κ·(their mass below z, less that above), under R_z. If y₂ is above z, half of all mass is below z.
  So f rises in z if κ ≥ 0. For κ < 0, E(κ − V)₊ falls in z: likewise, it is about the reports above y₂.
* before: z = 0, x = a, x' = L. V rises up to a, to e^a at most, and then falls; or it falls everywhere. If κ is at most
  its value e^−a − αe^−L at y < 0, reports with V > κ are those below some place, and f falls in a: ∂f/∂a is R_a's mass
  of them above a, less that below.
* beyond: z = 0, x = L, x' = b. If κ ≥ 0, reports with V > κ are above b, and f falls in b. If κ < 0, V < κ for all
  reports below b as soon as −κ ≤ αe^−b − e^−L. Then E(κ − V)₊ falls in b, and so does f. V is at least −αe^b.

**Cells cover the parameter.** Where f rises or falls in it, the end of a cell with the larger f counts. Elsewhere f
changes by at most ½ per unit of a (the mass of R_a on one side), and by at most α/2 per unit of b. So in the cell f is
at most the larger of its ends, plus a quarter of the width, or α times that.

**Where V ends.** R_x/R_z, R_x'/R_z and R_x/R_x' are in [e^−L, e^L]. So V = (R_x/R_z)(1 − α·R_x'/R_x) is at most
e^L·(1 − αe^−L) = e^L − α if that is above 0, as it is below the local ε; and V = (R_x'/R_z)(R_x/R_x' − α) is at least
e^L·(e^−L − α) = 1 − αe^L. Hence U is in [−α(e^L − 1), e^L − 1], and the grid of s need not go beyond. It must not: what
rounding adds to the potential is an atom at the grid's end, and among many people tilts of e^(θs) make that count.

The potential is evaluated on a grid, to a known rounding, and joined by chords: it is convex, so chords are above it.
The lower convex hull of the raised values is the potential of a law with atoms on the grid. Several cells may be
joined: the larger of their values at each place is above all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import exp, expm1, log1p

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.divergence.whole_law import bound, with_one_fewer
from hubbub.accountant.divergence.whole_laws import WholeLaws

LEAST_LOCAL, MOST_LOCAL = 0.1, 8.0
"""The ε₀ for which the potentials are resolved by doubles."""

_EVENLY, _SMALLER = np.linspace(0, 1, 7), 2.0 ** np.arange(-3, 0) / 6
_EDGES = np.concatenate([[0.0], _SMALLER, _EVENLY[1:-1], 1 - _SMALLER[::-1], [1.0]])
"""Ends of the cells of a parameter, as shares of L: near the ends, where the worst data sets are, they are small."""

POINTS = 44
"""Points of the grid of s on each side of 0."""

_ROUNDING = 1e-14
"""Error of a potential, relative to 1 + e^ε + |κ|: some hundred roundings."""

_LARGEST_EXPONENT = 600.0
"""Largest exponent that is computed."""


def _half(p: Array, q: Array, start: Array | float, end: Array | float) -> Array:
    """Return ½∫ (p·e^−y − q·e^y)₊ dy from `start` to `end`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.log(p / q) / 2
    root = np.clip(np.where(np.isnan(root), start, root), start, end)
    low = np.where((p < 0) & (q < 0), root, start)
    high = np.where((p > 0) & (q > 0), root, end)
    whole = p * (np.exp(-low) - np.exp(-high)) - q * (np.exp(high) - np.exp(low))
    found: Array = np.where((p <= 0) & (q >= 0), 0.0, np.maximum(whole, 0.0)) / 2
    return found


def _plus(value: Array) -> Array:
    found: Array = np.maximum(value, 0.0)
    return found


def between(kappa: Array, z: Array, length: float, power: float) -> Array:
    """Return f(`kappa`) if x = 0 and x' = L; `z` and `kappa` are broadcast."""
    far = exp(-length)
    ends = _plus(1 - power * far - kappa * np.exp(-z)) + _plus(far - power - kappa * np.exp(z - length))
    left = _half(np.ones_like(kappa + z), power * far + kappa * np.exp(-z), 0.0, z)
    return ends / 2 + left + _half(1 - kappa * np.exp(z), power * far + 0 * (kappa + z), z, length)


def before(kappa: Array, a: Array, length: float, power: float) -> Array:
    """Return f(`kappa`) if z = 0, x = a and x' = L."""
    far = exp(-length)
    near = np.exp(-a) - power * far
    ends = _plus(near - kappa) + _plus(np.exp(a) - power / far - kappa) * far
    left = _half(-kappa + 0 * a, -near + 0 * kappa, 0.0, a)
    return ends / 2 + left + _half(np.exp(a) - kappa, power * far + 0 * (kappa + a), a, length)


def beyond(kappa: Array, b: Array, length: float, power: float) -> Array:
    """Return f(`kappa`) if z = 0, x = L and x' = b."""
    far = exp(-length)
    near = far - power * np.exp(-b)
    ends = _plus(near - kappa) + _plus(1 / far - power * np.exp(b) - kappa) * far
    left = _half(-kappa + 0 * b, -near + 0 * kappa, 0.0, b)
    return ends / 2 + left + _half(-(power * np.exp(b) + kappa), -far + 0 * (kappa + b), b, length)


@dataclass(frozen=True)
class _CellPotentials:
    """Potentials of every cell on one grid of s: raised so that no rounding is left."""

    grid: Array
    heights: Array

    @classmethod
    def of(cls, length: float, power: float) -> _CellPotentials:
        mean, most = 1 - power, expm1(length) * (1 + 1e-9)
        side, low = (np.geomspace(0.02 * min(length, 1.0), end, POINTS) for end in (most, power * most))
        grid = np.concatenate([-low[::-1], [0.0], side])
        kappa = grid + mean
        heights = np.concatenate(
            [cells(kappa, length, power) for cells in (_between_cells, _before_cells, _beyond_cells)]
        )
        heights += _ROUNDING * (1 + power + np.abs(kappa))
        # At the ends the potential is known: nothing is beyond them.
        heights[:, 0], heights[:, -1] = -grid[0], 0.0
        return cls(grid, np.maximum(heights, _plus(-grid)))

    @property
    def farthest(self) -> float:
        """The distance of the grid's ends from 0: no cell's law has a step beyond it."""
        return float(np.abs(self.grid[[0, -1]]).max())

    @cached_property
    def atoms(self) -> Array:
        """Changes of slope at the grid's inner points: masses, some of which may be below 0 before hulls are taken."""
        return self._bends(self.heights)

    def _bends(self, heights: Array) -> Array:
        slopes = (heights[:, 1:] - heights[:, :-1]) / (self.grid[1:] - self.grid[:-1])
        every = np.concatenate([-np.ones((len(slopes), 1)), slopes, np.zeros((len(slopes), 1))], axis=1)
        found: Array = every[:, 1:] - every[:, :-1]
        return found

    def grown(self, tilt: float) -> Array:
        """Return E[e^{tilt·U}] − 1 of every cell, not below that of its hull; infinity if it is no double.

        ∫ tilt²·e^{tilt·s}·(potential) ds is that, but for what the ends determine, and the hull is below the heights.
        """
        return self._growth(self.atoms, tilt)

    def _growth(self, atoms: Array, tilt: float) -> Array:
        if tilt * max(self.grid[-1], -self.grid[0]) > _LARGEST_EXPONENT:
            return np.full(len(atoms), np.inf)
        found: Array = np.maximum(np.einsum("ij,j->i", atoms, np.expm1(tilt * self.grid)), 0.0)
        return found

    def merged_growth(self, places: Sequence[int], tilt: float) -> float:
        """Return what `grown` is of the largest of some cells' potentials, before the hull is taken."""
        return float(self._growth(self._bends(self.heights[places].max(axis=0, keepdims=True)), tilt)[0])

    def law(self, places: Sequence[int]) -> tuple[Array, Array]:
        """Return the atoms of the hull of the largest of some cells' potentials, other than at 0."""
        heights = self.heights[places].max(axis=0)
        corners = _corners(self.grid, heights)
        at, height = self.grid[corners], heights[corners]
        slopes = np.concatenate([[-1.0], np.diff(height) / np.diff(at), [0.0]])
        masses = np.maximum(np.diff(slopes), 0.0)
        kept = (masses > 0) & (at != 0)
        return at[kept], masses[kept] * (1 + 1e-13)


def _corners(x: Array, heights: Array) -> NDArray[np.int64]:
    """Return the places of the lower convex hull's corners, for heights that are nearly convex.

    A point above the chord between its two neighbors is no corner, whichever others are left out. So all of them are
    left out at once, a few times: in a tenth of the time of `losses.grid.lower_hull`, which takes them one by one.
    """
    kept = np.arange(len(x))
    while True:
        height, at = heights[kept], x[kept]
        slopes = (height[1:] - height[:-1]) / (at[1:] - at[:-1])
        below = slopes[1:] > slopes[:-1]
        if below.all():
            return kept
        kept = kept[np.concatenate([[True], below, [True]])]


def _between_cells(kappa: Array, length: float, power: float) -> Array:
    found = between(kappa, length * _EDGES[:, None], length, power)
    return np.where(kappa >= 0, found[1:], found[:-1])


def _before_cells(kappa: Array, length: float, power: float) -> Array:
    edges = length * _EDGES[:, None]
    found, high = before(kappa, edges, length, power), np.exp(edges[1:]) * (1 + _ROUNDING)
    raised = np.maximum(found[:-1], found[1:]) + np.diff(edges, axis=0) / 4
    cells = np.where(kappa <= 1 / high - power * exp(-length) - _ROUNDING * power, found[:-1], raised)
    return np.where(kappa >= high, 0.0, cells)


def _beyond_cells(kappa: Array, length: float, power: float) -> Array:
    edges = length * _EDGES[:, None]
    found, high = beyond(kappa, edges, length, power), np.exp(edges[1:]) * (1 + _ROUNDING)
    raised = np.maximum(found[:-1], found[1:]) + np.diff(edges, axis=0) / 4 * power
    falling = (kappa >= 0) | (-kappa <= power / high - exp(-length) - _ROUNDING * power)
    cells = np.where(falling, found[:-1], raised)
    return np.where(-kappa >= power * high, 1 - power - kappa, cells)


@dataclass(frozen=True)
class HiddenLaplace:
    """The bound if a share c of the blanket is hidden.

    Attributes:
        local: ε₀.
        hidden: β, the mass of M.
    """

    local: float
    hidden: Fraction

    @property
    def share(self) -> float:
        """C = β/γ, rounded up."""
        return float(self.hidden) * exp(self.local / 2) * (1 + 1e-14)

    def variance(self) -> float:
        """Return the second moment of V at ε = 0, if the others have one end."""
        sums = self.sum_at_zero(1)
        return sum(mass * step * step for mass, step in zip(sums.masses, sums.steps, strict=True))

    def sum_at_zero(self, people: int) -> IidSum:
        """Return the sum of it."""
        return _Values(_cells(self.local, 0.0), people, 0.0, self.share).merged([0])

    def log_charge(self, people: int) -> float:
        """Return n·ln(1 − β), rounded up."""
        return people * log1p(-float(self.hidden)) * (1 - 1e-14)

    def log_delta(self, people: int, epsilon: float) -> LogBracket:
        """Return ends of the largest value of all cells."""
        return _log_delta(self, people, epsilon)

    def found(self, people: int, epsilon: float) -> LogBracket:
        """Return what `log_delta` caches."""
        values = _Values(_cells(self.local, epsilon), people, epsilon, self.share)
        # Where all others have an answer near one end.
        ends = [values.merged([0]), values.merged([len(_EDGES) - 2])]
        return bound(float(self.hidden), ends, self.log_charge(people), values)


@dataclass(frozen=True)
class _Values:
    """The laws of U/(1 − c) with the chance 1 − c, else 0, for U of each cell."""

    cells: _CellPotentials
    people: int
    epsilon: float
    share: float

    def tops(self, tilt: float) -> Array:
        """Return n·ln E[e^{`tilt`·V}] of each cell, none too small."""
        return self._top(self.cells.grown(tilt / (1 - self.share)), tilt)

    def merged_top(self, places: Sequence[int], tilt: float) -> float:
        """Return roughly that of the law of `merged`."""
        grown = self.cells.merged_growth(places, tilt / (1 - self.share))
        return float(self._top(np.array([grown]), tilt)[0])

    def _top(self, grown: Array, tilt: float) -> Array:
        found: Array = self.people * (np.log1p((1 - self.share) * grown) - tilt * expm1(self.epsilon))
        return found

    def merged(self, places: Sequence[int]) -> IidSum:
        """Return the sum of the least law that is above all of these cells'."""
        steps, masses = self.cells.law(places)
        kept = 1 - self.share
        # Every value is raised by more than rounding took from the law's mean: the potential grows with each. All cells
        # are raised alike, by what the grid's ends need, so that their laws have the same steps.
        masses, steps = masses * kept, (steps + _ROUNDING * self.cells.farthest) / kept
        drawn = tuple(steps.tolist()), tuple(masses.tolist())
        left = 1 - float(masses.sum())
        return IidSum(self.people, *drawn, -expm1(self.epsilon), left, float(steps.max()), 1.0 / self.people)


@lru_cache(maxsize=64)
def laplace_whole_laws(local: float) -> WholeLaws:
    """Return the bounds of Laplace noise of that ε₀, by what is hidden: up to half of the blanket."""

    def laws(hidden: Fraction) -> tuple[HiddenLaplace, ...]:
        return (HiddenLaplace(local, hidden),)

    return WholeLaws(Fraction(exp(-local / 2) / 2), laws)


@lru_cache(maxsize=512)
def _cells(length: float, epsilon: float) -> _CellPotentials:
    return _CellPotentials.of(length, exp(epsilon))


@lru_cache(maxsize=4096)
def _log_delta(law: HiddenLaplace, people: int, epsilon: float) -> LogBracket:
    """Cached, as a curve needs both ends."""
    return with_one_fewer(law, people, epsilon)
