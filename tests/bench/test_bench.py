"""What it writes, and that a missed goal is told."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hubbub.queries.registry import RANDOMIZERS

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
    text = (HERE.parents[1] / "docs" / "explanation" / "performance.md").read_text()
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


# Every row, at a size at which its number says nothing: `make bench BENCH=--smoke` runs them, here are its parts


def test_every_module_of_rows_has_small_sizes_of_the_right_types(printer: Any) -> None:
    smoke = importlib.import_module("smoke")
    assert set(smoke.SMALL) == set(printer.MODULES)
    for name in printer.MODULES:
        smoke.shrink(importlib.import_module(name))


def test_a_size_of_another_type_is_refused(printer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    smoke = importlib.import_module("smoke")
    monkeypatch.setitem(smoke.SMALL, "sealing", {"LAYERS": "2"})
    with pytest.raises(TypeError, match=r"sealing\.LAYERS must be a int"):
        smoke.shrink(importlib.import_module("sealing"))


@pytest.mark.parametrize(
    ("value", "wrong"), [(1.0, []), (math.nan, ["speed"]), (math.inf, ["speed"]), (-1.0, ["speed"])]
)
def test_a_figure_that_is_none_fails_the_smoke_run(
    printer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: float, wrong: list[str]
) -> None:
    rows, large = sys.modules["rows"], []

    def speed() -> Iterator[Any]:
        yield rows.Row("speed", value, "calls/s", 100.0)

    def larger() -> Iterator[Any]:
        large.append(True)
        yield rows.Row("larger", 1.0, "calls/s", 100.0)

    one = ModuleType("sealing")
    vars(one).update(LAYERS=10, RUNS=9, ROWS=(speed,), LARGE_ROWS=(larger,))
    monkeypatch.setattr(printer, "MODULES", ("sealing",))
    monkeypatch.setattr(printer.importlib, "import_module", lambda _: one)
    monkeypatch.setattr(printer.Path, "write_text", lambda *_: pytest.fail("figures that mean nothing were written"))
    assert printer.main(["--smoke"]) == bool(wrong)
    assert (large, vars(one)["LAYERS"]) == ([True], 2)
    assert all(name in capsys.readouterr().err for name in wrong)
