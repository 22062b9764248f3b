"""Which tests are slow: by what was measured, and kept until it is measured again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from loop import costs

from support import cost
from support.patience import PATIENCE

MEASURED = """module tests/unit/test_b.py	3.00
collection	18.00
test tests/unit/test_b.py::test_quick[a]	0.02
test tests/unit/test_b.py::test_quick[b]	0.04
test tests/unit/test_b.py::test_half[a]	0.01
test tests/unit/test_b.py::test_half[b]	0.19
test tests/unit/test_b.py::test_rare[0]	1.50
""" + "".join(f"test tests/unit/test_b.py::test_rare[{case}]\t0.01\n" for case in range(1, 30))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files of tests, and what an earlier measurement wrote."""
    folder = tmp_path / "tests/unit"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text("def test_dear() -> None: ...\n")
    (folder / "test_b.py").write_text("def test_quick(): ...\ndef test_half(): ...\ndef test_rare(): ...\n")
    path = tmp_path / "costs.txt"
    path.write_text(
        "2 tests/unit/test_a.py::test_dear\n7 tests/unit/test_a.py::test_went\n"
        "9 tests/unit/test_b.py::test_quick\n3 tests/unit/test_c.py::test_dear\n"
    )
    monkeypatch.setattr(costs, "ROOT", tmp_path)
    monkeypatch.setattr(costs, "COSTS", path)
    monkeypatch.setattr(cost, "COSTS", path)
    return path


def test_what_is_measured_replaces_what_was_and_the_rest_stays(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "measured").write_text(MEASURED)
    costs.main([str(tmp_path / "measured")])
    assert kept.read_text().splitlines() == [
        "2 tests/unit/test_a.py::test_dear",
        "0.1 tests/unit/test_b.py::test_half",
        "1.5 tests/unit/test_b.py::test_rare[0]",
    ]


def test_of_two_measurements_the_least_counts() -> None:
    assert costs.measured(["test a\t0.30", "test a\t0.20", "test a\t0.40"]) == {"a": 0.2}


def test_every_test_that_is_recorded_as_slow_is_there() -> None:
    """If not, `python tests/loop/costs.py /dev/null` takes out those that are gone."""
    assert [name for name in cost.recorded() if not costs.is_there(name)] == []


def test_a_test_and_a_single_case_are_marked(kept: Path) -> None:
    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid, self.marks = nodeid, list[str]()

        def add_marker(self, mark: str) -> None:
            self.marks.append(mark)

    kept.write_text("2 t.py::test_dear\n1.5 t.py::test_rare[0]\n4 t.py::test_went\n")
    items = [Item(name) for name in ("t.py::test_dear[x]", "t.py::test_rare[0]", "t.py::test_rare[1]")]
    cost.mark_slow(items)  # type: ignore[arg-type]
    assert [item.marks for item in items] == [["slow"], ["slow"], []]


def test_a_process_that_ended_costs_no_more_and_ends_nothing() -> None:
    """It ends while it is looked at: an error outside a test ends the process that runs the tests."""
    ended = subprocess.Popen(["true"])
    ended.wait(PATIENCE)
    assert cost._children(ended.pid) == []
    assert cost._spent_by(ended.pid) == 0
