"""`make bench`: measure, print the table, write bench.json.

    python tests/bench/run.py [--out bench.json] [--only NAME] [--runs N] [--large] [--strict]
    python tests/bench/run.py --smoke [--only NAME]

A module of rows has `ROWS`: functions that yield `Row`s (with a goal) and `Comparison`s (what others do). Join it to
`MODULES`. What takes too long or too much disk for every run stands in its `LARGE_ROWS`, for `--large`. With
`--strict` the exit status is 1 where a goal is missed; without, a busy machine fails nothing. With `--runs 1` medians
are of one run. With `--smoke` every row runs, the large ones too, at the sizes of `smoke.py`: that says that rows are
measured, in about a minute, and its figures mean nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rows import Comparison, Outcome, Row
from smoke import shrink

# What rows share with the tests, such as a server that they start.
sys.path.append(str(Path(__file__).parents[1]))

MODULES = (
    "accountant",
    "noise",
    "starting",
    "preparing",
    "sealing",
    "submitting",
    "submitting_https",
    "replicating",
    "overloading",
    "mixing",
    "waiting",
    "databases",
    "counting",
    "hopping",
    "decoding",
    "repeating",
    "engines",
    "whole",
)
"""Every module of rows beside this file, in the order they run."""


def measured(only: str, rows: str, runs: int | None = None) -> list[Outcome]:
    """Run every function among the modules' `rows` whose name contains `only`, saying which on stderr.

    Each takes the medians of so many `runs` at most, where that is given.
    """
    found: list[Outcome] = []
    for name in MODULES:
        module = importlib.import_module(name)
        if runs is not None and hasattr(module, "RUNS"):
            vars(module)["RUNS"] = min(module.RUNS, runs)
        for function in getattr(module, rows, ()):
            if only in function.__name__:
                sys.stderr.write(f"{name}.{function.__name__} …\n")
                found.extend(function())
    return found


def smoked(only: str) -> int:
    """Run every row at its small size; return the exit status, 1 where a figure is none."""
    for name in MODULES:
        shrink(importlib.import_module(name))
    outcomes = [*measured(only, "ROWS"), *measured(only, "LARGE_ROWS")]
    rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
    json.dumps(document(outcomes))
    wrong = [row.name for row in rows if not (math.isfinite(row.ratio) and row.value >= 0)]
    said = f"no figure: {', '.join(wrong)}" if wrong else f"{len(rows)} rows were measured; small, so no figure counts"
    sys.stderr.write(f"{said}\n")
    return 1 if wrong or not rows else 0


def document(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return what bench.json holds."""
    rows, comparisons = [], []
    for outcome in outcomes:
        if isinstance(outcome, Row):
            fields = asdict(outcome)
            names = ("name", "value", "unit", "limit")
            rest = {"ratio": outcome.ratio, "direction": outcome.direction, "goal": outcome.goal}
            rows.append({name: fields[name] for name in names} | rest)
        else:
            comparisons.append(asdict(outcome))
    return {"cores": os.cpu_count(), "rows": rows, "comparisons": comparisons}


def goals(rows: Iterable[Row]) -> Table:
    """Return the table of rows with goals."""
    table = Table(title="measured against its goal")
    for heading in ("row", "value", "limit", "ratio", "goal", ""):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for row in rows:
        value, limit = (f"{number:.4g} {row.unit}".strip() for number in (row.value, row.limit))
        sign = "≤" if row.direction == "<=" else "≥"
        verdict = "reached" if row.reached else "MISSED"
        table.add_row(row.name, value, limit, f"{row.ratio:.3f}", f"{sign} {row.goal:g}", verdict)
    return table


def beside(comparisons: Iterable[Comparison]) -> Table:
    """Return the table of what others do, from the same run."""
    table = Table(title="beside it, in the same run")
    for heading in ("row", "how", "value", "seconds"):
        table.add_column(heading, justify="left" if heading in ("row", "how") else "right")
    for each in comparisons:
        table.add_row(each.name, each.how, f"{each.value:.6g} {each.unit}", f"{each.seconds:.2g}")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit status."""
    parser = argparse.ArgumentParser(description="Measure, print the table, write a JSON file.")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--only", default="", help="only functions of rows whose name contains this")
    parser.add_argument("--runs", type=int, help="runs that medians are taken of, at most")
    parser.add_argument("--large", action="store_true", help="run what takes long or much disk, and nothing else")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is missed")
    parser.add_argument("--smoke", action="store_true", help="run every row at a small size: figures mean nothing")
    chosen = parser.parse_args(arguments)
    if chosen.smoke:
        return smoked(chosen.only)
    outcomes = measured(chosen.only, "LARGE_ROWS" if chosen.large else "ROWS", chosen.runs)
    rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
    console = Console(width=110)
    console.print(goals(rows))
    console.print(beside(outcome for outcome in outcomes if isinstance(outcome, Comparison)))
    chosen.out.write_text(json.dumps(document(outcomes), indent=2) + "\n")
    return 1 if chosen.strict and not all(row.reached for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
