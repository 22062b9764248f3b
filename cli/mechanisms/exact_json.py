"""Reads JSON that people write, exactly: no digit is lost, and no key may occur twice."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from hubbub.accountant.errors import AccountingError
from hubbub.protos.strict_json import JsonError, read_json


def parse(path: Path, example: str) -> Any:
    """Read JSON with exact decimals; repeated keys, NaN and infinities are refused. `example` is for errors.

    Raises:
        AccountingError: if the file is not such JSON.
        OSError: if it cannot be read.
    """
    try:
        # Decimal keeps the digits that were written: 0.1 as a float is not one tenth.
        return read_json(path.read_bytes(), whole=int, fraction=Decimal)
    except (JsonError, ArithmeticError) as error:
        raise AccountingError(f"{path} cannot be read as JSON: {error}; write {example}") from error


def as_written(value: Any) -> str:
    """Return a value as the file has it, cut if it is long."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
