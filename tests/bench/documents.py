"""What was measured, as a file: `bench.json` with everything, and the small form from which a page is made."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from row import Outcome, Row

KEPT = Path(__file__).parents[2] / "docs" / "reference" / "bench.json"
"""The figures in `docs/reference/speed.md`."""

_DIGITS = 4
"""Significant digits of a figure that is kept."""


def document(outcomes: Iterable[Outcome], times: int) -> dict[str, Any]:
    """Return what bench.json contains."""
    rows, comparisons = [], []
    for outcome in outcomes:
        if isinstance(outcome, Row):
            rows.append(_fields(outcome))
        else:
            comparisons.append(asdict(outcome))
    return {"cores": os.cpu_count(), "times": times, "rows": rows, "comparisons": comparisons}


def _fields(row: Row) -> dict[str, Any]:
    names = ("name", "value", "unit", "limit", "ratio", "worst", "best", "spread", "others", "verdict")
    return {name: getattr(row, name) for name in names} | {"goal": str(row.goal)}


def keep(rows: Sequence[Row], times: int, path: Path = KEPT) -> None:
    """Put rows in the place of those of the same name among the figures that are kept."""
    known = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    measured = {row.name: _small(row) | {"times": times, "machine": _machine()} for row in rows}
    found = known["rows"] | measured
    path.write_text(json.dumps({"rows": {name: found[name] for name in sorted(found)}}, indent=1) + "\n")


def _small(row: Row) -> dict[str, Any]:
    figures = {name: getattr(row, name) for name in ("value", "ratio", "worst", "best", "spread", "others")}
    return {"unit": row.unit} | {name: float(f"{figure:.{_DIGITS}g}") for name, figure in figures.items()}


def _machine() -> str:
    return f"{os.cpu_count()} cores, CPython {platform.python_version()}"
