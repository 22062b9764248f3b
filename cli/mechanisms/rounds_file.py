"""Reads a file of rounds as people write it: a JSON list with a row for each query, for `hubbub account compose`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import (
    GAMMA_DENOMINATOR,
)
from hubbub.accountant.pairs import Part
from hubbub.cli.mechanisms.arguments import LAW, Description, read_exact, read_local_mechanism
from hubbub.cli.mechanisms.exact_json import as_written, parse

ROW_KEYS = (
    "mechanism",
    "law",
    "categories",
    "cells",
    "rows",
    "local_epsilon",
    "gamma",
    "truthful",
    "other",
    "noise",
    "reports",
    "dummies",
    "rounds",
    "sampling_rate",
)
"""Keys of a row in a rounds file. `reports` and one of `mechanism` and `law` are required; `rounds` may be left out."""


MOST_WRONG_ROWS = 20
"""The most wrong rows of a rounds file that one error names; it counts the others."""


def read_rounds(path: Path) -> list[Part]:
    """Return the parts that a rounds file lists: a JSON list of objects with the keys `ROW_KEYS`.

    Raises:
        AccountingError: the file is not such a list; wrong rows are named by their numbers, counted from 1.
        OSError: the file cannot be read.
    """
    rows = parse(path, f"a list such as {_example()}")
    if not isinstance(rows, list) or not rows:
        raise AccountingError(f"{path} is not a list of at least one round; write it like {_example()}")
    parts, wrong = [], []
    for number, row in enumerate(rows, start=1):
        try:
            parts.append(_read_row(row, path.parent))
        except (AccountingError, OSError) as error:
            wrong.append(f"row {number}: {error}")
    if wrong:
        more = f"; and {len(wrong) - MOST_WRONG_ROWS} more" if len(wrong) > MOST_WRONG_ROWS else ""
        raise AccountingError(f"{path}, rows counted from 1: " + "; ".join(wrong[:MOST_WRONG_ROWS]) + more)
    return parts


def _example() -> str:
    return '[{"mechanism": "krr", "categories": 16, "local_epsilon": 4, "reports": 10000, "rounds": 12}]'


def _read_row(row: Any, beside: Path) -> Part:
    """Return the part of one row; paths of files in it are relative to the folder `beside`, unless absolute."""
    if not isinstance(row, Mapping):
        raise AccountingError(f"is {as_written(row)}; give an object such as {_example()[1:-1]}")
    unknown = [name for name in row if name not in ROW_KEYS]
    if "honest_share" in unknown:
        raise AccountingError(
            "honest_share is unknown; give as reports the honest ones alone, honest_share times all rounded down: so "
            "many --honest-share of `account epsilon` counts"
        )
    if unknown:
        raise AccountingError(f"{', '.join(map(repr, unknown)):.200} is unknown; rows may have {', '.join(ROW_KEYS)}")
    missing = [name for name in ("mechanism", "reports") if name not in row and (name == "reports" or "law" not in row)]
    if missing:
        raise AccountingError(f"{' and '.join(missing)} missing; add what is missing, as in {_example()[1:-1]}")
    counts = (_whole(row, "reports"), _whole(row, "rounds", 1), _whole(row, "dummies", 0))
    return Part(read_local_mechanism(_said(row, beside), str), *counts, sampling_rate=_exact(row, "sampling_rate"))


def _said(row: Mapping[str, Any], beside: Path) -> Description:
    return Description(
        str(row.get("mechanism", LAW)),
        _whole(row, "categories") if "categories" in row else None,
        _local(row),
        _gamma(row),
        _exact(row, "truthful"),
        _exact(row, "other"),
        law=beside / row["law"] if isinstance(row.get("law"), str) else row.get("law"),
        noise=_noise(row),
        cells=_whole(row, "cells") if "cells" in row else None,
        rows=_whole(row, "rows") if "rows" in row else None,
    )


def _noise(row: Mapping[str, Any]) -> str | None:
    value = row.get("noise")
    if "noise" in row and not isinstance(value, str):
        raise AccountingError(f'noise is {as_written(value)}; give a text such as "geometric:0.6065:27"')
    return value


def _exact(row: Mapping[str, Any], name: str) -> Fraction | None:
    if name not in row:
        return None
    value = row[name]
    # The lower limit is for Fraction: 1e-999999999 would become a denominator of a billion digits.
    if isinstance(value, Decimal) and Decimal("1e-30") < value < 1:
        return Fraction(value)
    if isinstance(value, str):
        return read_exact(value, name)
    raise AccountingError(f'{name} is {as_written(value)}; give a number between 0 and 1, such as 0.75 or "3/4"')


def _whole(row: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = row.get(name, default)
    # Such as 1e4. The limit is for int(): 1e999999999 would become a number of a billion digits.
    if isinstance(value, Decimal) and -(10**40) < value < 10**40 and value == value.to_integral_value():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise AccountingError(f"{name} is {as_written(value)}; give a whole number, such as 10000 or 1e4")
    return value


def _local(row: Mapping[str, Any]) -> float | None:
    if "local_epsilon" not in row:
        return None
    value = row["local_epsilon"]
    # This loose limit only ensures that float() is finite; the mechanism checks its own limit.
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and 0 <= Decimal(value) <= 10**6:
        return float(value)
    raise AccountingError(f"local_epsilon is {as_written(value)}; give a number from 0 to 40")


def _gamma(row: Mapping[str, Any]) -> str | Fraction | None:
    if "gamma" not in row:
        return None
    value = row["gamma"]
    if isinstance(value, str):
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and Decimal("1e-30") < Decimal(value) <= 1:
        return Fraction(value)
    raise AccountingError(
        f'gamma is {as_written(value)}; give a number above 0 and at most 1, or "W/{GAMMA_DENOMINATOR}" as tasks do'
    )
