"""Defines Gaussian noise on an answer from an interval: it has no local ε, only a local (ε, δ)."""

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import PRECISE, exact_decimal
from hubbub.accountant.mechanisms.laplace import check_answer
from hubbub.accountant.numbers import real

SIGMA_LEAST, SIGMA_LIMIT = 0.05, 1e6
"""Smallest standard deviation, in widths of the answers' interval: below it a report is the plain answer."""


@dataclass(frozen=True)
class Gaussian:
    """x + N(0, sigma²) for an answer x in [0, 1]; any other interval is scaled to this one first, sigma with it.

    There is no local ε for any sigma: ratios of densities are unbounded. So this type has no `epsilon_local`, and
    of the bounds only the blanket covers it (balle-2019, Lemma 5.1; its A.1 (3): the blanket's probability is
    2·P[N(0, sigma²) ≤ −1/2]). Raises AccountingError unless 0.05 ≤ sigma ≤ 1e6.
    """

    counts_dummies: ClassVar[bool] = True

    sigma: float

    def __post_init__(self) -> None:
        if not SIGMA_LEAST <= real(self.sigma) <= SIGMA_LIMIT:
            raise AccountingError(
                f"sigma is {shown(self.sigma)}; give a number from {SIGMA_LEAST} to {SIGMA_LIMIT:g}, in widths of the "
                "interval of answers"
            )
        object.__setattr__(self, "sigma", float(self.sigma))

    @property
    def gamma(self) -> Fraction:
        """Total variation similarity 2Φ(−1/(2 sigma)), rounded down beyond 50 digits."""
        return Fraction(2 * self.below(Fraction(1, 2), Fraction(0))) * (1 - Fraction(1, 10**55))

    def density(self, x: Fraction, y: Fraction) -> Decimal:
        """Return the density of the report `y` for the answer `x` in [0, 1], to 70 digits."""
        z = exact_decimal((y - check_answer(x)) / Fraction(self.sigma))
        decay = PRECISE.exp(PRECISE.divide(PRECISE.multiply(z, z), Decimal(-2)))
        return PRECISE.divide(decay, PRECISE.multiply(_root(PRECISE), Decimal(self.sigma)))

    def below(self, x: Fraction, y: Fraction) -> Decimal:
        """Return the probability of a report below `y` for the answer `x` in [0, 1], to 70 significant digits."""
        return normal_below((y - check_answer(x)) / Fraction(self.sigma))


@lru_cache(maxsize=4096)
def normal_below(z: Fraction) -> Decimal:
    """Return Φ(z) to 70 significant digits, for |z| up to about 60.

    Φ(z) − 1/2 = φ(z)·(z + z³/3 + z⁵/15 + …), a series of one sign. For z < 0 the sum with 1/2 cancels, by about z²/2 in
    the exponent, so that many more digits are carried.
    """
    size = abs(z)
    context = Context(prec=90 + ceil(float(size) ** 2 / 4), Emin=-99999, Emax=99999)
    value = context.divide(Decimal(size.numerator), Decimal(size.denominator))
    square = context.multiply(value, value)
    term, total, index = value, value, 1
    least = Decimal(10) ** -(context.prec + 5)
    while term > total * least:
        index += 2
        term = context.divide(context.multiply(term, square), Decimal(index))
        total = context.add(total, term)
    decay = context.exp(context.divide(square, Decimal(-2)))
    inner = context.divide(context.multiply(total, decay), _root(context))
    half = Decimal("0.5")
    return PRECISE.plus(context.add(half, inner) if z >= 0 else context.subtract(half, inner))


def _root(context: Context) -> Decimal:
    """Return √(2π) to the context's precision."""
    digits = context.prec + 5
    return context.sqrt(context.divide(Decimal(2 * _pi(digits)), Decimal(10) ** digits))


@lru_cache(maxsize=64)
def _pi(digits: int) -> int:
    """Return π·10^digits but for some units of the last digit (Machin: 16·atan(1/5) − 4·atan(1/239))."""
    unit = 10 ** (digits + 10)
    total = 0
    for factor, inverse in ((16, 5), (-4, 239)):
        power, index, sign = unit // inverse, 1, 1
        while power:
            total += factor * sign * (power // index)
            power //= inverse * inverse
            index, sign = index + 2, -sign
    return int(total // 10**10)
