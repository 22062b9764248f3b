"""Builds the data sets on which RAPPOR, Laplace and Gaussian noise reveal most, as far as is known: all have one value.

With others of one law ω, the divergence of the batch is exactly (1/n)·E[(Σ (μ − e^ε μ')(Wᵢ)/ω(Wᵢ))₊], Wᵢ ~ ω
(`sums`); using only part of every report only lowers it.

- RAPPOR, three or more categories: all others have a third value, and only its bit and the victim's two are used.
  Two categories: all others have one of the victim's values.
- RAPPOR beside dummies, the reports of uniform answers: all others have a uniform answer, too.
- Noise on [0, 1]: all others have one end, the victim the same or the other; reports are counted in cells. A
  dummy is a report of any random answer, so it may be that of this end.
"""

from fractions import Fraction
from functools import lru_cache

from hubbub.accountant.divergence.noise_cells import Cell
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.mechanisms import RAPPOR

GAUSSIAN_TAIL = 1e-9
"""P-mass of the Gaussian's outermost cell."""

Laws = tuple[tuple[Fraction, ...], tuple[Fraction, ...], tuple[Fraction, ...]]
"""Probabilities of the used parts of a report: for the victim's two values, and for everyone else's."""


@lru_cache(maxsize=64)
def rappor_attack_points(mechanism: RAPPOR) -> SumPoints:
    """Return (μ/ω, μ'/ω, ω) if the others have a third value; with two categories, the value of μ.

    With two categories there is another data set, of others with the value of μ'. It is this one with the categories
    exchanged, and hence with μ and μ'.
    """
    kinds = min(mechanism.categories, 3)
    # The bits of a RAPPOR report are independent, so unused bits can be left out of the randomizer.
    seen = RAPPOR(kinds, mechanism.truthful, mechanism.other)
    first, second = seen.law(0), seen.law(1)
    return _points((first, second, seen.law(2) if kinds == 3 else first))


@lru_cache(maxsize=64)
def rappor_points_beside_dummies(mechanism: RAPPOR) -> SumPoints:
    """Return the same if everyone else has a uniform answer, as dummies have: all reports but the victim's are alike.

    Of every report the bits of the victim's two values are used.
    """
    own, other = mechanism.truthful, mechanism.other
    first = (own * (1 - other), (1 - own) * other, own * other, (1 - own) * (1 - other))
    second = (first[1], first[0], *first[2:])
    third = (other * (1 - other), other * (1 - other), other**2, (1 - other) ** 2)
    rest = mechanism.categories - 2
    uniform = tuple((a + b + rest * c) / (rest + 2) for a, b, c in zip(first, second, third, strict=True))
    return _points((first, second, uniform))


@lru_cache(maxsize=64)
def noise_attack_points(cells: tuple[Cell, ...]) -> SumPoints:
    """Return the same for noise, with reports counted in `cells` and their mirror images: the others have μ's end.

    The data set of others with the end of μ' is the mirror image.
    """
    zero = tuple(cell.first for cell in cells) + tuple(cell.second for cell in cells)
    one = tuple(cell.second for cell in cells) + tuple(cell.first for cell in cells)
    return _points((zero, one, zero))


def both_ways(points: SumPoints, reports: int, epsilon: float) -> tuple[IidSum, ...]:
    """Return the sums of μ against μ' and of μ' against μ: the larger positive part is the attack."""
    return points.sum(reports, epsilon), points.exchanged().sum(reports, epsilon)


def _points(laws: Laws) -> SumPoints:
    return SumPoints.of([(first / other, second / other, other) for first, second, other in zip(*laws, strict=True)])
