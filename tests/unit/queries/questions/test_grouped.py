"""A joint answer's parts, its symbol, and totals that agree with the sums of their groups."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.planning.plan import plan
from hubbub.protos.errors import TaskError
from hubbub.protos.task.draft import read_draft
from hubbub.queries.design import Design
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.estimation.count_law import law_of_counts
from hubbub.queries.estimation.estimates import Estimate, Estimates, Group
from hubbub.queries.query import Query, read_question
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, symbols_of
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.randomizers.unary import UnaryEncoding

REGION = Histogram("region", ("north", "south"))
DEVICE = Histogram("device", ("phone", "tablet", "other"))
THEME = Histogram("theme", ("light", "dark"))
THEME_BY = Grouped("theme", (REGION, DEVICE), THEME)
SESSION_BY = Grouped("session", (REGION,), Number("session", 0.0, 120.0, "minutes", optional=True, levels=3))
TRIP_BY = Grouped("trip", (REGION,), Distribution("trip", (0.0, 1.0, 5.0, 9.0)), optional=True)
ALL = (THEME_BY, SESSION_BY, TRIP_BY)
WHOLE: Group = ()


def asked(question: Question, unary: bool = False) -> Query:
    symbols = symbols_of(question)
    return Query(question, UnaryEncoding(symbols, 2**31, 2**28) if unary else KRandomizedResponse(symbols, 2**30))


def draft(**members: Any) -> dict[str, Any]:
    by = [{"name": "region", "categories": ["north", "south"]}]
    of = {"kind": "sum", "lower": 0, "upper": 120}
    return {"name": "session", "kind": "grouped", "by": by, "of": of, **members}


def checked(**members: Any) -> Question:
    question = read_question("query[0]", draft(**members))
    question.check("query[0]")
    return question


@pytest.mark.parametrize(
    ("members", "table", "key"),
    [
        ({"name": ""}, "query[0]", "name"),
        ({"name": "two\nlines"}, "query[0]", "name"),
        ({"by": [{"name": "", "categories": ["a", "b"]}]}, "query[0].by[0]", "name"),
        ({"weight": 0.0}, "query[0]", "weight"),
    ],
    ids=["no name", "two lines", "an attribute without a name", "no weight"],
)
def test_what_every_question_has_is_checked_of_a_grouped_one_too(members: dict[str, Any], table: str, key: str) -> None:
    with pytest.raises(FieldError) as refused:
        checked(**members)
    assert (refused.value.table, refused.value.key) == (table, key)


# The symbol


def test_every_pair_of_a_group_and_an_answer_has_its_own_symbol() -> None:
    symbols = [
        THEME_BY.encode({"region": region, "device": device, "theme": theme}, os.urandom)
        for region in REGION.categories
        for device in DEVICE.categories
        for theme in THEME.categories
    ]
    assert symbols == list(range(THEME_BY.answers)) == list(range(12))


def test_no_answer_in_a_group_is_told_from_no_answer_at_all() -> None:
    assert SESSION_BY.encode({"region": "south", "session": None}, os.urandom) == 9
    assert SESSION_BY.encode({"region": "south"}, os.urandom) == 9
    assert asked(TRIP_BY).encode(None, os.urandom) == TRIP_BY.answers == 6
    with pytest.raises(AnswerError, match="session has no answer"):
        asked(SESSION_BY).encode(None, os.urandom)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("north", "must be a mapping with the keys region, session"),
        (12.5, "must be a mapping with the keys"),
        ({"region": "north", "session": 1.0, "age": 7}, "must be a mapping with the keys"),
        ({"session": 1.0}, "the answer to region is missing; it must be a text, one of 'north'"),
        ({"region": "secret", "session": 1.0}, "the answer to region is not one of its categories"),
        ({"region": "north", "session": "secret"}, "the answer to session is a str; it must be a number"),
    ],
)
def test_an_answer_of_another_form_is_refused_without_being_repeated(answer: Any, says: str) -> None:
    with pytest.raises(AnswerError, match=says) as caught:
        SESSION_BY.encode(answer, os.urandom)
    assert "secret" not in str(caught.value)


def test_an_answer_is_typed_as_a_line_of_csv() -> None:
    assert SESSION_BY.parse("north,12.5") == {"region": "north", "session": 12.5}
    assert SESSION_BY.parse("north, ") == {"region": "north", "session": None}
    comma = Grouped("theme", (Histogram("region", ("north, upper", "south")),), THEME)
    assert comma.parse('"north, upper",dark') == {"region": "north, upper", "theme": "dark"}
    for wrong in ("north", "north,1,2", ""):
        with pytest.raises(AnswerError, match="write region,session, with quotes"):
            SESSION_BY.parse(wrong)
    with pytest.raises(AnswerError, match="it must be a number"):
        SESSION_BY.parse("north,long")


# Drafts and tasks


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"by": []}, "by has 0 attributes; give one or two"),
        ({"by": [{"name": n, "categories": ["a", "b"]} for n in "xyz"]}, "by has 3 attributes"),
        (
            {"by": [{"name": "x", "categories": ["a", "b"]}] * 2},
            r"by\[1\].name is 'x', the name of the query or another",
        ),
        ({"by": [{"name": "session", "categories": ["a", "b"]}]}, r"by\[0\].name is 'session'"),
        ({"by": [{"name": "x", "categories": ["a"]}]}, r"by\[0\].categories has 1 names"),
        ({"by": [{"name": "x"}]}, r"by\[0\].categories is missing"),
        ({"by": ["region"]}, r"by\[0\].name is missing: 'region' is no table"),
        ({"by": "region"}, "by is 'region'; it must be a list"),
        ({"of": "sum"}, "of is 'sum'; it must be a table"),
        ({"of": {"kind": "grouped"}}, r"of.kind is 'grouped'; it must be 'histogram' or 'sum' or"),
        ({"of": {"kind": "sum", "lower": 0}}, r"of.upper is missing; add it"),
        ({"of": {"kind": "sum", "lower": 2, "upper": 1}}, r"of.lower is 2, which is not below"),
        ({"of": {"kind": "sum", "lower": 0, "upper": 1, "weight": 2}}, r"of.weight belongs to the whole query"),
        ({"of": {"kind": "sum", "lower": 0, "upper": 1, "levels": 2}}, r"of.levels is not a key hubbub knows"),
        ({"of": {"kind": "histogram", "categories": [str(n) for n in range(500_000)]}}, "makes 2 groups and 1000000"),
    ],
    ids=range(15),
)
def test_a_draft_of_another_form_is_refused_with_its_key(members: dict[str, Any], says: str) -> None:
    with pytest.raises(FieldError, match=says):
        checked(**members)


DRAFT = """\
[task]
name = "usage"
start = 2026-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 1000

[privacy]
epsilon = 1
delta = 1e-6

[[query]]
name = "session"
kind = "grouped"
by = [{ name = "region", categories = ["north", "south"] }]

[query.of]
kind = "sum"
lower = 0
upper = 120
"""


def test_a_draft_s_error_within_a_query_names_its_line() -> None:
    with pytest.raises(TaskError, match=r"^line 19: query\[0\].of.lower is 130, which is not below upper = 120"):
        read_draft(DRAFT.replace("lower = 0", "lower = 130"))
    with pytest.raises(TaskError, match=r"^line 12: query\[0\].by\[0\].categories has 1 names"):
        read_draft(DRAFT.replace('["north", "south"]', '["north"]'))


@pytest.mark.parametrize("question", ALL, ids=lambda each: each.name)
def test_a_task_s_query_comes_back_as_it_was(question: Grouped) -> None:
    for unary in (False, True):
        query = Query(replace(question, randomizer="unary" if unary else "krr"), asked(question, unary).randomizer)
        assert Query.read("query[0]", query.content()) == query
    assert set(asked(question).content()["of"]) & {"name", "weight"} == set()


# Planning


def test_planning_takes_whole_groups_and_states_the_worst_error_of_one() -> None:
    planned = plan(read_draft(DRAFT)).queries[0]
    question = planned.query.question
    assert isinstance(question, Grouped)
    assert isinstance(question.of, Number)
    assert question.of.levels is not None
    assert planned.query.symbols == 2 * (question.of.levels + 1)
    assert question.planned_for == "the sum in one group"
    # Any other number of levels has a larger error at the very same randomizer's privacy.
    design = Design(question)
    assert all(size % 2 == 0 for size in list(design.sizes)[:50])


@pytest.mark.parametrize("question", ALL, ids=lambda each: each.name)
def test_the_planned_error_is_the_largest_over_what_everybody_may_answer(question: Grouped) -> None:
    """By brute force: everybody encodes one and the same symbol, or a mixture of two neighbors."""
    query = asked(question)
    weights = question.headline()
    each = query.randomizer.variances(weights)
    rounds = [0.0] * len(each)
    if isinstance(question.of, Number):
        steps = question.of.answers - 1
        for place in range(steps):
            for part in np.linspace(0, 1, 101):
                mixed = (1 - part) * each[place] + part * each[place + 1] + part * (1 - part) / steps**2
                rounds.append(float(mixed))
    assert question.worst(each) == pytest.approx(max([*map(float, each), *rounds]), rel=1e-3)
    assert question.worst(each) >= max([*map(float, each), *rounds]) - 1e-12


# Estimates


def by_group(found: Estimates, statistic: str) -> dict[Group, list[float]]:
    values: dict[Group, list[float]] = {}
    for row in found.rows:
        if row.statistic == statistic and row.estimate is not None:
            values.setdefault(row.group, []).append(row.estimate.value)
    return values


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unary", [False, True], ids=["krr", "unary"])
@pytest.mark.parametrize("question", ALL, ids=lambda each: each.name)
@given(data=st.data())
def test_totals_are_the_sums_of_their_groups(question: Grouped, unary: bool, data: st.DataObject) -> None:
    """Except, of bits, that all who answered are known if everybody answers, and groups are estimates."""
    query = asked(question, unary)
    counts = np.array(data.draw(st.lists(st.integers(0, 400), min_size=query.symbols, max_size=query.symbols)))
    valid = int(counts.sum()) + (0 if not unary else 400)
    found = query.estimates(Tally(counts, valid), 0)
    for statistic in ("count",) if unary and not question.optional else ("count", "answered", "sum"):
        values = by_group(found, statistic)
        if not values:
            continue
        for fixed in range(1, len(question.by) + 1):
            parts = [np.array(numbers) for group, numbers in values.items() if len(group) == fixed]
            if fixed == 1 and len(question.by) == 2:
                parts = [np.array(values[group]) for group in values if len(group) == 1 and group[0][0] == "region"]
            assert np.sum(parts, axis=0) == pytest.approx(np.array(values[WHOLE]), rel=1e-9, abs=1e-6)


@given(st.lists(st.integers(0, 400), min_size=12, max_size=12))
def test_consistent_counts_agree_are_not_negative_and_add_up_to_the_reports(counts: list[int]) -> None:
    found = asked(THEME_BY).estimates(Tally(np.array(counts), sum(counts)), 0)
    projected: dict[Group, float] = {}
    for row in found.rows:
        if row.consistent is not None:
            assert row.consistent >= 0
            projected[row.group] = projected.get(row.group, 0.0) + row.consistent
    for fixed in (("region",), ("device",), ("region", "device"), ()):
        parts = [number for group, number in projected.items() if tuple(name for name, _ in group) == fixed]
        assert sum(parts) == pytest.approx(sum(counts), abs=1e-6)


def test_a_margin_s_error_is_that_of_its_symbols_together() -> None:
    query = asked(THEME_BY)
    found = query.estimates(Tally(np.full(12, 100), 1200), 0)
    (phones,) = (row for row in found.rows if row.group == (("device", "phone"),) and row.category == "dark")
    weights = np.zeros(12)
    weights[[1, 7]] = 1.0
    each = query.randomizer.variances(weights)
    counts = (np.full(12, 100) - 1200 * query.randomizer.support_other) / query.randomizer.support_gap
    assert phones.estimate is not None
    assert phones.estimate.standard_error == pytest.approx(float(each @ counts) ** 0.5, rel=1e-9)


@pytest.mark.parametrize("unary", [False, True], ids=["krr", "unary"])
def test_everybody_s_number_is_known_where_everybody_answers(unary: bool) -> None:
    found = asked(THEME_BY, unary).estimates(Tally(np.full(12, 100), 1200), 0)
    (answered,) = (row for row in found.rows if row.statistic == "answered" and row.group == WHOLE)
    assert answered.estimate == Estimate(1200.0, 0.0, 1200.0, 1200.0, (1200.0, 1200.0))


def test_a_total_s_interval_is_that_of_its_symbols_together() -> None:
    counts = np.array([90, 5, 7, 60, 4, 3, 8, 9, 2, 5, 6, 1])
    query = asked(THEME_BY)
    found = query.estimates(Tally(counts, 200), 0)
    (north,) = (row for row in found.rows if row.statistic == "answered" and row.group == (("region", "north"),))
    (low,), (high,) = law_of_counts(query.randomizer, 200, 0, None, 6).intervals(counts[:6].sum(keepdims=True), 0.05)
    assert north.estimate is not None
    assert (north.estimate.lower, north.estimate.upper) == pytest.approx((low, high))


def test_rows_name_their_groups_everybody_first() -> None:
    found = asked(THEME_BY).estimates(Tally(np.full(12, 100), 1200), 0)
    groups = list(dict.fromkeys(row.group for row in found.rows))
    assert groups[:4] == [(), (("region", "north"),), (("region", "south"),), (("device", "phone"),)]
    assert groups[6:8] == [(("region", "north"), ("device", name)) for name in ("phone", "tablet")]
    assert len(groups) == 1 + 2 + 3 + 6
    assert len({row.key for row in found.rows}) == len(found.rows)


def test_true_values_are_by_group() -> None:
    rows: list[Any] = [
        {"region": "north", "session": 10.0},
        {"region": "north", "session": None},
        {"region": "south", "session": 200.0},
    ]
    truth = SESSION_BY.truth(rows)
    assert (truth["sum", None], truth["answered", None]) == (130.0, 2.0)
    assert (truth["sum", "region=north"], truth["answered", "region=north"]) == (10.0, 1.0)
    assert truth["mean", "region=south"] == 120.0
