"""Finds the data sets on which a finite law reveals most, as far as is known: all others have one value, or one of two.

With others of one law ω, the divergence of the batch is exactly (1/n)·E[(Σ (μ − e^ε μ')(Wᵢ)/ω(Wᵢ))₊], Wᵢ ~ ω (`sums`),
μ and μ' the laws of two neighbors. Here ω is a row of the law, the victim's own or another, or a mixture of two rows:
everyone else tosses a coin for one of two values. Divergences are convex in the law of the others, so some data set
with these values reveals at least as much as the coins do. So every tried law gives a lower bound.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.finite import joined_points
from hubbub.accountant.divergence.search import COARSE, gaussian_guess
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.mechanisms import Finite

TRIED = 6
"""Number of evaluated data sets: those under which one report varies most; the others are assumed to reveal less."""

MIXED = 4
"""Number of rows that are mixed in pairs: those under which a report varies most."""

SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
"""Shares of the others who have the first of two values."""

_TYPICAL = 1e-6
"""The δ at whose ε data sets are compared: it selects the attack; any attack is valid."""

Row = tuple[Fraction, ...]
Points = tuple[tuple[Fraction, Fraction, Fraction], ...]


def finite_attack_sums(mechanism: Finite, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
    """Return the sum of the data set that reveals most of those tried; beside dummies, that of a dummy's law."""
    points = points_beside_dummies(mechanism) if dummies else most_revealing(mechanism, reports)
    return (points.sum(reports + dummies, epsilon),)


def dummy_is_answered(mechanism: Finite) -> bool:
    """Whether a dummy's law is that of some answer, or of a uniform one of those listed: others may have it, too."""
    law, dummy = mechanism.law, mechanism.dummy
    return dummy is not None and (
        dummy in law or dummy == tuple(sum(each) / len(law) for each in zip(*law, strict=True))
    )


@lru_cache(maxsize=64)
def points_beside_dummies(mechanism: Finite) -> SumPoints:
    """Return the data set of others whose report has a dummy's law, and the neighbors whose report varies most."""
    if mechanism.dummy is None:
        raise ValueError(f"{mechanism!r} has no dummies; ask without them")
    shown = _shown(mechanism, [mechanism.dummy])
    x, other = mechanism.neighboring[int(np.argmax(shown[:, 0]))]
    return SumPoints.of(_points(mechanism.law[x], mechanism.law[other], mechanism.dummy))


@lru_cache(maxsize=64)
def most_revealing(mechanism: Finite, reports: int) -> SumPoints:
    """Return the data set with the largest δ at about the ε of a usual δ, as (μ/ω, μ'/ω, ω)."""
    tried = [SumPoints.of(points) for points in _data_sets(mechanism)]
    at = max(gaussian_guess(points.sum(reports, 0.0), _TYPICAL) for points in tried)
    at = min(at, mechanism.epsilon_local / 2)
    found = [positive_part(points.sum(reports, at), COARSE) for points in tried]
    return max(zip(found, tried, strict=True), key=lambda seen: (seen[0].lower, seen[0].upper))[1]


@lru_cache(maxsize=64)
def _data_sets(mechanism: Finite) -> tuple[Points, ...]:
    """Return the data sets under which one report's part of the sum varies most."""
    others = list(mechanism.law)
    shown = _shown(mechanism, others)
    leading = [others[place] for place in np.argsort(-shown.max(axis=0), kind="stable")[:MIXED]]
    mixed = [_mixture(one, two, share) for one, two in combinations(leading, 2) for share in SHARES]
    others += mixed
    shown = _shown(mechanism, others)
    x, other = mechanism.neighboring[int(np.argmax(shown.max(axis=1)))]
    found: dict[frozenset[tuple[Fraction, Fraction, Fraction]], None] = {}
    # Among few people the best attack may be on a missing report: all others have a value that the victim may have.
    for held in (mechanism.law[x], mechanism.law[other]):
        found[frozenset(_points(mechanism.law[x], mechanism.law[other], held))] = None
    for place in np.argsort(-shown, axis=None, kind="stable").tolist():
        (x, other), held = mechanism.neighboring[place // len(others)], others[place % len(others)]
        found[frozenset(_points(mechanism.law[x], mechanism.law[other], held))] = None
        if len(found) == TRIED or place > TRIED * len(others):
            break
    return tuple(tuple(sorted(points)) for points in found)


def _shown(mechanism: Finite, others: list[Row]) -> Array:
    """Return E_ω[((μ − μ')/ω)²] for every two neighbors (a row each) and every ω of `others`."""
    law = np.array([[float(value) for value in row] for row in mechanism.law])
    kept = law.max(axis=0) > 0
    x, other = np.array(mechanism.neighboring).T
    apart = (law[x] - law[other])[:, kept] ** 2
    found: Array = apart @ (1 / np.array([[float(value) for value in row] for row in others])[:, kept]).T
    return found


def _mixture(one: Row, two: Row, share: Fraction) -> Row:
    return tuple(share * first + (1 - share) * second for first, second in zip(one, two, strict=True))


def _points(first: Row, second: Row, held: Row) -> Points:
    kept = [(one / mass, two / mass, mass) for one, two, mass in zip(first, second, held, strict=True) if mass > 0]
    return tuple((at.first, at.second, at.mass) for at in joined_points(*zip(*kept, strict=True)))
