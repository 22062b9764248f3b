"""The page on speed: the goal of every row of `make bench`, and what it came to on the machine that was measured."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any

from hubbub.protos.strict_json import read_json
from reference.making.page import Page, Section, bullets, code, fenced, section, table, wrapped
from reference.making.source import ROOT

KEPT = ROOT / "docs" / "reference" / "bench.json"
"""What was measured: `tests/bench/run.py --keep` writes it."""

GOALS = ROOT / "tests" / "bench" / "goals.py"
"""What is measured. The module imports nothing that is not beside it."""

HEADS = ("row", "what", "against", "goal", "median", "worst", "best", "judged")
LEARNED = "../explanation/performance.md"
NOT_MEASURED = "not measured"

Figures = Mapping[str, Mapping[str, Any]]


def pages() -> list[Page]:
    """Return the page on speed."""
    figures: Figures = read_json(KEPT.read_bytes())["rows"]
    subjects = goals().SUBJECTS
    return [
        Page(
            "speed",
            "Speed",
            "How fast is each step, compared with what limits it?",
            "every row of `make bench`: what is measured, its limit, its goal, and what it came to",
            (
                section("", *_reading(figures)),
                *(_section(title, rows, figures) for title, rows in subjects.items()),
                section("Missed or not judged", _open(figures)),
            ),
        )
    ]


@cache
def goals() -> ModuleType:
    """Return the module of the bench that lists the rows."""
    spec = importlib.util.spec_from_file_location("reference_bench_goals", GOALS)
    if spec is None or spec.loader is None:
        raise ValueError(f"{GOALS} is no module")
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def _reading(figures: Figures) -> list[list[str]]:
    machines = sorted({each["machine"] for each in figures.values()})
    times = sorted({each["times"] for each in figures.values()})
    measured = (
        f"`make bench` measures each step and its limit by turns, and prints their ratio. These figures are of "
        f"{' and '.join(machines)}. They are medians of {' or '.join(map(str, times))} whole "
        f"{'run' if times == [1] else 'runs'}. If the runs are one, worst and best are of the runs within it. "
        f"[Performance]({LEARNED}) describes what takes the time."
    )
    judged = (
        "A goal is judged by the median, and only if the machine was quiet. The middle half of the row's limits must "
        f"be within {goals().MOST_SPREAD:.0%} of their median, and other programs must take at most "
        f"{goals().MOST_OTHERS:.0%} of the cores meanwhile. Otherwise the row is not judged."
    )
    how = """
# all rows five times, one after the other; then the page is made from them
python tests/bench/run.py --times 5 --keep && make reference
# functions of rows whose name contains this
python tests/bench/run.py --only submissions
# every row at a small size: that it runs; figures mean nothing
python tests/bench/run.py --smoke
# what takes 3 GB of disk
python tests/bench/run.py --large
"""
    return [wrapped(measured), wrapped(judged), fenced("sh", how)]


def _section(title: str, rows: Mapping[str, Any], figures: Figures) -> Section:
    return section(title, table(HEADS, [_row(name, goal, figures.get(name)) for name, goal in rows.items()]))


def _row(name: str, goal: Any, figure: Mapping[str, Any] | None) -> list[str]:
    found = ["–"] * 3 if figure is None else [_ratio(figure[key]) for key in ("ratio", "worst", "best")]
    return [code(name), goal.what, goal.against, str(goal), *found, _verdict(goal, figure)]


def _ratio(value: float) -> str:
    return f"{value:.3g}"


def _verdict(goal: Any, figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return NOT_MEASURED
    return str(goal.verdict(figure["ratio"], figure["spread"], figure["others"]))


def _open(figures: Figures) -> list[str]:
    verdicts: dict[str, list[str]] = {}
    for name, goal in goals().GOALS.items():
        verdicts.setdefault(_verdict(goal, figures.get(name)), []).append(code(name))
    named = {"MISSED": "Missed", "not judged": "Not judged", NOT_MEASURED: "Not measured"}
    return bullets(f"{title}: {', '.join(verdicts[key])}." for key, title in named.items() if key in verdicts)
