"""Planned, simulated on the columns of a file, answered on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.cli.commands.submit import read_answers
from hubbub.deploy.files import draft_in
from hubbub.protos.errors import UsageError
from hubbub.queries.query import Query
from hubbub.queries.questions.question import symbols_of
from hubbub.queries.randomizers.krr import KRandomizedResponse
from support.cli import hubbub_here
from support.samples import Parties, sample_task

DRAFT = """\
[task]
name = "usage"
start = 2999-01-01T00:00:00Z
length = "24h"
grace = "10m"
minimum_reports = 2000

[privacy]
epsilon = 4.0
delta = 1e-6
epsilon_local = 18

[[query]]
name = "session"
kind = "distribution"
edges = [0, 5, 10, 20, 60]
quantiles = [0.5]
unit = "minutes"
optional = true

[[query]]
name = "site"
kind = "top"
categories = ["a", "b", "c", "d", "e"]

[[query]]
name = "delay"
kind = "variance"
lower = -30
upper = 180

[[query]]
name = "theme"
kind = "grouped"
by = [{ name = "region", categories = ["north", "south"] }]
of = { kind = "histogram", categories = ["light", "dark"] }
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("task") / "task.toml"
    path.write_text(DRAFT)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def line(device: int) -> str:
        area = ("north", "south")[device % 4 == 0]
        theme = ("light", "dark")[device % 3 == 0]
        return f"{device % 40 if device % 7 else ''},{'ab'[device % 2]},{device % 100},{area},{theme}"

    path = tmp_path_factory.mktemp("data") / "usage.csv"
    path.write_text("\n".join(["session,site,delay,area,theme", *map(line, range(3000))]))
    return path


def test_a_plan_says_which_statistic_each_error_is_of(task: Path) -> None:
    ran = hubbub_here("plan", task, "--json")
    assert ran.status == 0, ran.err
    assert [query["planned_for"] for query in ran.json["queries"]] == [
        "the number of people up to the middle edge, 10",
        "one count",
        "the variance times the number of people, at most, wherever their mean is",
        "one count in one group",
    ]
    assert [query["kind"] for query in ran.json["queries"]] == ["distribution", "top", "variance", "grouped"]
    assert ran.json["queries"][2]["levels"] is not None


def test_each_is_simulated_on_the_columns_of_its_parts(task: Path, data: Path) -> None:
    ran = hubbub_here("simulate", task, "--data", data, "--column", "region=area", "--json")
    assert ran.status == 0, ran.err
    session, site, _, theme = ran.json["queries"]
    (median,) = (row for row in session["estimates"] if row["statistic"] == "quantile")
    assert median["lower"] <= median["truth"] == 19 <= median["upper"]
    found = {row["category"]: row["truth"] for row in site["estimates"] if row["statistic"] == "count"}
    # Which of the three that nobody holds are found beside them is chance: some are, once in thirty runs.
    assert {category: truth for category, truth in found.items() if truth} == {"a": 1500, "b": 1500}
    truth = {(row.get("group", {}).get("region"), row["category"]): row["truth"] for row in theme["estimates"]}
    assert truth[None, "dark"] == 1000
    assert truth["south", "dark"] == 250
    errors = [row["error_in_standard_errors"] for query in ran.json["queries"] for row in query["estimates"]]
    # Some 25 estimates, each beyond eight standard errors with probability 4e-9 at most.
    assert all(abs(error) < 8 for error in errors if error is not None)


def test_a_column_of_a_part_that_is_missing_is_named(task: Path, data: Path) -> None:
    ran = hubbub_here("simulate", task, "--data", data)
    assert ran.status == 1
    assert "no column 'region'" in ran.err
    assert "name the query's column with --column region=COLUMN" in ran.err
    ran = hubbub_here("simulate", task, "--data", data, "--column", "country=area")
    assert ran.status == 2
    assert "the queries are session, site, delay, region, theme" in ran.err


def test_answers_are_typed_as_each_question_reads_them(task: Path) -> None:
    sized = [question.sized(question.sizes[0]) for question in draft_in(task).questions]
    queries = tuple(Query(question, KRandomizedResponse(symbols_of(question), 2**30)) for question in sized)
    frozen = sample_task(Parties.generate(), queries=queries)
    typed = ["session=12.5", "site=b", "delay=7", "theme=north,dark"]
    answers = read_answers(frozen, typed)
    assert answers == {"session": 12.5, "site": "b", "delay": 7.0, "theme": {"region": "north", "theme": "dark"}}
    with pytest.raises(UsageError, match="write region,theme, with quotes around a value that has a comma"):
        read_answers(frozen, ["theme=dark"])
