"""Writes out numbers as people write them: 5e4 or 50_000 for options that take a whole number, 1/4 for other numbers.

The parser's library takes digits or a decimal alone. So the words are changed before it reads them: only values of such
options. An option that takes a text, such as --gamma, reads what people write itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any, get_args, get_type_hints

_RATIO = re.compile(r"(\d{1,20})/(\d{1,20})", re.ASCII)
_SHORT = re.compile(r"\d{1,20}(\.\d{1,20})?e\+?\d{1,2}|\d{1,3}(_\d{3})+", re.ASCII | re.IGNORECASE)


def options_of(kind: type, run: Callable[..., None], option: Callable[[Callable[..., None], str], str]) -> set[str]:
    """Return the options of a command's function that take a number of a kind; `option` names that of a parameter."""
    hints: dict[str, Any] = get_type_hints(run)
    return {option(run, name) for name, hint in hints.items() if name != "return" and kind in (hint, *get_args(hint))}


def written_out(words: Sequence[str], whole: Collection[str], other: Collection[str] = ()) -> list[str]:
    """Return the words with the whole numbers after `whole` options as digits, and those after `other` as decimals.

    Everything else stays as it is.
    """
    found = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        before = words[place - 1] if place else ""
        if equals and name in (*whole, *other):
            found.append(f"{name}={digits(value) if name in whole else decimal(value)}")
        elif before in whole:
            found.append(digits(word))
        else:
            found.append(decimal(word) if before in other else word)
    return found


def digits(text: str) -> str:
    """Return a whole number as digits; a text that is none as it is."""
    if not _SHORT.fullmatch(text):
        return text
    number = Decimal(text)
    return str(int(number)) if number == number.to_integral_value() else text


def decimal(text: str) -> str:
    """Return a ratio p/q, or a number with _ between its digits, as the nearest decimal; any other text as it is."""
    ratio = _RATIO.fullmatch(text)
    if ratio is None or not int(ratio[2]):
        return digits(text) if "_" in text else text
    return repr(int(ratio[1]) / int(ratio[2]))
