"""Reads JSON that people write, exactly: no digit is lost, and no key may occur twice."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

from hubbub.accountant.errors import AccountingError


def parse(path: Path, example: str) -> Any:
    """Read JSON with exact decimals; repeated keys, NaN and infinities are refused. `example` is for errors.

    Raises:
        AccountingError: if the file is not such JSON.
        OSError: if it cannot be read.
    """
    try:
        # Decimal keeps the digits that were written: 0.1 as a float is not one tenth.
        return json.loads(
            path.read_bytes().decode(), parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_once
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise AccountingError(f"{path} cannot be read as JSON: {error}; write {example}") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    repeated = sorted(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
    if repeated:
        raise ValueError(f"{', '.join(repeated):.200} occurs twice in one row")
    return dict(pairs)


def as_written(value: Any) -> str:
    """Return a value as the file has it, cut if it is long."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
