"""Stores a pair of laws as P-masses at multiples of a step; the Q-masses follow from the loss.

A `LossGrid` has P-masses p_i at losses ℓ_i; its Q-mass there is p_i·e^−ℓ_i. Pessimistic grids come from *connecting the
dots* (Doroshenko and others, 2022): each atom (p, q) is split between the two grid points around its loss, keeping its
P-mass and its Q-mass. That is a mean-preserving spread of the ratio p/q under Q, so every hockey stick, of this pair
and of its products with others, only grows. (Keeping the mean of the loss instead is not safe.) Optimistic grids
*merge* atoms around a grid point in the proportion whose ratio is the point's, which is a post-processing. They move
the rest down to the next point with its P-mass, which lowers (1 − e^{ε−ℓ})₊ and hence every δ.

Steps are powers of two, so that losses are exact and grids of different steps fit together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.atoms import Atoms

HALF_POINTS = 1 << 14
"""Grid points on each side of loss 0: about a thousand per standard deviation."""


Places = np.ndarray[tuple[int], np.dtype[np.int64]]
"""Whole numbers of steps."""


def dot(left: Array, right: Array) -> float:
    """Return Σ leftᵢ·rightᵢ, added in pairs, on this thread alone.

    `@` lets BLAS take all cores for ten thousand numbers and more. They wait for each other longer than they add: that
    took three quarters of a composition's time.
    """
    return float(np.sum(left * right))


@dataclass(frozen=True)
class LossGrid:
    """P-masses at the losses (first + i)·step, i = 0, 1, …; `infinite` is P-mass at which Q has none.

    If `pessimistic`, δ(ε) = Σ p_i(1 − e^{ε−ℓ_i})₊ + infinite is never below the truth, else never above it (up to the
    relative error of the masses, which the composition charges).
    """

    step: float
    first: int
    masses: Array
    infinite: float
    pessimistic: bool

    @property
    def losses(self) -> Array:
        """The losses, in nats; exact."""
        return (self.first + np.arange(len(self.masses), dtype=float)) * self.step

    @cached_property
    def support(self) -> tuple[Array, Array]:
        """The losses that have mass, and their masses: noise alone has a handful on thousands of points."""
        # Whatever is not exactly 0 stays, so that no end is moved in either direction.
        massive = self.masses != 0
        return self.losses[massive], self.masses[massive]

    def delta(self, epsilon: float) -> float:
        """Return δ at `epsilon` of one round."""
        losses, masses = self.support
        return dot(masses, -np.expm1(np.minimum(epsilon - losses, 0.0))) + self.infinite


def grid_step(largest: float, points: int = HALF_POINTS) -> float:
    """Return the power of two that covers [0, largest] with at most `points` steps; tiny if there is none."""
    if largest <= 0:
        return 2.0**-60
    return 2.0 ** math.ceil(math.log2(largest / points * (1 + 1e-9)))


def connect_dots(chunks: Iterable[Atoms]) -> LossGrid:
    """Put a symmetric pair on a grid that dominates it."""
    # The mass of an atom that underflowed is put at an infinite loss, which dominates any ratio.
    parts = [part.accurate() for part in chunks]
    losses = [np.log1p(part.gap / part.q) for part in parts]
    step = grid_step(max((float(loss.max()) for loss in losses if loss.size), default=0.0))
    half = np.zeros(HALF_POINTS + 2)
    for part, loss in zip(parts, losses, strict=True):
        index, up = spread_shares(loss, step)
        mass = part.q + part.gap
        half += np.bincount(index, mass * (1 - up), len(half)) + np.bincount(index + 1, mass * up, len(half))
    # Mass at loss 0 is its own mirror image: the atoms' images put as much there as the atoms.
    half[0] = 2 * half[0] + sum(part.even for part in parts)
    return symmetric_grid(half, step, sum(part.cut for part in parts))


def spread_shares(loss: Array, step: float) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Array]:
    """Return the grid point at or below each loss, and the share of the P-mass that goes to the next one."""
    # Shares are linear in e^(−ℓ), not in ℓ, which keeps the Q-mass. The minimum removes rounding.
    index = np.floor(loss / step).astype(np.int64)
    return index, np.minimum(np.expm1(-(loss - index * step)) / math.expm1(-step), 1.0)


def symmetric_grid(half: Array, step: float, infinite: float) -> LossGrid:
    """Mirror the P-masses at losses 0, step, 2·step, …: the P-mass at −ℓ is the Q-mass at ℓ."""
    size = int(np.flatnonzero(half)[-1]) + 1 if half.any() else 1
    half = half[:size]
    mirrored = half * np.exp(-step * np.arange(size))
    return LossGrid(step, 1 - size, np.concatenate([mirrored[:0:-1], half]), infinite, pessimistic=True)


def grid_atoms(grid: LossGrid) -> Atoms:
    """Return a symmetric grid as atoms."""
    losses = grid.losses
    upper = (losses > 0) & (grid.masses > 0)
    p = grid.masses[upper]
    even = float(grid.masses[losses == 0].sum())
    return Atoms(p * np.exp(-losses[upper]), p * -np.expm1(-losses[upper]), even, grid.infinite)


def lower_hull(x: Array, y: Array) -> list[int]:
    """Return the indices of the lower convex hull's corners (Andrew's monotone chain)."""
    corners: list[int] = []
    for place in range(len(x)):
        while len(corners) > 1:
            one, two = corners[-2], corners[-1]
            if (y[two] - y[one]) * (x[place] - x[one]) < (y[place] - y[one]) * (x[two] - x[one]):
                break
            corners.pop()
        corners.append(place)
    return corners
