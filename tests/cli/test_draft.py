"""`hubbub draft` writes a task that `simulate` and `plan` take as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_of_two_drafts_that_are_written_at_once_one_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one, which had looked before the first was written, wrote over it."""
    from hubbub.planning.simulate import drafting

    out, draft = data.parent / "task.toml", drafting.drafted

    def late(*words: Any) -> drafting.DraftedTask:
        out.write_text("# of the other")
        return draft(*words)

    monkeypatch.setattr(drafting, "drafted", late)
    ran = hubbub_here("draft", data, "--out", out)
    assert (ran.status, "is there already; remove it" in ran.err) == (2, True)
    assert out.read_text() == "# of the other"


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
    assert "no column 'nothing'; its columns are transport, travel time" in refused.err


def test_what_is_noted_of_a_drafted_task_is_printed_once_and_the_next_command_reads_the_file_alike(
    tmp_path: Path,
) -> None:
    data, out = tmp_path / "trips.csv", tmp_path / "task.toml"
    rows = [f"{('car', 'bus', '-')[row % 3]};{'NA' if row % 9 == 4 else row % 30},5" for row in range(90)]
    data.write_text("\n".join(["transport;time", *(row.replace("NA,5", "NA") for row in rows)]))
    ran = hubbub_here("draft", data, "--decimal", ",", "--missing", "NA", "--out", out)
    assert ran.status == 0, ran.err
    assert f"simulate {out} --data {data} --decimal , --missing NA shows" in ran.out
    played = hubbub_here("simulate", out, "--data", data, "--decimal", ",", "--missing", "NA")
    assert "'transport' has '-', counted as a category; if that means no answer, add --missing NA,-" in played.err
    alone = hubbub_here("simulate", "--data", data, "--decimal", ",", "--missing", "NA")
    assert alone.err.count("counted as a category") == 1
    assert hubbub_here("draft", data, "--decimal", ",", "--missing", "-,NA").status == 0


def test_a_planned_task_and_a_file_of_data_are_no_draft(data: Path) -> None:
    for command in (("plan", data), ("simulate", data, "--data", data)):
        assert "a file of data; give the task as written by hand" in hubbub_here(*command).err
