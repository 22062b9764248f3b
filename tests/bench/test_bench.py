"""The benchmark's printer: what it writes, and that a missed goal is told."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hubbub.accountant.mechanisms import Generic
from hubbub.accountant.pairs import Part
from hubbub.queries.registry import RANDOMIZERS
from support.spark import LEAKY, NEEDS_JAVA

HERE = Path(__file__).parent


@pytest.fixture
def printer(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`run.py`, imported as when it runs as a script; its neighbours are forgotten again afterwards."""
    monkeypatch.syspath_prepend(str(HERE))
    before = set(sys.modules)
    import run

    yield run
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == HERE:
            del sys.modules[name]


def run_with(printer: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, value: float, *more: str) -> tuple[int, Any]:
    rows = sys.modules["rows"]

    def speed() -> Iterator[Any]:
        yield rows.Row("speed", value, "calls/s", 100.0, ">=", 0.6)
        yield rows.Comparison("speed", "by hand", 1.0, "calls/s", 1.0)

    monkeypatch.setattr(printer, "MODULES", ("one",))
    monkeypatch.setattr(printer.importlib, "import_module", lambda _: SimpleNamespace(ROWS=(speed,)))
    status = printer.main(["--out", str(folder / "bench.json"), *more])
    return status, json.loads((folder / "bench.json").read_text())


def test_a_reached_goal_is_written_with_every_field(
    printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, document = run_with(printer, monkeypatch, tmp_path, 60.0)
    assert status == 0
    expected = {
        "name": "speed",
        "value": 60.0,
        "unit": "calls/s",
        "limit": 100.0,
        "ratio": 0.6,
        "direction": ">=",
        "goal": 0.6,
    }
    assert document["rows"] == [expected]
    assert document["comparisons"][0]["how"] == "by hand"


def test_a_missed_goal_fails_a_strict_run(printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run_with(printer, monkeypatch, tmp_path, 59.0)[0] == 0
    status, document = run_with(printer, monkeypatch, tmp_path, 59.0, "--strict")
    assert status == 1
    assert document["rows"][0]["ratio"] == 0.59


def test_every_randomizer_has_its_row_and_its_line_in_the_text(printer: ModuleType) -> None:
    counting, preparing = __import__("counting"), __import__("preparing")
    assert {query.question.randomizer for query in counting.OPENED} == set(RANDOMIZERS)
    text = (HERE.parents[1] / "docs" / "performance.md").read_text()
    repeating = __import__("repeating")
    named = [f"round_{sending.strategy.kind}" for sending in repeating.SENT]
    named += [f"open_{kind}" for kind in RANDOMIZERS] + [f"prepare_{name}" for name in preparing.ASKED]
    assert [name for name in named if f"`{name}`" not in text] == []


def test_closed_forms_give_what_the_papers_give(printer: ModuleType) -> None:
    """girgis-2021 (5): 1.64 for 10⁵ rounds; balle-2019 Thm 4.1 with Thm 3.1: ten levels."""
    elsewhere = __import__("elsewhere")
    assert elsewhere.renyi_composed(0.5, 10**6, 10**5, 1e-8) == pytest.approx(1.6398, abs=1e-4)
    assert elsewhere.sum_by_theorem(0.5, 1e-8, 10**6)[0] == 10


def test_closed_forms_lie_above_the_exact_values_and_never_above_the_local_one(printer: ModuleType) -> None:
    """Exact values: tests/vectors/accountant.json, `stronger_clones` and `clones_generic`."""
    elsewhere = __import__("elsewhere")
    assert 0.3970870586 < elsewhere.stronger_clones_closed(2.0, 1000, 1e-6) < 2.0
    assert 0.1675385583 < elsewhere.clones_closed(4.0, 10**5, 1e-6) < 0.5378040242
    for formula in (elsewhere.stronger_clones_closed, elsewhere.clones_closed):
        assert formula(12.0, 10**5, 1e-6) == 12.0


# Every row, at a size at which its number says nothing

FEW_ROUNDS = (("few", Part(Generic(0.5), 500, 3), 1.0),)

SMALL: dict[str, dict[str, Any]] = {
    "accountant": {"MEMORY_SCALES": (500,), "MEMORY_ROUNDS": 3, "MANY_ROUNDS": FEW_ROUNDS},
    "starting": {"RUNS": 1, "HELD": 3000, "LARGE": 5000},
    "sealing": {"LAYERS": 2, "RUNS": 3},
    "preparing": {"DEVICES": 2, "RUNS": 2},
    "submitting_https": {
        "RUNS": 1,
        "CALLS": 4,
        "AT_A_TIME": 2,
        "BY_GRPC_AT_A_TIME": 2,
        "BATCHES": 2,
        "DEVICES": 3,
        "BATCHES_AT_A_TIME": 2,
    },
    "submitting": {"RUNS": 1, "CALLS": 4, "AT_A_TIME": 2, "BATCHES": 2, "DEVICES": 3, "BATCHES_AT_A_TIME": 2},
    "replicating": {"RUNS": 1, "BATCHES": 2, "DEVICES": 3, "AT_A_TIME": 1},
    "overloading": {"RISING": (200.0, 500.0), "SECONDS": 0.5, "PER_CALL": 5},
    "mixing": {"RUNS": 1, "REPORTS": 1500, "LARGE": 3000},
    "waiting": {"REPORTS": 2000, "LARGE": 3000},
    "databases": {"RUNS": 1, "CALLS": 4, "CALL": 5, "AT_ONCE": 2, "ENVELOPES": 100, "STRETCH": 50},
    "counting": {"RUNS": 1, "REPORTS": 1000, "ESTIMATES": 1, "LARGE": 2000},
    "hopping": {"RUNS": 1, "REPORTS": 1000},
    "decoding": {"RUNS": 1, "CANDIDATES": 1000, "REPORTS": 1000},
    "repeating": {},
    "engines": {"RUNS": 1, "REPORTS": 1000, "MIXED": 2000, "LARGE": 3000},
    "whole": {"RUNS": 1, "SAMPLE": 20},
}


def test_every_module_of_rows_has_a_small_size(printer: Any) -> None:
    assert set(SMALL) == set(printer.MODULES)


def demonstrated(*_: Any, **__: Any) -> Any:
    """What the row of the whole demo reads of its JSON: the demo has tests of its own."""
    return SimpleNamespace(stdout=json.dumps({"devices": 20, "seconds": {"submit": 1.0, "results": 0.5}}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[NEEDS_JAVA, LEAKY] if name == "engines" else []) for name in SMALL]
)
def test_every_row_is_measured(printer: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = importlib.import_module(name)
    for constant, value in SMALL[name].items():
        assert type(getattr(module, constant)) is type(value)
        monkeypatch.setattr(module, constant, value)
    if name == "whole":
        monkeypatch.setattr(subprocess, "run", demonstrated)
    monkeypatch.setattr(printer, "MODULES", (name,))
    outcomes = [*printer.measured("", "ROWS"), *printer.measured("", "LARGE_ROWS")]
    rows = [outcome for outcome in outcomes if hasattr(outcome, "ratio")]
    assert rows
    assert [row.name for row in rows if not (math.isfinite(row.ratio) and row.value >= 0)] == []
    assert json.loads(json.dumps(printer.document(outcomes)))["rows"]
