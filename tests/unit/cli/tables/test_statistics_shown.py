"""Rows about groups, points, bands and zero, in the table, in JSON, in CSV and beside the truth."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv
from rich.console import Console

from hubbub.cli.tables.results import print_results
from hubbub.cli.tables.truth import print_query
from hubbub.deploy.operator.export import as_table, write_csv
from hubbub.planning.simulate.truth import query_document
from hubbub.protos.records.results import QueryResult, QueryState, RoundId, RoundResults
from hubbub.protos.records.results_document import results_document, row_label, table_rows
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.query import Query
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import Question, symbols_of
from hubbub.queries.questions.top import Top
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally

REGION = Histogram("region", ("north", "south"))
DEVICE = Histogram("device", ("phone", "other"))
THEME_BY = Grouped("theme", (REGION, DEVICE), Histogram("theme", ("light", "dark")))
SESSION = Distribution("session", (0.0, 5.0, 10.0, 60.0), (0.5,), "minutes")
SITE = Top("site", ("a", "b", "c"))


def result(question: Question, counts: list[int]) -> QueryResult:
    query = Query(question, KRandomizedResponse(symbols_of(question), 2**28))
    tally = Tally(np.array(counts, dtype=np.int64), sum(counts))
    return QueryResult(query.name, QueryState.PUBLISHED, tally.valid, tally.valid, {}, query.estimates(tally, 0))


@pytest.fixture
def results() -> RoundResults:
    queries = (
        result(THEME_BY, [300, 200, 100, 100, 50, 4, 150, 96]),
        result(SESSION, [400, 300, 300]),
        result(SITE, [600, 17, 383]),
    )
    return RoundResults(RoundId(bytes(32), "usage", 0), queries, b'{"body":{},"signature":"00"}')


def shown(results: RoundResults, simultaneous: bool = False, width: int = 300) -> str:
    printer = Console(width=width, file=io.StringIO())
    print_results(printer, results, simultaneous)
    text: str = printer.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_statistic_without_a_value_is_named_below_the_table() -> None:
    answered = Row("answered", Estimate(70.0, 0.0, 70.0, 70.0))
    estimates = Estimates("longitudinal", (Row("count", None), answered))
    query = QueryResult("active", QueryState.PUBLISHED, 70, 70, {}, estimates)
    text = shown(RoundResults(RoundId(bytes(32), "usage", 2), (query,), b'{"body":{},"signature":"00"}'))
    assert "no value: count; too few answered, or a round that is needed was not published" in text


def test_a_demo_of_which_nothing_stands_out_says_so_and_one_count_has_no_bar() -> None:
    one = {"statistic": "count", "category": None, "truth": 5.0}
    one |= {"estimate": 5.0, "standard_error": 1.0, "lower": 3.0, "upper": 7.0}
    printer = Console(width=100, file=io.StringIO())
    print_query(printer, {"name": "word", "state": "published", "estimates": []})
    print_query(printer, {"name": "late", "state": "published", "estimates": [one]})
    text: str = printer.file.getvalue()  # type: ignore[attr-defined]
    assert "word: nothing stands out of the noise" in text
    assert "late" in text
    assert "█" not in text


def test_where_all_is_estimated_nothing_is_said_to_have_no_value(results: RoundResults) -> None:
    assert "no value" not in shown(results)


def test_the_document_has_each_group_with_the_statistics_of_everybody(results: RoundResults) -> None:
    theme, session, site = json.loads(json.dumps(results_document(results), allow_nan=False))["queries"]
    assert {"kind", "counts", "answered", "groups"} <= set(theme)
    assert [each["group"] for each in theme["groups"]][:5] == [
        {"region": "north"},
        {"region": "south"},
        {"device": "phone"},
        {"device": "other"},
        {"region": "north", "device": "phone"},
    ]
    assert [len(each["counts"]) for each in theme["groups"]] == [2] * 8
    assert {"group", "counts", "answered"} == set(theme["groups"][0])
    assert [each["at"] for each in session["cdfs"]] == [5.0, 10.0]
    (median,) = session["quantiles"]
    assert (median["at"], median["standard_error"]) == (0.5, None)
    assert [each["category"] for each in site["counts"]] == ["a", "c"]
    assert site["notes"][0].startswith("2 of 3 categories are significantly different from zero")


def test_rows_have_columns_for_groups_points_bands_and_zero(results: RoundResults) -> None:
    rows = table_rows(results)
    joint = [row for row in rows if row["attribute_2"] is not None]
    assert {(row["attribute"], row["attribute_2"]) for row in joint} == {("region", "device")}
    assert {(row["group"], row["group_2"]) for row in joint} == {
        (region, device) for region in REGION.categories for device in DEVICE.categories
    }
    counts = [row for row in rows if row["statistic"] == "count"]
    assert all(row["p_value"] is not None and row["significant"] is not None for row in counts)
    assert [row["significant"] for row in joint if row["estimate"] < 0] == [False]
    assert all(row["simultaneous_lower"] <= row["lower"] for row in rows)
    (median,) = (row for row in rows if row["statistic"] == "quantile")
    assert (median["at"], median["standard_error"], median["unit"]) == (0.5, None, "minutes")


def test_csv_reads_back_with_truth_values_and_missing_errors(results: RoundResults, tmp_path: Path) -> None:
    write_csv(tmp_path / "results.csv", results)
    read, table = csv.read_csv(tmp_path / "results.csv"), as_table(results)
    for column in ("significant", "at", "standard_error", "p_value"):
        assert read[column].to_pylist() == table[column].to_pylist()


def test_people_read_which_counts_are_not_told_from_zero(results: RoundResults) -> None:
    text = shown(results)
    (place,) = (place for place, line in enumerate(text.splitlines()) if "may be 0" in line)
    assert "│   dark  " in text.splitlines()[place]
    assert text.splitlines()[place - 2].startswith("│ south, phone "), "the group is named above its first row"
    assert "cdf at 5" in text
    assert "quantile at 0.5, minutes" in text
    assert "2 of 3 categories are significantly different from zero" in text


def test_a_narrow_terminal_shows_the_remark_too_and_why_an_estimate_is_outside_its_interval(
    results: RoundResults,
) -> None:
    told = "an interval has possible values only; an estimate without bias may be outside it"
    for width in (30, 200):
        text = shown(results, width=width)
        assert any(line.strip().strip("│").strip().endswith("may be 0") for line in text.splitlines())
        assert told in text


@pytest.mark.parametrize(("lower", "told"), [(0, False), (90, True)])
def test_a_count_above_zero_that_may_be_zero_says_why(lower: float, told: bool) -> None:
    row = Row("count", Estimate(330.0, 130.0, lower, 650.0), "a", significant=False)
    query = QueryResult("note", QueryState.PUBLISHED, 1500, 1500, {}, Estimates("histogram", (row,)))
    text = shown(RoundResults(RoundId(bytes(32), "usage", 2), (query,), b'{"body":{},"signature":"00"}'))
    assert ("may be 0: of so many counts, noise alone may lift one so high" in text) is told


def test_people_may_ask_for_intervals_that_hold_at_once(results: RoundResults) -> None:
    single, band = shown(results), shown(results, simultaneous=True)
    assert "95 % interval" in single
    assert "95 %, all at once" not in single
    assert "95 %, all at once" in band
    assert "95 % interval" not in band
    row = results.queries[0].estimates.rows[0].estimate  # type: ignore[union-attr]
    assert row is not None
    assert row.simultaneous is not None
    assert row.simultaneous[0] < row.lower < row.upper < row.simultaneous[1]


def test_the_truth_is_beside_each_group_and_each_quantile() -> None:
    truth = THEME_BY.truth([{"region": "north", "device": "phone", "theme": "dark"}] * 7)
    document = query_document(result(THEME_BY, [300, 200, 100, 100, 50, 4, 150, 96]), "grouped", truth, False)
    known = {(json.dumps(row.get("group", {})), row["category"]): row["truth"] for row in document["estimates"]}
    assert known['{"region": "north"}', "dark"] == 7
    assert known['{"region": "south"}', "dark"] == 0
    median = query_document(result(SESSION, [400, 300, 300]), "distribution", SESSION.truth([3.0, 7.0, 50.0]), False)
    (row,) = (row for row in median["estimates"] if row["statistic"] == "quantile")
    assert (row["truth"], row["at"], row["error_in_standard_errors"]) == (7.0, 0.5, None)
    printer = Console(width=300, file=io.StringIO())
    print_query(printer, document)
    print_query(printer, median)
    text = printer.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"│ region=north +│.*\n│   light .*\n│   dark +│ +7 │", text)
    assert re.search(r"│ north, phone +│.*\n│   light .*\n│   dark +│ +7 │", text)
    assert "quantile at 0.5" in text


@pytest.mark.parametrize("width", [80, 76])
def test_labels_of_groups_and_of_categories_are_folded_only_if_nothing_else_helps(width: int) -> None:
    """A bar is left out before a label is folded, and a group is named once, above its rows."""
    truth = THEME_BY.truth([{"region": "north", "device": "phone", "theme": "dark"}] * 7)
    document = query_document(result(THEME_BY, [300, 200, 100, 100, 50, 4, 150, 96]), "grouped", truth, False)
    names = ("a name of it", "another as long")
    plain = [{**row, "group": {}, "category": names[place]} for place, row in enumerate(document["estimates"][:2])]
    for shown in (document, {**document, "kind": "histogram", "estimates": plain}):
        printer = Console(width=width, file=io.StringIO())
        print_query(printer, shown)
        lines = [line for line in printer.file.getvalue().splitlines() if line.startswith("│")]  # type: ignore[attr-defined]
        numbers = [line for line in lines if re.search("[0-9] │", line)]
        groups = {tuple(row.get("group", {}).items()) for row in shown["estimates"]} - {()}
        assert len(numbers) == len(shown["estimates"])
        assert len(lines) == len(numbers) + len(groups)


def test_labels_say_the_group_then_what_is_counted() -> None:
    assert row_label((), "dark", "count", None) == "dark"
    assert row_label((("region", "north"),), "dark", "count", None) == "region=north: dark"
    assert row_label((("region", "north"),), None, "mean", None, "minutes") == "region=north: mean, minutes"
    assert row_label((), None, "cdf", 2.5) == "cdf at 2.5"


def test_of_many_counts_the_largest_are_shown_unless_all_are_asked_for() -> None:
    ids = Histogram("id", tuple(f"c{place:03}" for place in range(100)))
    counts = [10 * place for place in range(98)] + [90_000, 80_000]
    truth = ids.truth([*["c098"] * 5000, *["c099"] * 4000, *ids.categories])
    document = query_document(result(ids, counts), "histogram", truth, False)
    shown_rows = [row["category"] for row in sorted(document["estimates"], key=lambda row: -row["estimate"])][:20]
    for every, names in ((False, shown_rows), (True, list(ids.categories))):
        printer = Console(width=300, file=io.StringIO())
        print_query(printer, document, every)
        text = printer.file.getvalue()  # type: ignore[attr-defined]
        assert re.findall("c[0-9]{3}", text) == names
        assert ("the largest 20 of 100 counts; --all-counts prints the others too" in text) is not every
        assert "98 of the 100 true counts are below two standard errors: noise hides them; merge categories" in text
