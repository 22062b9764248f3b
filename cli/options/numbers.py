"""Writes out numbers as the parser's library reads them, for options that take one: digits alone, or a decimal.

How people write numbers is in `accountant.written_numbers`. Words are changed before the library reads them: only
values of such options. An option that takes a text with a number in it, such as --gamma, reads it by the same rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, get_args, get_type_hints

from hubbub.accountant.written_numbers import FORMS, WHOLE_FORMS, real, whole

_REFUSALS = {
    "valid integer": ("whole number", WHOLE_FORMS),
    "valid float": ("number", FORMS),
    "valid number": ("number", FORMS),
}
"""What the library's messages have in them, with the kind of number and its forms."""

_LIBRARYS = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
"""What the library may read or refuse by itself: with too many digits, a fraction, or beyond a double."""

_REFUSED = "?"
"""No number in any library. The library's message about it is replaced (`with_forms`), so nobody sees it."""


def options_of(kind: type, run: Callable[..., None], option: Callable[[Callable[..., None], str], str]) -> set[str]:
    """Return the options of a command's function that take a number of a kind; `option` names that of a parameter."""
    hints: dict[str, Any] = get_type_hints(run)
    return {option(run, name) for name, hint in hints.items() if name != "return" and kind in (hint, *get_args(hint))}


def written_out(words: Sequence[str], whole_options: Collection[str], other: Collection[str] = ()) -> list[str]:
    """Return the words with the whole numbers after `whole_options` as digits, and those after `other` as decimals.

    Everything else stays as it is, but for what only the library takes for a number: that becomes no number.
    """
    found = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        before = words[place - 1] if place else ""
        if equals and name in (*whole_options, *other):
            found.append(f"{name}={_digits(value) if name in whole_options else _decimal(value)}")
        elif before in whole_options:
            found.append(_digits(word))
        else:
            found.append(_decimal(word) if before in other else word)
    return found


def with_forms(message: str) -> str:
    """Return the library's message about a number that it cannot read, with how numbers are written.

    Its own names the type alone, and differs between its versions.
    """
    for words, (kind, forms) in _REFUSALS.items():
        if words in message:
            return f"it is no {kind}; write one as {forms}"
    return message


def _digits(text: str) -> str:
    try:
        number = whole(text)
    except ValueError:
        return _left(text, int)
    # Python writes out at most 4,300 digits; no option takes so many.
    return str(number) if abs(number) < 10**100 else text


def _decimal(text: str) -> str:
    try:
        return repr(real(text))
    except ValueError:
        return _left(text, float)


def _left(text: str, read: Callable[[str], float]) -> str:
    """Return a text for the library; if only the library takes it for a number, one that it refuses.

    Python reads more forms than people are told: " 7", "1_00" and digits of every script.
    """
    if _LIBRARYS.fullmatch(text):
        return text
    try:
        number = read(text)
    except ValueError:
        return text
    # NaN and infinities have a message of their own.
    return _REFUSED if math.isfinite(number) else text
