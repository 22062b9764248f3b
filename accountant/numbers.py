"""Directed arithmetic: numbers that certify are rounded to the side that is safe."""

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import exp, inf, isfinite, nextafter

from hubbub.accountant.errors import AccountingError

UNIT_ROUNDOFF = 2.0**-53
"""Relative error of one correctly rounded double operation."""

REPORTS_LIMIT = 10**13
"""Most reports of one batch; above it a sum's phase is no longer resolved by doubles."""

SMALLEST = 2.0**-1022
"""Smallest normal double: what a positive upper value becomes when it underflows."""


def exp_up(exponent: float) -> float:
    """A double never below e**exponent; positive, and infinity where it overflows."""
    if exponent > 709.0:
        return inf
    return max(exp(exponent) * (1 + 4 * UNIT_ROUNDOFF), SMALLEST)


def exp_down(exponent: float) -> float:
    """A double never above e**exponent, 0.0 where that is tiny."""
    if exponent < -700.0:
        return 0.0
    return exp(min(exponent, 709.0)) * (1 - 4 * UNIT_ROUNDOFF)


def fraction_up(value: Fraction) -> float:
    """The nearest double that is not below `value`."""
    result = float(value)
    return result if Fraction(result) >= value else nextafter(result, inf)


def fraction_down(value: Fraction) -> float:
    """The nearest double that is not above `value`."""
    result = float(value)
    return result if Fraction(result) <= value else nextafter(result, -inf)


def round_up_significant(value: float, digits: int = 6) -> float:
    """`value` rounded up to `digits` significant decimal digits: as a double, never below `value`."""
    if not isfinite(value) or value == 0:
        return value
    nearest = float(f"{value:.{digits - 1}e}")
    if nearest >= value:
        return nearest
    rounded = float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value)))
    return rounded if rounded >= value else nextafter(value, inf)


def exact_share(share: float) -> Fraction:
    """`share` as the decimal number that was written (0.9 is nine tenths), in (0, 1]."""
    if not isfinite(share) or not 0 < share <= 1:
        raise AccountingError(f"honest_share is {share}, must be above 0 and at most 1; 1 means everyone is honest")
    return Fraction(str(share))


def honest_reports(valid: int, reports: int, honest_share: float) -> int:
    """Reports that surely hide a person: valid - ceil((1 - honest_share) * reports), at least 0.

    The dishonest ones are taken from the valid ones, all of them (math.md, "Dishonest clients").
    """
    if not 0 <= valid <= reports:
        raise AccountingError(f"valid reports are {valid}, must be from 0 to the {reports} reports of the batch")
    dishonest = (1 - exact_share(honest_share)) * reports
    return max(0, valid - -(-dishonest.numerator // dishonest.denominator))


def checked_reports(reports: int) -> int:
    """`reports` as a whole number from 1 to 10**13, or an error."""
    if isinstance(reports, bool) or int(reports) != reports or not 1 <= reports <= REPORTS_LIMIT:
        raise AccountingError(f"reports is {reports}, must be a whole number from 1 to {REPORTS_LIMIT:.0e}")
    return int(reports)


def checked_dummies(dummies: int) -> int:
    """`dummies` as a whole number from 0 to 10**13, or an error."""
    if isinstance(dummies, bool) or int(dummies) != dummies or not 0 <= dummies <= REPORTS_LIMIT:
        raise AccountingError(f"dummies is {dummies}, must be a whole number from 0 to {REPORTS_LIMIT:.0e}")
    return int(dummies)


def checked_delta(delta: float) -> float:
    """`delta` in (0, 1), or an error."""
    if not isfinite(delta) or not 0 < delta < 1:
        raise AccountingError(f"delta is {delta}, must be above 0 and below 1; a common choice is 1e-6")
    if delta < 1e-100:
        raise AccountingError(f"delta is {delta}, must be at least 1e-100; choose 1e-15 or more")
    return float(delta)


def checked_epsilon(epsilon: float) -> float:
    """`epsilon` as a float from 0 to 100, or an error."""
    if not isfinite(epsilon) or not 0 <= epsilon <= 100:
        raise AccountingError(f"epsilon is {epsilon}, must be from 0 to 100; choose one a person can rely on")
    return float(epsilon)
