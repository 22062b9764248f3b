"""`make bench`: measure, print the table, write bench.json.

    python tests/bench/run.py [--out bench.json] [--only NAME] [--runs N] [--times N] [--keep] [--large] [--strict]
    python tests/bench/run.py --smoke [--only NAME]

A module of rows has `ROWS`: functions that yield `Row`s and `Comparison`s (what others do). Join it to `MODULES`, and
its rows to `goals.py`. What takes too long or too much disk for every run stands in its `LARGE_ROWS`, for `--large`.

A goal is judged by the median, and only if the machine was quiet: `goals.py` says when. With `--times 5` everything is
measured five times, one after the other, each with services of its own; then a row's runs are these five. `--keep` puts
what was measured among the figures of docs/reference/speed.md; `make reference` writes the page. With `--strict` the
exit status is 1 if a judged goal is missed. With `--runs 1` medians are of one run. With `--smoke` every row runs, the
large ones too, at the sizes of `smoke.py`: that says that rows are measured, in about a minute, and its figures mean
nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from documents import document, keep
from machine import OtherPrograms, adopt
from rich.console import Console
from row import Comparison, Outcome, Row, together
from smoke import shrink
from tables import beside, goals

# What rows share with the tests, such as a server that they start.
sys.path.append(str(Path(__file__).parents[1]))

MODULES = (
    "accountant",
    "commanding",
    "noise",
    "starting",
    "preparing",
    "sealing",
    "submitting",
    "polling",
    "submitting_https",
    "oblivious",
    "replicating",
    "overloading",
    "mixing",
    "waiting",
    "databases",
    "counting",
    "hopping",
    "decoding",
    "repeating",
    "log_proofs",
    "engines",
    "whole",
)
"""Every module of rows beside this file, in the order they run."""


def measured(only: str, rows: str, runs: int | None = None) -> list[Outcome]:
    """Run every function among the modules' `rows` whose name contains `only`, saying which on stderr.

    Each takes so many `runs` at most, where that is given.
    """
    found: list[Outcome] = []
    for name in MODULES:
        module = importlib.import_module(name)
        if runs is not None and hasattr(module, "RUNS"):
            vars(module)["RUNS"] = min(module.RUNS, runs)
        for function in getattr(module, rows, ()):
            if only in function.__name__:
                sys.stderr.write(f"{name}.{function.__name__} …\n")
                others = OtherPrograms()
                outcomes = list(function())
                share = others.share()
                found += [replace(each, others=share) if isinstance(each, Row) else each for each in outcomes]
    return found


def check_name(only: str, *kinds: str) -> None:
    """Check that functions of these kinds of rows have a name that contains `only`.

    Raises:
        ValueError: naming those that there are.
    """
    modules = [importlib.import_module(name) for name in MODULES]
    names = [function.__name__ for module in modules for kind in kinds for function in getattr(module, kind, ())]
    if not any(only in name for name in names):
        raise ValueError(f"no function of rows has {only!r} in its name; there are {', '.join(names)}")


def smoked(only: str) -> int:
    """Run every row at its small size; return the exit status, 1 where a figure is none."""
    for name in MODULES:
        shrink(importlib.import_module(name))
    outcomes = [*measured(only, "ROWS"), *measured(only, "LARGE_ROWS")]
    rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
    json.dumps(document(outcomes, 1))
    wrong = [row.name for row in rows if not (math.isfinite(row.ratio) and row.value >= 0)]
    said = f"no figure: {', '.join(wrong)}" if wrong else f"{len(rows)} rows were measured; small, so no figure counts"
    sys.stderr.write(f"{said}\n")
    return 1 if wrong or not rows else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit status."""
    parser = argparse.ArgumentParser(description="Measure, print the table, write a JSON file.")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    parser.add_argument("--only", default="", help="only functions of rows whose name contains this")
    parser.add_argument("--runs", type=int, help="runs that medians are taken of, at most")
    parser.add_argument("--times", type=int, default=1, help="measure everything so many times, and put it together")
    parser.add_argument("--keep", action="store_true", help="put the figures into docs/reference/bench.json")
    parser.add_argument("--large", action="store_true", help="run what takes long or much disk, and nothing else")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is judged and missed")
    parser.add_argument("--smoke", action="store_true", help="run every row at a small size: figures mean nothing")
    chosen = parser.parse_args(arguments)
    kind = "LARGE_ROWS" if chosen.large else "ROWS"
    try:
        check_name(chosen.only, *(("ROWS", "LARGE_ROWS") if chosen.smoke else (kind,)))
    except ValueError as error:
        parser.error(str(error))
    adopt()
    if chosen.smoke:
        return smoked(chosen.only)
    outcomes = together([measured(chosen.only, kind, chosen.runs) for _ in range(chosen.times)])
    rows = [outcome for outcome in outcomes if isinstance(outcome, Row)]
    console = Console(width=140)
    console.print(goals(rows))
    console.print(beside(outcome for outcome in outcomes if isinstance(outcome, Comparison)))
    chosen.out.write_text(json.dumps(document(outcomes, chosen.times), indent=2) + "\n")
    if chosen.keep:
        keep(rows, chosen.times)
    return 1 if chosen.strict and any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
