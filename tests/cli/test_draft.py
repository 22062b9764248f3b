"""`hubbub draft` writes a task that `simulate` and `plan` take as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import hubbub_here


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "trips.csv"
    rows = [f"{('car', 'bus')[row % 3 == 0]},{10 + row % 30}" for row in range(300)]
    path.write_text("\n".join(["transport,travel time", *rows]))
    return path


def test_a_draft_is_simulated_and_planned_as_it_is(data: Path) -> None:
    out = data.parent / "task.toml"
    ran = hubbub_here("draft", data, "--out", out)
    assert ran.status == 0, ran.err
    assert ran.out.endswith(f"hubbub simulate {out} --data {data} shows what it would give\n")
    played = hubbub_here("simulate", out, "--data", data, "--json").json
    assert played["released"]
    assert [each["name"] for each in played["queries"]] == ["transport", "travel time"]
    assert hubbub_here("plan", out, "--json").status == 0
    again = hubbub_here("draft", data, "--out", out)
    assert (again.status, "is there already; remove it" in again.err) == (2, True)


def test_a_draft_is_printed_or_is_json(data: Path) -> None:
    shown = hubbub_here("draft", data, "--histogram", "transport").out
    assert shown.startswith("# Drafted from trips.csv")
    assert 'categories = ["bus", "car"]' in shown
    assert hubbub_here("draft", data, "--histogram", "transport", "--json").json["draft"] == shown


def test_without_a_task_the_drafted_one_is_simulated(data: Path) -> None:
    ran = hubbub_here("simulate", "--data", data, "--column", "transport", "--sum", "travel time:0:60", "--json")
    assert ran.status == 0, ran.err
    assert [each["name"] for each in ran.json["queries"]] == ["transport", "travel time"]
    refused = hubbub_here("simulate", "--data", data, "--column", "nothing")
    assert "no one column 'nothing'; its columns are transport, travel time" in refused.err
