"""Writes estimates with as many digits as their standard error allows."""

from __future__ import annotations

import math
from collections.abc import Sequence

LARGEST_PLAIN = 1e15
"""Numbers from here on are written with a power of ten; whole numbers below it are exact in a float."""

MOST_DECIMALS = 9
"""Numbers that need more decimals than this are written with a power of ten."""

DIGITS_OF_ERROR = 2
"""Significant digits of a standard error to print: with more, the estimate would look better than it is."""

DIGITS_WITHOUT_ERROR = 6
"""Significant digits of numbers whose standard error is 0."""


def significant(values: Sequence[float], standard_error: float) -> tuple[str, ...]:
    """Return numbers of one kind (an estimate, its ends, a truth) as texts with the same last decimal.

    It is the second significant digit of the standard error. If that is coarser than the units, zeros fill up the
    number. Either all numbers are written plainly, or each with its own power of ten.
    """
    largest = max((abs(value) for value in (*values, standard_error)), default=0.0)
    last = _last_decimal(largest, standard_error)
    if largest < LARGEST_PLAIN and last <= MOST_DECIMALS:
        return tuple(_plain(value, last) for value in values)
    return tuple(_powered(value, last) for value in values)


def fineness(ends: tuple[float, float]) -> float:
    """Return the precision to print a value with if it has no standard error: a twentieth of its interval."""
    return (ends[1] - ends[0]) / 20


def _last_decimal(largest: float, standard_error: float) -> int:
    """Return the number of decimals to print; negative for tens, hundreds and so on."""
    if standard_error > 0:
        return DIGITS_OF_ERROR - 1 - _magnitude(standard_error)
    return DIGITS_WITHOUT_ERROR - 1 - _magnitude(largest) if largest > 0 and largest != round(largest) else 0


def _magnitude(value: float) -> int:
    """Return the power of ten of a positive number's first digit."""
    return math.floor(math.log10(value))


def _plain(value: float, last: int) -> str:
    return f"{round(value + 0.0, last):z,.{max(0, last)}f}"


def _powered(value: float, last: int) -> str:
    digits = last + _magnitude(abs(value)) if value else 0
    return f"{value:z.{min(max(0, digits), 15)}e}"
