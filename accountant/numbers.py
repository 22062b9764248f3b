"""Rounds certified numbers to the safe side, and checks the range of inputs."""

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import exp, inf, isfinite, log, nan, nextafter
from numbers import Real

from hubbub.accountant.errors import AccountingError, shown

UNIT_ROUNDOFF = 2.0**-53
"""Relative error of one correctly rounded double operation."""

DROWNED = 1.1
"""Exponent charged to a number of an integral if only a bound on its size is known: e^1.1 − 1 > 2."""

EPSILON_MOST = 100.0
"""Largest ε that the accountant accepts."""

REPORTS_LIMIT = 10**13
"""Most reports of one batch; above it doubles cannot resolve a sum's phase."""

DELTA_LEAST = 1e-100
"""Smallest δ that the accountant accepts."""

SMALLEST = 2.0**-1022
"""Smallest normal double: a positive upper value becomes this if it underflows."""


def exp_up(exponent: float) -> float:
    """Return a double never below e**exponent; it is positive, and infinity if e**exponent overflows."""
    if exponent > 709.0:
        return inf
    return max(exp(exponent) * (1 + 4 * UNIT_ROUNDOFF), SMALLEST)


def exp_down(exponent: float) -> float:
    """Return a double never above e**exponent; 0.0 if that is tiny."""
    if exponent < -700.0:
        return 0.0
    return exp(min(exponent, 709.0)) * (1 - 4 * UNIT_ROUNDOFF)


def log_up(value: float) -> float:
    """Return a double never below ln `value`, for `value` > 0."""
    return nextafter(log(value), inf)


def log_down(value: float) -> float:
    """Return a double never above ln `value`, for `value` > 0."""
    return nextafter(log(value), -inf)


def fraction_up(value: Fraction) -> float:
    """Return the nearest double that is not below `value`."""
    result = float(value)
    return result if Fraction(result) >= value else nextafter(result, inf)


def fraction_down(value: Fraction) -> float:
    """Return the nearest double that is not above `value`."""
    result = float(value)
    return result if Fraction(result) <= value else nextafter(result, -inf)


def round_up_significant(value: float, digits: int = 6) -> float:
    """Return `value` rounded up to `digits` significant decimal digits, as a double never below `value`."""
    if not isfinite(value) or value == 0:
        return value
    nearest = float(f"{value:.{digits - 1}e}")
    if nearest >= value:
        return nearest
    rounded = float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value)))
    # The decimal is not below `value`, but the nearest double may be.
    return rounded if rounded >= value else nextafter(value, inf)


def round_down_significant(value: float, digits: int = 6) -> float:
    """Return `value` rounded down to `digits` significant decimal digits, as a double never above `value`."""
    return -round_up_significant(-value, digits)


def exact_share(share: float) -> Fraction:
    """Return `share`, in (0, 1], as the decimal number that was written: 0.9 is nine tenths."""
    if not 0 < real(share) <= 1:
        raise AccountingError(
            f"honest_share is {shown(share)}; give a number above 0 and at most 1; 1 means everyone is honest"
        )
    return Fraction(str(share))


def honest_reports(valid: int, reports: int, honest_share: float) -> int:
    """Return how many reports surely hide a person: valid - ceil((1 - honest_share) * reports), at least 0.

    All dishonest reports are subtracted from the valid ones (docs/explanation/accounting-crowds.md).
    """
    if not (_is_whole(valid) and _is_whole(reports) and 0 <= valid <= reports):
        raise AccountingError(
            f"valid reports are {shown(valid)}; give a whole number from 0 to all {shown(reports)} of the batch"
        )
    dishonest = (1 - exact_share(honest_share)) * int(reports)
    # Rounded up: a fraction of a dishonest person counts as a whole one.
    return max(0, int(valid) - -(-dishonest.numerator // dishonest.denominator))


def real(value: object) -> float:
    """Return `value` as a double; NaN if it is not a real number, such as a text or a boolean."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return nan


def _is_whole(value: object) -> bool:
    return isfinite(real(value)) and int(value) == value  # type: ignore[call-overload]  # real() is finite: a number


def checked_whole(name: str, value: object, least: int, most: int = REPORTS_LIMIT) -> int:
    """Return `value` as a whole number from `least` to `most` (exact in a double), or raise an error about `name`."""
    if not _is_whole(value) or not least <= real(value) <= most:
        raise AccountingError(f"{name} is {shown(value)}; give a whole number from {least} to {most:g}")
    return int(real(value))


def checked_reports(reports: int) -> int:
    """Return `reports` as a whole number from 1 to 10**13, or raise AccountingError."""
    return checked_whole("reports", reports, 1)


def checked_dummies(dummies: int) -> int:
    """Return `dummies` as a whole number from 0 to 10**13, or raise AccountingError."""
    return checked_whole("dummies", dummies, 0)


def checked_delta(delta: float) -> float:
    """Return `delta`, in (0, 1) and at least `DELTA_LEAST`, or raise AccountingError."""
    value = real(delta)
    if not 0 < value < 1:
        raise AccountingError(f"delta is {shown(delta)}; give a number above 0 and below 1, such as 1e-6")
    if value < DELTA_LEAST:
        raise AccountingError(f"delta is {shown(delta)}; give at least {DELTA_LEAST:g}, such as 1e-15")
    return value


def checked_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float from 0 to `EPSILON_MOST`, or raise AccountingError."""
    value = real(epsilon)
    if not 0 <= value <= EPSILON_MOST:
        raise AccountingError(f"epsilon is {shown(epsilon)}; give a number from 0 to {EPSILON_MOST:g}")
    return value
