"""A sum by digits on the command line: what plan says it gives up, and what a simulation shows of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.cli.tables.plan import _auto_words
from hubbub.planning.plan import plan
from hubbub.protos.task.draft import read_draft
from support.cli import hubbub_here

TASK = """
[task]
name = "delays"
start = 2030-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 1000
[privacy]
epsilon = 2
delta = 1e-6
epsilon_local = {cap}
noise = "{noise}"
[[query]]
name = "delay"
kind = "sum"
lower = 0
upper = 60
unit = "minutes"
digits = 5
"""


def written(folder: Path, cap: int = 40, noise: str = "always") -> Path:
    path = folder / "task.toml"
    path.write_text(TASK.format(cap=cap, noise=noise))
    return path


def test_plan_shows_the_sum_then_its_digits_and_what_is_given_up(tmp_path: Path) -> None:
    ran = hubbub_here("plan", written(tmp_path), "--no-compare")
    assert ran.status == 0, ran.err
    rows = [line.split("│")[1].strip() for line in ran.out.splitlines() if line.startswith("│ delay")]
    assert rows == ["delay", *(f"delay-bit-{place}" for place in range(1, 6))]
    assert "delay: asked by 5 digits, each a query of its own with noise of its own" in ran.out
    assert "if shuffler and analyzer collude, ε_local = 40.0000 is all that is left for it" in ran.out
    document = json.loads(hubbub_here("plan", tmp_path / "task.toml", "--no-compare", "--json").out)
    assert [each["name"] for each in document["queries"]] == document["sums"][0]["digits"] == rows[1:]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("cap", "noise", "message"),
    [
        (8, "always", r"leave the digits out"),
        (40, "none", "query[0].digits are given, but the task has noise = 'none'"),
    ],
)
def test_plan_refuses_digits_that_are_worth_nothing(tmp_path: Path, cap: int, noise: str, message: str) -> None:
    ran = hubbub_here("plan", written(tmp_path, cap, noise))
    assert ran.status != 0
    assert message in ran.err


def test_noise_that_is_left_out_is_not_that_of_digits() -> None:
    """Digits keep their noise where that of other queries would cost rounds."""
    planned = replace(plan(read_draft(TASK.format(cap=40, noise="auto"))), noise_needs=9.0)
    assert _auto_words(planned).startswith("noise = auto: no noise but that of digits, as fewer rounds would fit")


def data_in(folder: Path) -> Path:
    path = folder / "data.csv"
    path.write_text("delay\n" + "\n".join(str(place % 61) for place in range(1200)) + "\n")
    return path


# test_tasks.py compares on a column, unit/planning/simulate/test_compare.py what each promises.
@pytest.mark.exhaustive
def test_simulate_compares_a_sum_by_digits_by_the_numbers_of_plan(tmp_path: Path) -> None:
    task = written(tmp_path)
    planned = hubbub_here("plan", task, "--compare", "--json").json["alternatives"]["delay"]
    by_digits = [each for each in planned if each["added"] == "digits"]
    assert 40 in [each["cap"] for each in by_digits]
    words = ("--compare", "krr", "--reports", "1000", "--repeat", "2", "--json")
    (found,) = hubbub_here("simulate", task, "--data", data_in(tmp_path), *words).json["questions"]
    rows = found["alternatives"]["rows"]
    assert [each for each in rows if each["added"] == "digits"] == by_digits
    assert {each["added"] for each in rows} == {"nothing", "noise", "digits"}


def test_simulate_shows_the_sum_alone(tmp_path: Path) -> None:
    data = data_in(tmp_path)
    ran = hubbub_here("simulate", written(tmp_path), "--data", data)
    assert ran.status == 0, ran.err
    assert "delay in minutes" in ran.out
    assert "sum" in ran.out
    assert "nothing stands out" not in ran.out
    assert "delay-bit-5" in ran.out  # in the table of privacy
