"""Reads numbers as people write them: one rule for every option that takes a number, and for texts with numbers.

1000, 1_000, 1e3, 1e+3, .25, 2.5e-1, 1/4 and 25% are numbers. A whole number is not written as a ratio or with %.
Several have commas between them.
The minus sign may be that of Unicode, which programs for text and tables write.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

T = TypeVar("T")

FORMS = "0.25, .25, 1/4, 25% or 2.5e-1"
"""Forms of a number, for messages and help."""

WHOLE_FORMS = "1000, 1_000 or 1e3"
"""Forms of a whole number."""

MINUS = "\u2212"
"""The minus sign of Unicode, which means what the hyphen of keyboards means before a number."""

_DIGITS = r"(?:\d{1,3}(?:_\d{3}){1,12}|\d{1,40})"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d{{0,40}})?|\.\d{{1,40}})"
# At most three digits: Fraction would also take "1e999999999", and compute it.
_NUMBER = rf"{_DECIMAL}(?:e[+{MINUS}-]?\d{{1,3}})?"
_WHOLE = re.compile(rf"[+{MINUS}-]?{_NUMBER}", re.ASCII | re.IGNORECASE)
_ANY = re.compile(rf"([+{MINUS}-]?{_NUMBER})(?:/({_DECIMAL})|(%))?", re.ASCII | re.IGNORECASE)


def exact(text: str) -> Fraction:
    """Return the number that a text says, exactly.

    Raises:
        ValueError: if it is none of the forms; it names them.
    """
    found = _ANY.fullmatch(text)
    divisor = Fraction(_plain(found[2])) if found and found[2] else Fraction(100 if found and found[3] else 1)
    if found is None or not divisor:
        raise ValueError(f"a number is written as {FORMS}")
    return Fraction(_plain(found[1])) / divisor


def whole(text: str) -> int:
    """Return the whole number that a text says.

    Raises:
        ValueError: if it is none of the forms; it names them.
    """
    number = Fraction(_plain(text)) if _WHOLE.fullmatch(text) else None
    if number is None or number.denominator != 1:
        raise ValueError(f"a whole number is written as {WHOLE_FORMS}")
    return number.numerator


def real(text: str) -> float:
    """Return the double that is nearest to the number that a text says.

    Raises:
        ValueError: if it is none of the forms, or too large for a double.
    """
    try:
        return float(exact(text))
    except OverflowError as error:
        raise ValueError("a number is below 1.8e308") from error


def limit(text: str) -> float:
    """Return the limit that a text says: a number as `real` reads it, or `inf` for no limit.

    Raises:
        ValueError: if it is neither.
    """
    return math.inf if text == "inf" else real(text)


def several(text: str, read: Callable[[str], T]) -> list[T]:
    """Return the numbers in a text with commas between them, as `read` reads one; spaces around each do not count.

    Raises:
        ValueError: if `read` does not take one of them.
    """
    return [read(word.strip()) for word in text.split(",")]


def _plain(text: str) -> str:
    return text.replace("_", "").replace(MINUS, "-")
