"""Computes the law of what the counts of all other symbols tell: a sum S of likelihood ratios, in few points.

The victim's report is one of k symbols. Write q for the law of z and p for that of z + 1, and l_y = p(c_y)/q(c_y) for
what the count of symbol y tells. S is the sum of l_y over the k − 2 symbols that are neither x nor x'. These ratios are
independent, and each has the mean 1 − P[z is at its top], as a top count of z + 1 has no ratio: there q is 0. For given
counts of x and x' every hockey stick is a convex function of S that never rises (`divergence.noise_atoms`). So

- a *spread* of S, which splits each value between two others and keeps the mean, only raises all hockey sticks;
- a *contraction* of S, which replaces values by their mean, only lowers them. It is what an observer sees who does not
  tell these values apart.

A spread of a sum is had by spreads of its terms, and a contraction by contractions. So the law of one term is put on a
lattice and convolved with itself. If the lattice has too many points, each odd one is split between its two neighbors.
A smaller S is safe above: `even` mass, which both answers have alike, gets what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array

POINTS = 512
"""Most steps of the lattice of a sum."""

_FAR = 2.0**-20
"""Ratios beyond this share of z + 1 are cut down to the one there; the rest of their mass is as good as told."""

_NEGLIGIBLE = 1e-18, 1e-9
"""Shares of S below and above which few points are enough: small values decide about a small δ."""

_ROUNDING = 2.0**-53


@dataclass(frozen=True, eq=False)
class OtherSymbols:
    """Values of S and their masses: a spread of its law or a contraction."""

    values: Array
    masses: Array

    @classmethod
    def of(cls, values: Array, masses: Array) -> OtherSymbols:
        """Return them without values that have no mass."""
        kept = masses > 0
        return cls(values[kept], masses[kept])


def spread_sum(p: Array, q: Array, terms: int, most: int) -> OtherSymbols:
    """Return a spread of S on at most about `most` points, from the atoms of z + 1 (`p`) and of z (`q`).

    Masses are raised, and upper shares of a split lowered, by more than their rounding.
    """
    if not terms:
        return OtherSymbols(np.zeros(1), np.ones(1))
    finite = q > 0
    ratio, mass, share = p[finite] / q[finite], q[finite], p[finite]
    order = np.argsort(ratio)
    ratio, mass, share = ratio[order], mass[order], share[order]
    beyond = np.append(np.cumsum(share[::-1])[::-1][1:], 0.0)
    largest = float(ratio[np.flatnonzero(beyond <= _FAR)[0]])
    place = np.minimum(ratio / largest, 1.0) * POINTS
    low = np.minimum(place.astype(np.int64), POINTS - 1)
    up = np.maximum(place - low - 2.0**-40, 0.0)
    below, above = np.bincount(low, mass * (1 - up), POINTS + 1), np.bincount(low + 1, mass * up, POINTS + 1)
    masses, halvings = _sum(np.asarray(below + above, float), terms)
    places = _places(masses, most)
    raised = np.asarray(_on(masses, places) * (1 + _error(terms) + (len(q) + 8) * terms * _ROUNDING), float)
    values = np.asarray(places * (largest / POINTS * 2.0**halvings) * (1 - 2.0**-50), float)
    return OtherSymbols.of(values, raised)


def contracted_sum(ratios: tuple[float, float], larger: float, terms: int, most: int) -> OtherSymbols:
    """Return a contraction of S on at most about `most` points; masses are lowered by more than their rounding.

    It tells how many of the counts are in the upper half, of `POINTS` symbols at most. `ratios` are the means of l_y in
    the lower half and in the upper one, and `larger` is the chance of the latter.
    """
    low, high = ratios
    counted = min(terms, POINTS)
    masses, _ = _sum(np.array([1 - larger, larger]), counted) if counted else (np.ones(1), 0)
    numbers = np.arange(len(masses))
    values = numbers * high + (counted - numbers) * low + (terms - counted) * (larger * high + (1 - larger) * low)
    block = np.searchsorted(_places(masses, most), numbers, side="right") - 1
    kept = np.asarray(np.bincount(block, masses), float)
    means: Array = np.divide(np.bincount(block, masses * values), kept, out=np.zeros(len(kept)), where=kept > 0)
    # A larger S is safe below, by more than the rounding of these sums.
    return OtherSymbols.of(means * (1 + 2.0**-40), np.asarray(kept * (1 - _error(counted))))


def _sum(single: Array, terms: int) -> tuple[Array, int]:
    """Return the law of a sum of so many independent values on a lattice, and how often its step was doubled."""
    total, halvings = single, 0
    # From the highest bit of `terms` on: twice as many, and perhaps one more.
    for bit in f"{terms:b}"[1:]:
        total = np.convolve(total, total)
        if bit == "1":
            total = np.convolve(total, _coarser(single, halvings))
        while len(total) > POINTS + 1:
            total, halvings = _coarser(total, 1), halvings + 1
    return total, halvings


def _coarser(masses: Array, times: int) -> Array:
    """Return the masses on a lattice of twice the step, so many times: odd places are split between even ones."""
    for _ in range(times):
        even = np.append(masses, 0.0) if len(masses) % 2 == 0 else masses
        masses, half = even[::2].copy(), even[1::2] / 2
        masses[:-1] += half
        masses[1:] += half
    return masses


def _error(terms: int) -> float:
    """Return a relative error of the masses of a sum: each product of two adds that of its sums of `POINTS` terms."""
    return terms * (2 * POINTS + 16) * _ROUNDING


def _places(masses: Array, most: int) -> NDArray[np.int64]:
    """Return about `most` places at most: both ends, and the others evenly where the mass is."""
    if len(masses) <= most:
        return np.arange(len(masses))
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])[::-1]
    first = int(np.searchsorted(below, _NEGLIGIBLE[0]))
    last = int(np.flatnonzero(above > _NEGLIGIBLE[1])[-1])
    inner = np.linspace(first, max(last, first), max(1, most - 2)).round().astype(np.int64)
    return np.unique(np.concatenate([[0], inner, [len(masses) - 1]]))


def _on(masses: Array, places: NDArray[np.int64]) -> Array:
    """Split all masses between the nearest of the places, so that means stay."""
    if len(places) == len(masses):
        return masses
    numbers = np.arange(len(masses))
    block = np.minimum(np.searchsorted(places, numbers, side="right") - 1, len(places) - 2)
    width = places[block + 1] - places[block]
    up, down = (numbers - places[block]) / width, (places[block + 1] - numbers) / width
    split = np.bincount(block, masses * down, len(places)) + np.bincount(block + 1, masses * up, len(places))
    return np.asarray(split, float)
