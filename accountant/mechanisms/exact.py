"""Numbers that mechanisms are made of, to 80 digits: no float decides privacy."""

from decimal import Context, Decimal
from fractions import Fraction
from math import inf, nextafter

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.numbers import real

EPSILON_LOCAL_LIMIT = 40.0
"""Largest local epsilon accepted; at 40 a report is the plain answer for every practical purpose."""

EPSILON_LOCAL_LEAST = 1e-20
"""Smallest positive local epsilon: below it the 80 digits of e^epsilon would lose their relative precision."""

PRECISE = Context(prec=80, Emin=-9999, Emax=9999)
_PAD = Decimal(10) ** -60
"""Room above the last digit of a correctly rounded 80-digit result."""

GROWN = PRECISE.add(Decimal(1), _PAD)


def exact_decimal(value: Fraction) -> Decimal:
    """`value` to 80 significant digits, rounded to nearest."""
    return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def exp_decimal(exponent: float) -> Decimal:
    """E to the power `exponent` (taken as the exact binary number it is), to 80 significant digits."""
    return PRECISE.exp(Decimal(exponent))


def checked_epsilon_local(epsilon_local: float) -> float:
    """`epsilon_local` as a float, 0 or in [1e-20, 40], or an error that says what is wrong."""
    value = real(epsilon_local)
    if value != 0 and not EPSILON_LOCAL_LEAST <= value <= EPSILON_LOCAL_LIMIT:
        raise AccountingError(
            f"epsilon_local is {shown(epsilon_local)}, must be from {EPSILON_LOCAL_LEAST:g} to "
            f"{EPSILON_LOCAL_LIMIT:g}, or 0; choose one in between"
        )
    return value


def float_above(value: Decimal) -> float:
    """Return a double that is not below `value`."""
    result = float(value)
    return result if Decimal(result) >= value else nextafter(result, inf)
