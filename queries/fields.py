"""Reads a question's table, from a draft's TOML or a frozen task's JSON, with errors that name the key."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from hubbub.queries.errors import FieldError, UnknownKey, did_you_mean, shown

REFUSED_FORMATS = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
"""Characters that change the direction of the text around them, so that it can be taken for another."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
"""Names of tasks. They become part of file names, so few characters are allowed."""

MAXIMUM_NAME_LENGTH = 63
"""Characters of a task's or a query's name."""

MAXIMUM_LABEL_LENGTH = 200
"""Characters of a category's name or a unit."""

MAXIMUM_SYMBOLS = 1_000_000
"""Most symbols of one query; the accountant's bounds are checked up to here."""

DENOMINATOR = 2**32
"""Denominator of every probability in a task, so that one 32-bit draw decides exactly."""

DEFAULT_RANDOMIZER = "krr"
"""The randomizer of a query that does not name one; a task leaves it out too."""

AUTO = "auto"
"""The value with which a draft lets planning choose the kind of randomizer; no task has it."""

TYPICAL_SHARE = 0.01
"""The default of `share`: the largest share of people with the same answer of a large domain."""

_SHARED = frozenset({"name", "kind"})
_SHARED_OPTIONAL = frozenset({"optional", "weight", "randomizer", "error"})

SHARED_KEYS = _SHARED | _SHARED_OPTIONAL
"""The keys of every query in a draft."""


@dataclass(frozen=True)
class Fields:
    """One query's table, named as errors name it (`query[0]`).

    `planned` is true for a frozen task, whose randomizer and encoding are chosen, and false for a draft.
    """

    table: str
    content: Mapping[str, Any]
    planned: bool = False

    def check_keys(self, required: Set[str], optional: Set[str] = frozenset()) -> None:
        """Return only if a draft's table has the keys every question has, those required, and no unknown one.

        A frozen task is not checked here: its reader writes it again and compares the bytes, which finds unknown keys.

        Raises:
            FieldError: naming the first key that is unknown or missing.
        """
        if not self.planned:
            check_keys(self.table, self.content, _SHARED | required, _SHARED_OPTIONAL | optional)

    def __getitem__(self, key: str) -> Any:
        if key not in self.content:
            raise FieldError(self.table, key, "is missing; add it")
        return self.content[key]

    def get(self, key: str, default: Any) -> Any:
        """Return a value, or the default if the key is absent."""
        return self.content.get(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number as a float.

        Raises:
            FieldError: if it is not a number, or too large for a float.
        """
        return as_float(self.table, key, self[key] if default is None else self.get(key, default))

    def items(self, key: str, what: str) -> tuple[Any, ...]:
        """Return the members of a list.

        Raises:
            FieldError: if it is not a list; `what` names its members in the message.
        """
        value = self[key]
        if not isinstance(value, list):
            raise FieldError(self.table, key, f"is {shown(value)}; it must be a list of {what}")
        return tuple(value)

    def shared(self, randomizer: str = DEFAULT_RANDOMIZER) -> dict[str, Any]:
        """Return what every question has: its name, weight, whether it is optional, and its randomizer's kind.

        `randomizer` is the default in a draft. A task has it as `mechanism`, unless the question has no randomizer.
        """
        return {
            "name": self["name"],
            "optional": self.get("optional", False),
            "weight": self.number("weight", 1.0),
            "randomizer": self.get("mechanism", DEFAULT_RANDOMIZER)
            if self.planned
            else self.get("randomizer", randomizer),
        }

    def ratio(self, key: str, remedy: str) -> int:
        """Return the numerator of a probability [w, 2³²], strictly between 0 and 1.

        Raises:
            FieldError: if it has another form; `remedy` explains why 0 and 1 are excluded.
        """
        value = self[key]
        # The exact type is compared, because True would be a numerator of 1.
        if isinstance(value, list) and len(value) == 2:
            numerator, denominator = value
            if type(numerator) is type(denominator) is int and 0 < numerator < denominator == DENOMINATOR:
                return numerator
        limit = f"it must be [w, {DENOMINATOR}] with w from 1 to {DENOMINATOR - 1}: {remedy}"
        raise FieldError(self.table, key, f"is {shown(value)}; {limit}")


def check_keys(table: str, content: Mapping[str, Any], required: Set[str], optional: Set[str]) -> None:
    """Return only if a table has all keys that are required and no unknown one.

    Raises:
        FieldError: naming the first key that is unknown or missing.
    """
    for key in content:
        if key not in required | optional:
            known = sorted(required | optional)
            hint = did_you_mean(key, known)
            raise UnknownKey(table, key, f"is not a key hubbub knows; {hint}it knows {', '.join(known)}")
    for key in sorted(required - set(content)):
        raise FieldError(table, key, "is missing; add it")


def as_float(table: str, key: str, value: Any) -> float:
    """Return a number as a float.

    Raises:
        FieldError: if it is not a number, or too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(table, key, f"is {shown(value)}; it must be a number")
    try:
        return float(value) + 0.0  # -0.0 and 0.0 are one number and must not make two tasks
    except OverflowError as error:
        raise FieldError(table, key, "is too large a number; it must be finite") from error


def check_name(table: str, name: Any) -> None:
    """Return only if `name` is one that a task may have.

    Raises:
        FieldError: otherwise.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise FieldError(table, "name", f"is {shown(name)}; use a letter, then up to 62 letters, digits, - or _")


def is_printable(text: str) -> bool:
    """Return whether a text has only characters of written language: Python's printable ones, all spaces, all formats.

    Formats are such as the soft hyphen, the joiners of Persian and of emoji, and the tags of flags. Refused are those
    of `REFUSED_FORMATS`, controls, line breaks, surrogates, private and unassigned characters.
    """
    # Nearly all texts pass the first check, which is in C.
    return text.isprintable() or all(
        mark.isprintable() or (unicodedata.category(mark) in ("Zs", "Cf") and mark not in REFUSED_FORMATS)
        for mark in text
    )


def check_query_name(table: str, name: Any) -> None:
    """Return only if `name` is one that a query may have: a text of any script, in its only form.

    Raises:
        FieldError: otherwise.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAXIMUM_NAME_LENGTH or not is_printable(name):
        raise FieldError(table, "name", f"is {shown(name)}; use 1 to {MAXIMUM_NAME_LENGTH} printable characters")
    # Answers are written NAME=VALUE, and two names that look the same must be the same.
    if "=" in name or name != name.strip() or not unicodedata.is_normalized("NFC", name):
        limit = "it must have no = and no spaces at its ends, and be in Unicode's composed form (NFC)"
        raise FieldError(table, "name", f"is {shown(name)}; {limit}")


def check_count(table: str, key: str, value: Any, least: int, most: int) -> None:
    """Return only if `value` is a whole number within [least, most].

    Raises:
        FieldError: otherwise.
    """
    if type(value) is not int or not least <= value <= most:
        raise FieldError(table, key, f"is {shown(value)}; it must be a whole number from {least} to {most}")


def check_shared(table: str, name: Any, optional: Any, weight: Any) -> None:
    """Return only if the values that every question has are within their limits.

    Raises:
        FieldError: naming the first value that is not.
    """
    check_query_name(table, name)
    if not isinstance(optional, bool):
        raise FieldError(table, "optional", f"is {shown(optional)}; it must be true or false")
    if not isinstance(weight, float) or not 1e-6 <= weight <= 1e6:
        raise FieldError(table, "weight", f"is {shown(weight)}; it must be a number from 1e-6 to 1e6")


def check_share(table: str, share: Any) -> None:
    """Return only if a share of people is above 0 and at most 1.

    Raises:
        FieldError: otherwise.
    """
    if not isinstance(share, float) or not 0 < share <= 1:
        raise FieldError(table, "share", f"is {shown(share)}; it must be a number above 0 and at most 1, such as 0.01")


def is_finite_number(value: Any) -> bool:
    """Return whether a value is a finite float."""
    return isinstance(value, float) and math.isfinite(value)
