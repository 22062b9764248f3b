"""Cuts reports of noise on [0, 1] into cells, with their mass for each end of the interval, as fractions.

The cells are those below 1/2; the others mirror them with the ends exchanged. A report y of the answer 0 is
a = e^(ε₀(1−2y)) (Laplace; e^ε₀ below 0) or e^((1−2y)/2σ²) (Gaussian) times as likely as of the answer 1, whose
density is the blanket's there.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from statistics import NormalDist

from hubbub.accountant.mechanisms import Gaussian, Laplace
from hubbub.accountant.mechanisms.exact import PRECISE, exact_decimal, grown_exp

CELLS = 80
"""Cells below 1/2: spreading them adds a relative 1e-4 to the variance of the summands."""

_DEEPEST = 690.0
"""Largest −ln of a point's mass that is a double, as is the ratio of densities there, which is below 1/mass."""

_WIDER = 3.0
"""Spread of the Gaussian's cells in sigma: dense where most of the variance comes from, not sparse in the tails."""


@dataclass(frozen=True)
class Cell:
    """Reports with a from `low` to `high`: their mass for the answers 0 (`first`) and 1 (`second`, the blanket's)."""

    low: Fraction
    high: Fraction
    first: Fraction
    second: Fraction


@lru_cache(maxsize=64)
def laplace_cells(mechanism: Laplace, count: int = CELLS) -> tuple[Cell, ...]:
    """Return a cell for all y below 0, as a is constant there, and `count` cells between equally spaced b of √a.

    With s = e^(ε₀/2), a report with √a between b and b' > b has mass (b' − b)/(2s) for 0, and (1/b − 1/b')/(2s) for 1.
    s is rounded up: Laplace noise of a larger scale is that of a smaller scale plus noise, so this is a worse case.
    """
    half = grown_exp(mechanism.epsilon_local / 2)
    roots = [1 + place * (half - 1) / count for place in range(count + 1)]
    below = Cell(half**2, half**2, Fraction(1, 2), 1 / (2 * half**2))
    return (
        below,
        *(
            Cell(low**2, high**2, (high - low) / (2 * half), (1 / low - 1 / high) / (2 * half))
            for low, high in pairwise(roots)
        ),
    )


@lru_cache(maxsize=64)
def gaussian_cells(mechanism: Gaussian, missing: float, count: int = CELLS) -> tuple[Cell, ...]:
    """Return `count` cells below 1/2 and one outside, with `high` = `low`, whose mass is about `missing`."""
    sigma = mechanism.sigma
    # A mass that underflows would vanish together with its P-mass; an earlier cut counts that in `missing`.
    cut = max(min(sigma * NormalDist().inv_cdf(missing), -0.5), 1 - sigma * sqrt(2 * _DEEPEST))
    spaced = NormalDist(-0.5, _WIDER * sigma)
    low, high = spaced.cdf(cut), spaced.cdf(0.5)
    inner = [spaced.inv_cdf(low + (high - low) * place / count) for place in range(1, count)]
    # Any ends of cells are valid; the masses between them are computed from exactly these doubles.
    places = [Fraction(cut), *(Fraction(y) for y in inner if cut < y < 0.5), Fraction(1, 2)]
    ratios = [_gaussian_ratio(mechanism, y) for y in places]
    masses = [[Fraction(mechanism.below(Fraction(x), y)) for y in places] for x in (0, 1)]
    tail = Cell(ratios[0], ratios[0], masses[0][0], masses[1][0])
    bounds = zip(pairwise(ratios), pairwise(masses[0]), pairwise(masses[1]), strict=True)
    return (
        tail,
        *(
            Cell(after, before, right - left, above - below)
            for (before, after), (left, right), (below, above) in bounds
        ),
    )


def _gaussian_ratio(mechanism: Gaussian, y: Fraction) -> Fraction:
    exponent = exact_decimal((1 - 2 * y) / (2 * Fraction(mechanism.sigma) ** 2))
    return Fraction(PRECISE.exp(exponent)) if exponent else Fraction(1)
