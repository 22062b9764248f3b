"""Computes the numbers of mechanisms to 80 digits, so that no float decides privacy."""

from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.numbers import real

EPSILON_LOCAL_LIMIT = 40.0
"""Largest local epsilon accepted; at 40 a report is practically the plain answer."""

EPSILON_LOCAL_LEAST = 1e-20
"""Smallest positive local epsilon: below it the 80 digits of e^epsilon would lose their relative precision."""

PRECISE = Context(prec=80, Emin=-9999, Emax=9999)
_PAD = Decimal(10) ** -60
"""Room above the last digit of a correctly rounded 80-digit result."""

GROWN = PRECISE.add(Decimal(1), _PAD)


def exact_decimal(value: Fraction) -> Decimal:
    """Return `value` to 80 significant digits, rounded to nearest."""
    return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache(maxsize=256)
def exp_decimal(exponent: float) -> Decimal:
    """Return e to the power `exponent`, taken as an exact binary number, to 80 significant digits."""
    return PRECISE.exp(Decimal(exponent))


def checked_epsilon_local(epsilon_local: float) -> float:
    """Return `epsilon_local` as a float, 0 or in [1e-20, 40], or raise AccountingError."""
    value = real(epsilon_local)
    if value != 0 and not EPSILON_LOCAL_LEAST <= value <= EPSILON_LOCAL_LIMIT:
        raise AccountingError(
            f"epsilon_local is {shown(epsilon_local)}; give 0, or a number from {EPSILON_LOCAL_LEAST:g} to "
            f"{EPSILON_LOCAL_LIMIT:g}"
        )
    return value


def grown_exp(exponent: float) -> Fraction:
    """Return e to the power `exponent` ≥ 0, rounded up beyond 50 digits; 1 exactly at 0."""
    return Fraction(PRECISE.multiply(exp_decimal(exponent), GROWN)) if exponent else Fraction(1)


def log_above(value: Fraction) -> float:
    """Return a double that is not below ln `value`, for `value` ≥ 1; 0.0 exactly at 1."""
    if value == 1:
        return 0.0
    logarithm = PRECISE.ln(exact_decimal(value))
    return float_above(PRECISE.add(PRECISE.multiply(logarithm, GROWN), Decimal(10) ** -75))


def checked_probability(name: str, value: object) -> Fraction:
    """Return `value`, an exact fraction strictly between 0 and 1, at least 2**-80 from both; else AccountingError."""
    if not isinstance(value, Fraction):
        raise AccountingError(f"{name} is {shown(value)}; give an exact Fraction such as Fraction(3, 4)")
    least = Fraction(1, 2**80)
    if not least <= value <= 1 - least:
        raise AccountingError(f"{name} is {shown(value)}; give a fraction from 2**-80 to 1 - 2**-80")
    return value


def float_above(value: Decimal) -> float:
    """Return a double that is not below `value`."""
    result = float(value)
    return result if Decimal(result) >= value else nextafter(result, inf)
