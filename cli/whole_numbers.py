"""Writes out whole numbers as people write them, 5e4 or 50_000, for options that take a whole number.

The parser's library takes digits alone. So the words are changed before it reads them: only values of such options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any, get_args, get_type_hints

_SHORT = re.compile(r"\d{1,20}(\.\d{1,20})?e\+?\d{1,2}|\d{1,3}(_\d{3})+", re.ASCII | re.IGNORECASE)


def whole_options(run: Callable[..., None], option: Callable[[Callable[..., None], str], str]) -> set[str]:
    """Return the options of a command's function that take a whole number; `option` names that of a parameter."""
    hints: dict[str, Any] = get_type_hints(run)
    return {option(run, name) for name, hint in hints.items() if name != "return" and int in (hint, *get_args(hint))}


def written_out(words: Sequence[str], options: Collection[str]) -> list[str]:
    """Return the words with the whole numbers after these options as digits; everything else as it is."""
    found = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and name in options:
            found.append(f"{name}={digits(value)}")
        elif place and words[place - 1] in options:
            found.append(digits(word))
        else:
            found.append(word)
    return found


def digits(text: str) -> str:
    """Return a whole number as digits; a text that is none as it is."""
    if not _SHORT.fullmatch(text):
        return text
    number = Decimal(text)
    return str(int(number)) if number == number.to_integral_value() else text
