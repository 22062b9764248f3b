"""Rounds published numbers to digits that anybody computes again, and tells whether a stated number is such a one.

Processors and versions of numerical libraries add up in another order, so they differ in the last digits of a double.
A file of results does not state these digits. So every digit that it states can be checked.

- The numbers of one row, such as an estimate, its standard error and its ends, have one place of their last digit. It
  is the ninth digit of the largest of them. An estimate near zero is only as precise as its error.
- A chance (`p_value`) has six digits of its own: it may be as small as 1e-300.
- A whole number is stated whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DIGITS = 9
"""Digits of the largest number of a row."""

CHANCE_DIGITS = 6
"""Digits of a chance."""

NOISE = 1e-12
"""How far the largest number of a row may be from what another machine computes, as a share of it: at most a thousandth
of the last digit. Sums of 10⁹ reports in any order differ by less."""

CHANCE_NOISE = 1e-9
"""The same of a chance, whose logarithm is what libraries compute."""

CHANCE = "p_value"
"""The member that is a chance."""

IN_ONE_UNIT = (
    *("estimate", "standard_error", "lower", "upper"),
    *("simultaneous_lower", "simultaneous_upper", "consistent"),
)
"""The members of a row that have one unit."""

_WHOLE = 2.0**53
"""Beyond it every double is a whole number."""


def in_digits(document: Any) -> Any:
    """Return a JSON value with every row in it rounded to the digits that are stated; other numbers stay."""
    if isinstance(document, list):
        return [in_digits(each) for each in document]
    if not isinstance(document, dict):
        return document
    if is_row(document):
        return row_in_digits(document)
    return {name: in_digits(member) for name, member in document.items()}


def is_row(members: Mapping[str, Any]) -> bool:
    """Return whether these are the members of a published number."""
    return "standard_error" in members


def row_in_digits(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its numbers rounded to the digits that are stated."""
    sizes = {name: size_of(members, name) for name in (*IN_ONE_UNIT, CHANCE) if _is_float(members.get(name))}
    return {
        name: _rounded(value, sizes[name], _digits(name)) if name in sizes else value for name, value in members.items()
    }


def size_of(members: Mapping[str, Any], name: str) -> float:
    """Return the size of the number whose digits a member of a row is rounded to: the row's largest, or its own."""
    if name == CHANCE:
        return abs(float(members[name]))
    found = [abs(float(members[each])) for each in IN_ONE_UNIT if _is_float(members.get(each))]
    return max((size for size in found if math.isfinite(size)), default=0.0)


def follows(stated: float, computed: float, size: float, name: str) -> bool:
    """Return whether a stated number is the rounded one of `computed`, or of a number that another machine computes.

    `size` is `size_of` the computed row. A difference of one in the last stated digit does not follow, unless the
    computed number is within `NOISE` of the middle between both.
    """
    room = size * (CHANCE_NOISE if name == CHANCE else NOISE)
    if not math.isfinite(stated) or not math.isfinite(computed):
        return stated == computed
    if stated.is_integer() and abs(stated - computed) <= room:
        # It is whole here, or where it was stated, so it was not rounded to `DIGITS`.
        return True
    # The size too may be on the other side of a power of ten on another machine.
    sizes = (size, size + room, size - room)
    return any(
        stated == _rounded(computed + moved, each, _digits(name)) for moved in (0.0, room, -room) for each in sizes
    )


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _digits(name: str) -> int:
    return CHANCE_DIGITS if name == CHANCE else DIGITS


def _rounded(value: float, size: float, digits: int) -> float:
    """Return a number cut where a number of that size has so many digits; the last one is rounded."""
    if not math.isfinite(value) or (value.is_integer() and abs(value) < _WHOLE) or size <= 0:
        return value + 0.0
    place = digits - 1 - math.floor(math.log10(size))
    try:
        # Adding 0 makes -0.0 a plain 0.
        return round(value, place) + 0.0
    except OverflowError:
        return value
