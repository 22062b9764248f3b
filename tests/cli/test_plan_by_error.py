"""`hubbub plan` by error, and beside alternatives, which `account calibrate` and `simulate` show too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub.protos.task.signed_task import SignedTask
from support.cli import hubbub_here

TASK = """
[task]
name = "usage"
start = 2030-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 10000
[privacy]
epsilon = 2
delta = 1e-6
epsilon_local = 10
[[query]]
name = "carrier"
kind = "histogram"
categories = ["a", "b", "c", "d"]
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment")
    assert hubbub_here("init", folder).status == 0
    return folder


def test_plan_by_error_says_what_was_solved_and_what_stayed(task: Path) -> None:
    ran = hubbub_here("plan", task, "--error", "carrier=30")
    assert ran.status == 0, ran.err
    assert re.search(r"task usage: everyone keeps ε ≤ 0\.\d+ at δ = 1e-06", ran.out)
    assert "the least found that reaches the stated standard errors (carrier 30); epsilon = 2 in the draft" in ran.out
    assert "δ, minimum_reports, the cap on ε_local, weights, dummies and noise stay as the draft has them" in ran.out
    assert "standard error at ε =" in ran.out
    assert "(this plan)" in ran.out
    assert "no error is stated for other queries" not in ran.out


# `test_plan_by_error_says_what_was_solved_and_what_stayed` says it of fewer.
@pytest.mark.exhaustive
def test_plan_by_error_says_what_becomes_of_the_queries_without_a_stated_error(task: Path) -> None:
    task.write_text(TASK + '[[query]]\nname = "delay"\nkind = "sum"\nlower = 0\nupper = 60\n')
    words = ("plan", task, "--error", "carrier=40", "--no-compare")
    told = re.search(
        r"no error is stated for other queries; at ε = (\S+) their .* are: delay [\d,]+\n", hubbub_here(*words).out
    )
    document = hubbub_here(*words, "--json").json
    assert told is not None
    assert float(told[1]) == pytest.approx(document["by_error"]["epsilon"], rel=1e-5)
    _, delay = document["queries"]
    assert document["by_error"]["unstated"] == {"delay": delay["expected_standard_error"]}


def test_plan_by_error_in_json_and_in_the_task_that_is_written(task: Path, deployment: Path) -> None:
    task.write_text(TASK + "error = 9\n")
    out, keys = task.with_suffix(".json"), deployment / "operator" / "trust"
    ran = hubbub_here("plan", task, "--error", "30", "--out", out, "--trust", keys, "--json")
    assert ran.status == 0, ran.err
    stated = ran.json["by_error"]
    assert stated["stated"] == {"carrier": 30.0}
    assert stated["epsilon_most"] == 2.0
    assert SignedTask.decode(out.read_bytes()).task.privacy.epsilon == stated["epsilon"] < 2
    (carrier,) = ran.json["queries"]
    assert 29 < carrier["expected_standard_error"] <= 30
    (own,) = (each for each in ran.json["errors_by_epsilon"] if each["planned"])
    assert own["expected_standard_errors"] == {"carrier": carrier["expected_standard_error"]}
    assert [each["epsilon"] for each in ran.json["errors_by_epsilon"] if not each["planned"]] == [0.25, 0.5, 1, 2, 4, 8]


def test_a_drafts_own_error_is_planned_for(task: Path) -> None:
    task.write_text(TASK + "error = 20\n")
    assert hubbub_here("plan", task, "--no-compare", "--json").json["by_error"]["stated"] == {"carrier": 20.0}


def test_the_picture_shows_the_errors_and_what_was_stated(task: Path, tmp_path: Path) -> None:
    picture = tmp_path / "errors.svg"
    ran = hubbub_here("plan", task, "--error", "30", "--picture", picture, "--no-compare")
    assert ran.status == 0, ran.err
    assert f"wrote {picture}" in ran.out
    assert "10 (own)" not in ran.out
    drawn = picture.read_text()
    assert "standard error of one count" in drawn
    assert "dotted: stated" in drawn


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--error", "carrier=0"), "--error carrier=0: give a standard error above 0, in the unit of the estimate"),
        (
            ("--error", "-1"),
            "--error -1: give a standard error above 0, in the unit of the estimate, such as 30 people",
        ),
        (("--error", "carrier=nan"), "--error 'carrier=nan' is not QUERY=ERROR or ERROR"),
        (("--error", "inf"), "--error 'inf' is not QUERY=ERROR or ERROR"),
        (
            ("--error", "carrier=30", "--error", "carrier=40"),
            "--error carrier=40: carrier has the error 30 already; state one for each query",
        ),
        (("--error", "carrier=30", "--error", "40"), "--error 40: carrier has the error 30 already"),
        (("--error", "carrier=many"), "--error 'carrier=many' is not QUERY=ERROR or ERROR, such as carrier=30 or 30"),
        (("--error", "30 people"), "--error '30 people' is not QUERY=ERROR or ERROR"),
        (("--error", "delay=3"), "--error 'delay=3': the queries that take an error are 'carrier'; name one of them"),
        (
            ("--error", "carrier=30,delay=9"),
            "--error 'carrier=30,delay=9' states several errors; repeat the option: --error carrier=30 --error delay=9",
        ),
        (("--error", "carrier=0.01"), "epsilon = 100 comes nearest: carrier "),
        (("--error", "carrier=7"), "each of these alone reaches it: epsilon = 2."),
        (("--picture", "errors.pdf"), "--picture errors.pdf ends in '.pdf'; name a file that ends in .svg or .png"),
    ],
)
def test_what_cannot_be_planned_by_error_is_named(task: Path, words: tuple[str, ...], says: str) -> None:
    ran = hubbub_here("plan", task, *words)
    assert ran.status != 0
    assert says in ran.err


def test_plan_shows_what_else_might_be_added_and_who_must_be_honest(task: Path) -> None:
    ran = hubbub_here("plan", task, "--explain")
    assert ran.status == 0, ran.err
    assert "carrier: if the shuffler adds" in ran.out
    assert "10 (own)" in ran.out
    assert "with noise one shuffler alone, even if everybody else lies" in ran.out
    assert "if all shufflers and the analyzer collude, ε_local is left in each case" in ran.out
    short = hubbub_here("plan", task).out
    assert "cap: that on ε_local of the task" in short
    assert "10 (own)" in short
    assert "who must be honest" not in short
    assert "10 (own)" not in hubbub_here("plan", task, "--no-compare").out


def test_plan_and_calibrate_compare_by_the_same_numbers(task: Path) -> None:
    task.write_text(TASK.replace("epsilon = 2", "epsilon = 1"))
    planned = hubbub_here("plan", task, "--compare", "--json").json["alternatives"]["carrier"]
    words = ("--query", "histogram", "--categories", "4", "--epsilon", "1", "--delta", "1e-6", "--reports", "10000")
    ran = hubbub_here("account", "calibrate", *words, "--local-epsilon", "10", "--compare", "--json")
    assert ran.status == 0, ran.err
    assert ran.json["alternatives"] == planned
    assert {each["added"] for each in planned} == {"nothing", "dummies", "noise"}
    printed = hubbub_here("account", "calibrate", *words, "--local-epsilon", "10", "--compare").out
    assert "10 (own)" in printed
    assert "who must be honest" in printed


def test_calibrate_compares_for_one_randomizer_only() -> None:
    words = ("--query", "text", "--epsilon", "1", "--delta", "1e-6", "--reports", "10000", "--compare")
    ran = hubbub_here("account", "calibrate", *words)
    assert ran.status == 2
    assert "--compare is for one randomizer; name it with --randomizer" in ran.err


def test_simulate_shows_the_same_alternatives(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("theme\n" + "light\ndark\n" * 100)
    words = ("simulate", "--data", tmp_path / "usage.csv", "--column", "theme", "--compare", "krr", "--epsilon", "4")
    ran = hubbub_here(*words, "--reports", "100", "--repeat", "2", "--json")
    assert ran.status == 0, ran.err
    found = ran.json["questions"][0]["alternatives"]
    assert (found["randomizer"], found["reports"]) == ("krr", 100)
    asked = ("--query", "histogram", "--categories", "2", "--epsilon", "4", "--delta", "1e-6", "--reports", "100")
    alone = hubbub_here("account", "calibrate", *asked, "--local-epsilon", "8", "--compare", "--json").json
    assert found["rows"] == [each for each in alone["alternatives"] if each["added"] != "dummies"]
    printed = hubbub_here(*words, "--reports", "100", "--repeat", "2").out
    assert "theme, krr, 100 reports: if the shuffler adds" in printed
