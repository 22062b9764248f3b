"""What it writes, and that a missed goal is told."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
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
    """`run.py`, imported as when it runs as a script; its neighbors are forgotten again afterwards."""
    monkeypatch.syspath_prepend(str(HERE))
    before = set(sys.modules)
    import run

    yield run
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == HERE:
            del sys.modules[name]


@pytest.fixture
def goal(printer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row `speed`, whose goal is to be at least 0.6 of its limit."""
    goals = sys.modules["goals"]
    monkeypatch.setitem(
        goals.GOALS, "speed", goals.least(0.6, "calls answered", "calls of a server with nothing to do")
    )


def run_with(
    printer: Any, monkeypatch: pytest.MonkeyPatch, folder: Path, values: list[float], *more: str, limits: Any = 100.0
) -> tuple[int, Any]:
    rows = sys.modules["row"]

    def speed() -> Iterator[Any]:
        yield rows.Row.of("speed", "calls/s", values, limits)
        yield rows.Comparison("speed", "by hand", 1.0, "calls/s", 1.0)

    monkeypatch.setattr(printer, "MODULES", ("one",))
    monkeypatch.setattr(printer.importlib, "import_module", lambda _: SimpleNamespace(ROWS=(speed,)))
    monkeypatch.setattr(printer, "OtherPrograms", lambda: SimpleNamespace(share=lambda: 0.01))
    status = printer.main(["--out", str(folder / "bench.json"), *more])
    return status, json.loads((folder / "bench.json").read_text())


@pytest.mark.usefixtures("goal")
def test_a_reached_goal_is_written_with_every_field(
    printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, document = run_with(printer, monkeypatch, tmp_path, [60.0, 50.0, 70.0])
    assert status == 0
    expected = {
        "name": "speed",
        "value": 60.0,
        "unit": "calls/s",
        "limit": 100.0,
        "ratio": 0.6,
        "worst": 0.5,
        "best": 0.7,
        "spread": 0.0,
        "others": 0.01,
        "verdict": "reached",
        "goal": "≥ 0.6",
    }
    assert document["rows"] == [expected]
    assert document["comparisons"][0]["how"] == "by hand"


@pytest.mark.usefixtures("goal")
def test_a_missed_goal_fails_a_strict_run(printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run_with(printer, monkeypatch, tmp_path, [59.0])[0] == 0
    status, document = run_with(printer, monkeypatch, tmp_path, [59.0, 90.0, 1.0], "--strict")
    assert status == 1
    assert document["rows"][0]["ratio"] == 0.59


@pytest.mark.usefixtures("goal")
def test_the_worst_run_alone_fails_nothing(
    printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, document = run_with(printer, monkeypatch, tmp_path, [61.0, 62.0, 1.0], "--strict")
    assert (status, document["rows"][0]["worst"]) == (0, 0.01)


@pytest.mark.usefixtures("goal")
def test_a_noisy_machine_judges_nothing(printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the row's own limits, of which one may be off, or by what other programs took meanwhile."""
    for limits, judged in (([100.0, 101.0, 99.0, 100.0, 300.0], True), ([100.0, 80.0, 100.0, 120.0, 70.0], False)):
        status, document = run_with(printer, monkeypatch, tmp_path, [1.0] * 5, "--strict", limits=limits)
        assert (status, document["rows"][0]["verdict"]) == ((1, "MISSED") if judged else (0, "not judged"))
    goal = sys.modules["goals"].GOALS["speed"]
    assert goal.verdict(0.1, 0.0, 0.5) == goal.verdict(0.9, 0.0, 0.5) == "not judged"


@pytest.mark.usefixtures("goal")
@pytest.mark.parametrize("more", [(), ("--smoke",), ("--large",)])
def test_a_name_that_no_rows_have_is_refused_with_those_that_there_are(
    printer: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_with(printer, monkeypatch, tmp_path, [60.0], "--only", "sped", *more)
    named = "" if more == ("--large",) else "speed"
    assert f"error: no function of rows has 'sped' in its name; there are {named}\n" in capsys.readouterr().err
    assert not (tmp_path / "bench.json").exists()
    if not more:
        assert run_with(printer, monkeypatch, tmp_path, [60.0], "--only", "pee")[0] == 0


@pytest.mark.usefixtures("goal")
def test_whole_runs_are_put_together(printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows, found = sys.modules["row"], iter(([50.0, 55.0, 90.0], [61.0, 62.0, 63.0], [80.0, 81.0, 1.0]))

    def speed() -> Iterator[Any]:
        yield rows.Row.of("speed", "calls/s", next(found), 100.0)

    one = SimpleNamespace(ROWS=(speed,))
    monkeypatch.setattr(printer, "MODULES", ("one",))
    monkeypatch.setattr(printer.importlib, "import_module", lambda _: one)
    printer.main(["--out", str(tmp_path / "bench.json"), "--times", "3"])
    document = json.loads((tmp_path / "bench.json").read_text())
    (row,) = document["rows"]
    assert (document["times"], row["ratio"], row["worst"], row["best"]) == (3, 0.62, 0.55, 0.8)


@pytest.mark.usefixtures("goal")
def test_what_is_kept_replaces_the_rows_that_were_measured(
    printer: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows, documents, path = sys.modules["row"], sys.modules["documents"], tmp_path / "kept.json"
    path.write_text(json.dumps({"rows": {"speed": {"ratio": 9.0}, "other": {"ratio": 1.0}}}))
    documents.keep([rows.Row.of("speed", "calls/s", [61.23456], 100.0)], 5, path)
    kept = json.loads(path.read_text())["rows"]
    assert (kept["other"], kept["speed"]["ratio"], kept["speed"]["times"]) == ({"ratio": 1.0}, 0.6123, 5)


def test_what_a_child_takes_is_this_programs_own(printer: ModuleType) -> None:
    machine = sys.modules["machine"]
    before = machine.with_children(os.getpid(), machine.processes())
    subprocess.run([sys.executable, "-c", "sum(range(5 * 10**6))"], check=True)
    assert machine.with_children(os.getpid(), machine.processes()) > before


@pytest.mark.parametrize(("busy", "share"), [(12.0, 0.4), (3.9, 0.0), (0.0, 0.0)])
def test_other_programs_take_what_is_not_this_ones(
    printer: ModuleType, monkeypatch: pytest.MonkeyPatch, busy: float, share: float
) -> None:
    """In ten seconds on two cores this program took four seconds; without any busy ones the system does not say."""
    machine, now = sys.modules["machine"], iter(((5.0, 1.0, 1.0), (15.0, 1.0 + busy, 5.0)))
    monkeypatch.setattr(machine, "_seconds", lambda: next(now))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    assert machine.OtherPrograms().share() == pytest.approx(share)


def test_the_figures_that_are_kept_are_of_rows_that_there_are(printer: ModuleType) -> None:
    kept = json.loads(sys.modules["documents"].KEPT.read_text())["rows"]
    assert kept.keys() <= sys.modules["goals"].GOALS.keys()


def test_every_randomizer_has_its_row_and_its_goal(printer: ModuleType) -> None:
    counting, preparing = __import__("counting"), __import__("preparing")
    assert {query.question.randomizer for query in counting.OPENED} == set(RANDOMIZERS)
    repeating = __import__("repeating")
    named = [f"round_{sending.strategy.kind}" for sending in repeating.SENT]
    named += [f"open_{kind}" for kind in RANDOMIZERS] + [f"prepare_{name}" for name in preparing.ASKED]
    assert [name for name in named if name not in sys.modules["goals"].GOALS] == []


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


@pytest.mark.usefixtures("goal")
@pytest.mark.parametrize(
    ("value", "wrong"), [(1.0, []), (math.nan, ["speed"]), (math.inf, ["speed"]), (-1.0, ["speed"])]
)
def test_a_figure_that_is_none_fails_the_smoke_run(
    printer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: float, wrong: list[str]
) -> None:
    rows, large = sys.modules["row"], []

    def speed() -> Iterator[Any]:
        yield rows.Row.of("speed", "calls/s", value, 100.0)

    def larger() -> Iterator[Any]:
        large.append(True)
        yield rows.Row.of("speed", "calls/s", 1.0, 100.0)

    one = ModuleType("sealing")
    vars(one).update(LAYERS=10, RUNS=9, ROWS=(speed,), LARGE_ROWS=(larger,))
    monkeypatch.setattr(printer, "MODULES", ("sealing",))
    monkeypatch.setattr(printer.importlib, "import_module", lambda _: one)
    monkeypatch.setattr(printer.Path, "write_text", lambda *_: pytest.fail("figures that mean nothing were written"))
    assert printer.main(["--smoke"]) == bool(wrong)
    assert (large, vars(one)["LAYERS"]) == ([True], 2)
    assert all(name in capsys.readouterr().err for name in wrong)
