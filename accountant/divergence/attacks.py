"""Builds the data sets on which RAPPOR, Laplace and Gaussian noise reveal most, as far as is known: all have one value.

With others of one law ω, the divergence of the batch is exactly (1/n)·E[(Σ (μ − e^ε μ')(Wᵢ)/ω(Wᵢ))₊], Wᵢ ~ ω
(`sums`); using only part of every report only lowers it.

- RAPPOR, three or more categories: all others have a third value, and only its bit and the victim's two are used.
  Two categories: all others have one of the victim's values.
- Noise on [0, 1]: all others have one end, the victim the same or the other; reports are counted in cells.
"""

from fractions import Fraction

from hubbub.accountant.divergence.noise_cells import Cell
from hubbub.accountant.divergence.sums import IidSum, points_sum
from hubbub.accountant.mechanisms import RAPPOR

GAUSSIAN_TAIL = 1e-9
"""P-mass of the Gaussian's outermost cell."""

Laws = tuple[tuple[Fraction, ...], tuple[Fraction, ...], tuple[Fraction, ...]]
"""Probabilities of the used parts of a report: for the victim's two values, and for everyone else's."""


def rappor_attack_sums(mechanism: RAPPOR, reports: int, epsilon: float) -> tuple[IidSum, ...]:
    """Sums whose positive parts are divergences of data sets: the largest one is the attack."""
    kinds = min(mechanism.categories, 3)
    # The bits of a RAPPOR report are independent, so unused bits can be left out of the randomizer.
    seen = RAPPOR(kinds, mechanism.truthful, mechanism.other)
    first, second = seen.law(0), seen.law(1)
    both = ((first, second, first), (first, second, second))
    return _sums(((first, second, seen.law(2)),) if kinds == 3 else both, reports, epsilon)


def noise_attack_sums(cells: tuple[Cell, ...], reports: int, epsilon: float) -> tuple[IidSum, ...]:
    """Return the same for noise, with reports counted in `cells` and their mirror images."""
    zero = tuple(cell.first for cell in cells) + tuple(cell.second for cell in cells)
    one = tuple(cell.second for cell in cells) + tuple(cell.first for cell in cells)
    return _sums(((zero, one, zero), (zero, one, one)), reports, epsilon)


def _sums(data_sets: tuple[Laws, ...], reports: int, epsilon: float) -> tuple[IidSum, ...]:
    return tuple(_sum(laws, reports, epsilon) for laws in data_sets)


def _sum(laws: Laws, reports: int, epsilon: float) -> IidSum:
    points = [(first / other, second / other, other) for first, second, other in zip(*laws, strict=True)]
    return points_sum(reports, points, epsilon)
