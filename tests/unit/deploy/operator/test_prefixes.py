"""Planned, simulated, shown, and refused with what to do."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from hubbub.cli.commands.results import _check_lookups
from hubbub.cli.tables.prefixes import print_steps, steps_document
from hubbub.cli.tables.truth import print_query
from hubbub.deploy.operator.prefixes import read_alphabet
from hubbub.planning.planned import Plan, PlannedQuery, steps_of
from hubbub.planning.simulate.dataset import Dataset
from hubbub.planning.simulate.simulate import most_rounds, reports_drawn, simulate, whole_round
from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.records.results_document import row_label
from hubbub.protos.task.draft import check_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.texts.heavy_hitters import PrefixStep
from hubbub.queries.texts.text import DIGESTS, Text
from support.samples import FEW, START

WORD = Text("word", prefixes=(1, 2))
PRIVACY = Privacy(8.0, 1e-4, 16.0, epsilon_total=20.0, large_delta=FEW)
PEOPLE = {"ab": 500, "a": 400, "cäs": 300, "wilderness": 300}


def draft(rounds: int = 3) -> Draft:
    return Draft("usage", Schedule(START, 3600, 60, rounds), 1500, PRIVACY, (WORD,))


@pytest.fixture(scope="module")
def planned() -> Plan:
    """Not calibrated, which takes seconds: any randomizer does here."""
    query = Query(WORD, HashedResponse(DIGESTS, 256, 64, 2**30))
    return Plan(draft(), (PlannedQuery(query, query.mechanism.epsilon_local, 1.0, 10.0, 1500.0),))


@pytest.fixture(scope="module")
def document(planned: Plan) -> dict[str, Any]:
    words = [word for word, people in PEOPLE.items() for _ in range(people)]
    return simulate(planned, Dataset("usage", (WORD,), pa.table({"word": words})), lambda _: None)


def printed(steps: Sequence[PrefixStep], within: int) -> str:
    console = Console(file=io.StringIO(), width=120)
    print_steps(console, "word", steps, within)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_simulation_plays_every_round_and_states_what_all_of_them_cost(document: dict[str, Any]) -> None:
    """Each estimate is beyond eight standard errors with probability 4e-9 at most."""
    (word,) = document["queries"]
    rows = {(row["statistic"], row["category"]): row for row in word["estimates"]}
    # One byte more than the last prefix is looked up: "cäs" has four.
    assert {("count", "ab"), ("count", "a"), ("beginning", "c\\xc3…"), ("beginning", "wi…")} <= set(rows)
    truths = {("count", "ab"): 500, ("count", "a"): 400, ("beginning", "c\\xc3…"): 300, ("beginning", "wi…"): 300}
    assert {key: rows[key]["truth"] for key in truths} == truths
    assert all(abs(rows[key]["error_in_standard_errors"]) < 8 for key in truths)
    assert {rows[key]["at"] for key in truths if key[0] == "beginning"} == {1}
    assert document["rounds"] == 3
    assert document["privacy"]["all_rounds"]["epsilon_upper"] > document["privacy"]["round_total"]["epsilon_upper"]
    assert len(document["privacy"]["all_rounds"]["history"]) == 3


def test_what_is_found_is_printed_beside_the_truth_with_what_was_looked_up(document: dict[str, Any]) -> None:
    console = Console(file=io.StringIO(), width=120)
    print_query(console, document["queries"][0])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "wi… (beginning, round 1)" in shown
    assert "round 2, whole texts:" in shown
    assert "false-discovery rate 5% in each round" in shown


def test_as_many_rounds_are_played_as_a_question_needs(planned: Plan) -> None:
    assert (most_rounds(planned), reports_drawn(planned, 10)) == (3, 30)
    assert whole_round(Query(Histogram("theme", ("a", "b")), KRandomizedResponse(2, 1))) == 0


def test_a_plan_says_what_each_round_tells_and_whether_the_budget_reaches(planned: Plan) -> None:
    steps = steps_of(planned)["word"]
    assert [each["length"] for each in steps_document(steps)] == [1, 2, None]
    assert "stands out from" in printed(steps, 3)
    assert "finding the texts takes 3" not in printed(steps, 3)
    assert "the budget allows 2 rounds, and finding the texts takes 3" in printed(steps, 2)


def test_steps_that_no_beginning_can_be_continued_by_are_told_beforehand(planned: Plan) -> None:
    steps = Text("word", prefixes=(2, 6)).steps(planned.queries[0].query.randomizer, 1500, 0)
    assert [each.beginnings for each in steps] == [1, 0, 0]
    assert "the step is too long for all characters" in printed(steps, 3)


def test_a_draft_with_too_few_rounds_is_refused() -> None:
    with pytest.raises(TaskError, match=r"task\.rounds is 2; word takes one for each of its 2 prefixes"):
        check_draft(draft(2))


def test_a_beginning_is_told_from_a_text() -> None:
    assert row_label((), "ca…", "beginning", 1) == "ca… (beginning, round 1)"
    assert row_label((), "ca…", "count", None) == "ca…"


@pytest.mark.parametrize("characters", ["", "a\ud800"])
def test_an_alphabet_that_is_none_is_refused(characters: str) -> None:
    with pytest.raises(UsageError, match="--alphabet"):
        read_alphabet(characters)


def test_options_that_do_not_go_together_are_refused(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        _check_lookups(tmp_path, True, None)
    with pytest.raises(UsageError, match="--alphabet needs --prefixes"):
        _check_lookups(None, False, "abc")
    _check_lookups(None, True, "abc")
