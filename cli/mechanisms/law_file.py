"""Reads a randomizer's law from a JSON file with exact probabilities, a row for each input."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, Finite
from hubbub.accountant.mechanisms.finite import ENTRIES_LIMIT, INPUTS_LIMIT
from hubbub.accountant.mechanisms.laws import simplest
from hubbub.cli.mechanisms.exact_json import as_written, parse

KEYS = ("law", "blanket", "neighbors", "dummy")
"""Members of a law file; all but `law` may be left out."""

EXAMPLE = '{"law": [["1/2", "1/4", "1/4"], ["1/4", "1/2", "1/4"], ["1/4", "1/4", "1/2"]]}'

_LONGEST = 170
"""Most characters of a probability: two numbers of 256 bits, and a stroke."""


def read_law(path: Path) -> KRR | Finite:
    """Return the randomizer whose law is in a file; if it is kRR, return it as kRR, which has its own pairs.

    Raises:
        AccountingError: if the file has no such law; the message names the problem and its place.
        OSError: if the file cannot be read.
    """
    try:
        return law_of(parse(path, EXAMPLE))
    except AccountingError as error:
        raise AccountingError(str(error) if str(path) in str(error) else f"{path}: {error}") from error


def law_of(content: Any) -> KRR | Finite:
    """Return the randomizer that a law file's content, or the matrix alone, describes.

    `dummy` is the law of a dummy report, or the number of an input, counted from 0, whose report a dummy is.
    """
    if isinstance(content, list):
        content = {"law": content}
    if not isinstance(content, Mapping) or "law" not in content:
        raise AccountingError(f"law is {as_written(content)}; give an object such as {EXAMPLE}")
    unknown = [name for name in content if name not in KEYS]
    if unknown:
        raise AccountingError(f"{', '.join(map(repr, unknown)):.200} is unknown; a law may have {', '.join(KEYS)}")
    law = _list("law", content["law"])
    # Checked before any entry is read, because a million fractions take half a minute.
    if len(law) > INPUTS_LIMIT or sum(len(row) for row in law if isinstance(row, list)) > ENTRIES_LIMIT:
        raise AccountingError(
            f"law has {len(law)} rows; give at most {INPUTS_LIMIT}, and {ENTRIES_LIMIT} probabilities in all; "
            "list some inputs with a blanket, or join outputs whose columns are proportional"
        )
    rows = tuple(_row("law", row) for row in law)
    blanket = _row("blanket", content["blanket"]) if content.get("blanket") is not None else None
    return simplest(Finite(rows, blanket, _neighbors(content.get("neighbors")), _dummy(content.get("dummy"), rows)))


def _dummy(value: Any, rows: tuple[tuple[Fraction, ...], ...]) -> tuple[Fraction, ...] | None:
    if value is None:
        return None
    if type(value) is int:
        if not 0 <= value < len(rows):
            raise AccountingError(f"dummy is {value}; give an input from 0 to {len(rows) - 1}, or a law")
        return rows[value]
    return _row("dummy", value)


def _neighbors(value: Any) -> tuple[tuple[int, int], ...] | None:
    if value is None:
        return None
    pairs = _list("neighbors", value)
    if not all(isinstance(pair, list) and len(pair) == 2 and all(type(each) is int for each in pair) for pair in pairs):
        raise AccountingError(f"neighbors is {as_written(value)}; give pairs of inputs such as [[0, 1], [1, 2]]")
    return tuple((first, second) for first, second in pairs)


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise AccountingError(f"{name} is {as_written(value)}; give a list, as in {EXAMPLE}")
    return value


def _row(name: str, row: Any) -> tuple[Fraction, ...]:
    return tuple(_probability(name, value) for value in _list(f"a row of {name}", row))


def _probability(name: str, value: Any) -> Fraction:
    try:
        if isinstance(value, str) and len(value) <= _LONGEST and set(value) <= set("0123456789./"):
            return Fraction(value)
        # The lower limit is for Fraction: 1e-999999999 would become a denominator of a billion digits.
        exact = isinstance(value, Decimal) and (value == 0 or Decimal("1e-70") < value <= 1)
        if exact or (type(value) is int and value in (0, 1)):
            return Fraction(value)
    except (ValueError, ZeroDivisionError):
        pass
    raise AccountingError(f'{name} has {as_written(value)}; give probabilities such as "1/3", "0.25" or 0.25')
