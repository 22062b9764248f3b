"""Writes the exact numbers of a mechanism as JSON values, and reads them back.

A signed form must read the same everywhere, and a JSON float need not (Python writes 1e-06, a browser 0.000001). So
probabilities are pairs of whole numbers [numerator, 2**32]. If any denominator is allowed, they are texts of fractions
in lowest terms. Real numbers are texts in C's hexadecimal notation.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from hubbub.accountant.errors import AccountingError, listed, shown

GAMMA_DENOMINATOR = 2**32
"""A task writes its probabilities as w / 2**32: a client compares a 32-bit draw with w."""

_FRACTION = re.compile("[0-9]{1,80}(?:/[0-9]{1,80})?")
"""A probability as text: no sign, exponent or space, and no more digits than a number of 256 bits has."""

LONGEST_EXACT = 36
"""The most characters of a fraction in a repr: with 2**32 below it, every probability of a task is shown exactly."""

Fits = Callable[[Any], bool]
"""Whether a JSON value has the shape of a member; the mechanism checks its range."""


def is_count(value: Any) -> bool:
    """Whether `value` is a whole number from 0. `True` is an `int` in Python, but not a number in JSON."""
    return type(value) is int and value >= 0


def is_ratio(value: Any) -> bool:
    """Whether `value` is a probability as `written_probability` writes it."""
    return type(value) is list and len(value) == 2 and all(map(is_count, value)) and value[1] == GAMMA_DENOMINATOR


def is_text(value: Any) -> bool:
    """Whether `value` is a text."""
    return type(value) is str


def is_fraction_text(value: Any) -> bool:
    """Whether `value` is a text like "1/2" or "1": a whole number, or two with a slash between, in digits."""
    return is_text(value) and _FRACTION.fullmatch(value) is not None


def pair_of_counts(value: Any) -> bool:
    """Whether `value` is a list of two whole numbers from 0."""
    return type(value) is list and len(value) == 2 and all(map(is_count, value))


def list_of(fits: Fits) -> Fits:
    """Return the shape of a list of values of the shape `fits`."""
    return lambda value: type(value) is list and all(map(fits, value))


def or_none(fits: Fits) -> Fits:
    """Return the shape of null, or of a value of the shape `fits`."""
    return lambda value: value is None or fits(value)


def written_probability(name: str, value: Fraction) -> list[int]:
    """Return `value` as [numerator, 2**32]; raises AccountingError if it is not such a fraction."""
    numerator = value * GAMMA_DENOMINATOR
    if numerator.denominator != 1:
        raise AccountingError(
            f"{name} is {shown(value)}, not a multiple of 1/{GAMMA_DENOMINATOR}, so it cannot be written exactly; "
            "build the mechanism from numerators, as a task does"
        )
    return [numerator.numerator, GAMMA_DENOMINATOR]


def read_real(name: str, value: str) -> float:
    """Return the double whose `float.hex` is `value`, or raise AccountingError."""
    try:
        return float.fromhex(value)
    except (ValueError, OverflowError) as wrong:
        raise AccountingError(
            f"{name} is {shown(value)}; give a number as float.hex writes it, such as 0x1.0p-1"
        ) from wrong


def read_fraction(value: str) -> Fraction:
    """Return the fraction of a text that `is_fraction_text` accepts; raises AccountingError if its denominator is 0."""
    numerator, _, denominator = value.partition("/")
    if denominator and not int(denominator):
        raise AccountingError(f"a probability is {shown(value)}; give a denominator above 0, as in 1/4")
    return Fraction(int(numerator), int(denominator or 1))


def check_content(kind: str, members: Mapping[str, Fits], content: Mapping[str, Any]) -> None:
    """Return only if `content` names `kind` and has exactly its `members`, each of its shape.

    Raises:
        AccountingError: otherwise.
    """
    if content.get("mechanism") != kind:
        raise AccountingError(f"mechanism is {shown(content.get('mechanism'))}; it must be {kind!r} to be read as one")
    if set(content) != {"mechanism", *members}:
        raise AccountingError(
            f"the members of a {kind!r} mechanism are {listed(sorted(map(str, content))):.200}; "
            f"give exactly {listed(sorted({'mechanism', *members}))}"
        )
    for name, fits in members.items():
        if not fits(content[name]):
            raise AccountingError(
                f"{name} of a {kind!r} mechanism is {shown(content[name])}, which is not of the expected form; "
                "write it as the mechanism's content() does"
            )


def short_repr(mechanism: Any) -> str:
    """Return the repr of a frozen mechanism in few characters: an exact fraction may have eighty digits on each side.

    A fraction with a long numerator or denominator is shown as its nearest decimal, after a sign that says so.
    """
    shown_fields = (f"{each.name}={_short(getattr(mechanism, each.name))}" for each in fields(mechanism))
    return f"{type(mechanism).__name__}({', '.join(shown_fields)})"


def _short(value: object) -> str:
    if isinstance(value, tuple) and value:
        return f"({_short(value[0])}, … {len(value)} in all)" if len(value) > 1 else f"({_short(value[0])},)"
    if not isinstance(value, Fraction):
        return repr(value)
    exact = repr(value)
    return exact if len(exact) <= LONGEST_EXACT else f"≈{float(value):.8g}"
