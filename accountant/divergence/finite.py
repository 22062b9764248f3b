"""Bounds δ of a finite law: a sum over its outputs for every two neighbors x, x', and the largest such sum at an ε.

With m the blanket, a law below every input's, and A_x = R[x]/m, balle-2019, Lemma 5.3 reads

    δ(ε) ≤ (1/n)·E[(Y₁ + … + Yₙ)₊],    Y = A_x(y) − e^ε·A_x'(y) with probability m(y), else 0.

Outputs with the same (A_x, A_x') are one point, so every law has few points; and two pairs of inputs with the same
points are one pair. If several pairs are left, δ(ε) of a batch is at most the largest of their curves:

* Each is the curve of a pair of laws (accounting-mechanisms.md), convex in e^ε; so is the largest of them. It is also
  the curve of a pair, a symmetric one as neighbors are taken in both orders. This one pair dominates for any two
  neighbors as the victim's answers, in every round anew: it composes, adaptively.
* Most of them are never evaluated. As x₊ ≤ e^{θx}/(eθ), any tilt θ > 0 gives ln δ ≤ n·ln E[e^{θY}] − ln(eθn), for all
  pairs in one product of two matrices: pairs below an upper end that was already found cannot be the largest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, lcm, log

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.blankets import Point
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.search import COARSE, FINE, gaussian_guess
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.mechanisms import Finite, exp_decimal
from hubbub.accountant.numbers import UNIT_ROUNDOFF

Code = tuple[int, int, int]
"""A point of two neighbors in whole numbers."""

TILTS = 2.0 ** np.arange(-2.0, 2.25, 0.25)
"""Tilts tried around that of a Gaussian sum: all are valid, one of them is good."""

_LARGEST = 300.0
"""Largest exponent of a tilt, so that products of two exponentials are doubles."""


@dataclass(frozen=True, eq=False)
class FinitePoints:
    """Neighbors' laws relative to the blanket.

    Attributes:
        coded: for every two neighbors the codes of their points, each set of points once, in both orders: places of
            A_x(y) and A_x'(y) in `values`, and the mass in units of `unit`.
        values: each value of a ratio once, in rising order.
        unit: of every mass.
        places: the rows (x, x') of each, shape (pairs, 2).
        ratios: A_x(y), to half an ulp, shape (inputs, outputs), for outputs with a blanket mass above 0.
        excess: A_x(y) − 1, likewise: almost equal laws keep their difference.
        masses: m(y), likewise, shape (outputs,).
    """

    coded: tuple[frozenset[Code], ...]
    values: tuple[Fraction, ...]
    unit: Fraction
    places: NDArray[np.int64]
    ratios: Array
    excess: Array
    masses: Array

    @cached_property
    def pairs(self) -> tuple[tuple[Point, ...], ...]:
        """The points of every pair."""
        return tuple(self._points(place) for place in range(len(self.coded)))

    def _points(self, place: int) -> tuple[Point, ...]:
        # Codes are in the order of their values.
        return tuple(
            Point(self.values[one], self.values[two], mass * self.unit) for one, two, mass in sorted(self.coded[place])
        )

    def sum_at(self, place: int, people: int, epsilon: float) -> IidSum:
        """Return the sum of one pair."""
        # Built only where it is needed, as most pairs are excluded without it.
        if place not in self._whole:
            self._whole[place] = SumPoints.of([(at.first, at.second, at.mass) for at in self._points(place)])
        return self._whole[place].sum(people, epsilon)

    @cached_property
    def _whole(self) -> dict[int, SumPoints]:
        """The points of pairs as whole numbers, as each is evaluated at many ε."""
        return {}

    def ends(self, people: int, epsilon: float, precision: float) -> LogBracket:
        """Return ends of ln of the largest δ(`epsilon`) of the pairs."""
        return _bracket(self, people, epsilon, precision)

    def found(self, people: int, epsilon: float, precision: float) -> LogBracket:
        """Return the bracket that `ends` caches."""
        ceilings = self.ceilings(people, epsilon)
        found = LogBracket(-inf, -inf)
        for place in np.argsort(-ceilings, kind="stable").tolist():
            # From here on every ceiling, and so every pair, is at most the value found.
            if ceilings[place] <= found.upper:
                break
            sums = self.sum_at(place, people, epsilon)
            # Most pairs are excluded by much smoothing, which is a valid upper end at a tenth of the cost.
            if found.upper > -inf and positive_part(sums, COARSE).upper <= found.upper:
                continue
            seen = positive_part(sums, precision)
            found = LogBracket(max(found.lower, seen.lower), max(found.upper, seen.upper))
        return found

    def likely_first(self, people: int, delta: float) -> list[int]:
        """Return all pairs; pairs that are probably the worst at about the ε of `delta` come first."""
        near = gaussian_guess(self.sum_at(self.widest(), people, 0.0), delta)
        return [int(place) for place in np.argsort(-self.ceilings(people, near), kind="stable")]

    def at_most(self, place: int, people: int, epsilon: float, log_delta: float) -> bool:
        """Whether ln δ(`epsilon`) of a pair is surely at most `log_delta`."""
        if _ceilings(self, people, epsilon)[place] <= log_delta:
            return True
        sums = self.sum_at(place, people, epsilon)
        # For most pairs much smoothing is enough to exclude them, at a tenth of the cost.
        return any(positive_part(sums, precision).upper <= log_delta for precision in (COARSE, COARSE / 4, FINE))

    def ceilings(self, people: int, epsilon: float) -> Array:
        """Return for each pair a number never below ln δ(`epsilon`), by Chernoff's bound; infinity if it is alone."""
        if len(self.coded) == 1:
            return np.array([inf])
        power = float(exp_decimal(epsilon))
        found: Array = np.min(self._ceilings(people, power, self._tilts(people, power)), axis=0)
        return found

    def _tilts(self, people: int, power: float) -> Array:
        """Return tilts around the minimum of Chernoff's bound for a Gaussian sum of the largest variance."""
        first, mixed, second = self._moments
        variance = max(float(np.max(first - 2 * power * mixed + power**2 * second)), self.variance(), 1e-200)
        gaussian = (power - 1 + ((power - 1) ** 2 + 8 * variance / people) ** 0.5) / (2 * variance)
        return np.unique(np.minimum(TILTS * gaussian, _LARGEST / (self._highest * power)))

    def _ceilings(self, people: int, power: float, tilts: Array) -> Array:
        """Return Chernoff's bound for each tilt (a row) and pair."""
        scales = tilts[:, None, None]
        rising, falling = np.exp(scales * self.ratios), np.exp(-scales * power * self.ratios)
        moments = (rising * self.masses) @ falling.transpose(0, 2, 1) + max(0.0, 1 - float(self.masses.sum()))
        seen = moments[:, self.places[:, 0], self.places[:, 1]]
        # All terms are positive. An exponential's error is its argument's rounding, a sum's depends on its length, and
        # the blanket's rest has an error of an ulp of 1, which E[e^{θY}] need not exceed by much.
        size = 4 * tilts[:, None] * (1 + power) * self._highest + 2 * len(self.masses) + 16
        wrong = people * size * UNIT_ROUNDOFF * (1 + 1 / seen)
        ceilings: Array = people * np.log(seen) + wrong - 1 - np.log(tilts)[:, None] - log(people) + 1e-12
        return ceilings

    @cached_property
    def _highest(self) -> float:
        return float(self.ratios.max())

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        """E[A_x²], E[A_x·A_x'] and E[A_x'²] of each pair, shape (pairs,)."""
        products = (self.ratios * self.masses) @ self.ratios.T
        x, other = self.places.T
        return products[x, x], products[x, other], products[other, other]

    @cached_property
    def _variances(self) -> Array:
        """Y's second moment at ε = 0 of each pair, shape (pairs,)."""
        products = (self.excess * self.masses) @ self.excess.T
        x, other = self.places.T
        found: Array = np.maximum(products[x, x] - 2 * products[x, other] + products[other, other], 0.0)
        return found

    def variance(self) -> float:
        """Return the largest second moment of Y at ε = 0."""
        return float(np.max(self._variances))

    def widest(self) -> int:
        """Return the pair whose Y has the largest second moment at ε = 0: roughly the worst one among many people."""
        return int(np.argmax(self._variances))

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:
        """Return the upper end of `ends`."""
        return self.ends(people, epsilon, precision).upper

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:
        """Return the lower end of `ends`."""
        return self.ends(people, epsilon, precision).lower


@lru_cache(maxsize=1024)
def _bracket(points: FinitePoints, people: int, epsilon: float, precision: float) -> LogBracket:
    """Cached: a curve needs its upper ends first, and then the lower ones at the same ε."""
    return points.found(people, epsilon, precision)


@lru_cache(maxsize=4)
def _ceilings(points: FinitePoints, people: int, epsilon: float) -> Array:
    """Cached: all pairs are compared with one ε."""
    return points.ceilings(people, epsilon)


@lru_cache(maxsize=64)
def finite_points(mechanism: Finite) -> FinitePoints:
    """Return the points of a law's neighbors."""
    kept = [place for place, mass in enumerate(mechanism.masses) if mass > 0]
    masses = [mechanism.masses[place] for place in kept]
    rows = [[row[place] / mass for place, mass in zip(kept, masses, strict=True)] for row in mechanism.law]
    # Whole numbers stand for ratios and masses, because there are many pairs and fractions are slow to compare.
    whole = lcm(*(mass.denominator for mass in masses))
    numerators = [mass.numerator * (whole // mass.denominator) for mass in masses]
    values = sorted({ratio for row in rows for ratio in row})
    codes = {ratio: code for code, ratio in enumerate(values)}
    coded = [[codes[ratio] for ratio in row] for row in rows]
    found: dict[frozenset[Code], tuple[int, int]] = {}
    for x, other in mechanism.neighboring:
        joined: defaultdict[tuple[int, int], int] = defaultdict(int)
        for one, two, mass in zip(coded[x], coded[other], numerators, strict=True):
            joined[one, two] += mass
        found.setdefault(frozenset((one, two, mass) for (one, two), mass in joined.items()), (x, other))
    return FinitePoints(
        tuple(found),
        tuple(values),
        Fraction(1, whole),
        np.array(list(found.values()), dtype=np.int64),
        np.array([[float(ratio) for ratio in row] for row in rows]),
        np.array([[float(ratio - 1) for ratio in row] for row in rows]),
        np.array([float(mass) for mass in masses]),
    )


def joined_points(first: Sequence[Fraction], second: Sequence[Fraction], masses: Sequence[Fraction]) -> list[Point]:
    """Return the points of two rows; outputs with the same ratios are one, as telling them apart reveals nothing."""
    joined: defaultdict[tuple[Fraction, Fraction], Fraction] = defaultdict(Fraction)
    for one, other, mass in zip(first, second, masses, strict=True):
        joined[one, other] += mass
    return [Point(one, other, mass) for (one, other), mass in joined.items()]
