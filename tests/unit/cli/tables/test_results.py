"""What is published becomes one JSON document, and one table in CSV and Parquet."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet
from rich.console import Console

from hubbub.cli.tables.results import print_results
from hubbub.cli.tables.results import print_series as print_all_rounds
from hubbub.cli.tables.truth import print_query, print_series
from hubbub.deploy.operator.export import as_table, write_csv, write_parquet
from hubbub.planning.simulate.truth import compare, query_document
from hubbub.protos.records.results import QueryResult, QueryState, RoundId, RoundResults
from hubbub.protos.records.results_document import COLUMNS, result_rows, results_document, series_document, table_rows
from hubbub.protos.task.schedule import at
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.randomizer import Tally
from support.estimate_rows import consistent, number
from support.estimate_rows import counts as published
from support.krr_queries import krr_query
from support.samples import QUERIES, Parties, sample_task
from support.samples import signed as sign
from support.source_tree import ROOT


@pytest.fixture
def results() -> RoundResults:
    counts = np.array([5, 9, 2], dtype=np.int64), np.array([2, 2, 1, 1, 4, 1, 2, 2, 1], dtype=np.int64)
    queries = [
        QueryResult(query.name, QueryState.PUBLISHED, 17, 16, {"duplicate": 1}, query.estimates(Tally(found, 16), 0))
        for query, found in zip(QUERIES, counts, strict=True)
    ]
    queries.append(QueryResult("age", QueryState.WITHHELD, 17, 2, {"unopenable": 15}, None))
    return RoundResults(RoundId(bytes(32), "flights", 3), tuple(queries), b'{"body":{},"signature":"00"}')


def test_the_document_holds_every_number(results: RoundResults) -> None:
    document = json.loads(json.dumps(results_document(results), allow_nan=False))
    assert document["task"] == {"id": "00" * 32, "name": "flights"}
    assert (document["round"], document["certificate"]) == (3, {"body": {}, "signature": "00"})
    carrier, delay, age = document["queries"]
    assert [count["category"] for count in carrier["counts"]] == ["AA", "B6", "UA"]
    shared = ("name", "state", "reports", "valid", "left_out", "kind", "answered")
    assert set(carrier) == {*shared, "counts"}
    numbers = {"estimate", "standard_error", "lower", "upper", "simultaneous_lower", "simultaneous_upper"}
    assert set(carrier["counts"][0]) == {*numbers, "category", "consistent", "p_value", "significant"}
    assert (delay["unit"], delay["range"]) == ("minutes", [-30.0, 180.0])
    assert set(delay) == {*shared, "unit", "range", "sum", "mean"}
    for statistic in (carrier["answered"], delay["answered"], delay["sum"], delay["mean"]):
        assert set(statistic) == numbers
    expected = {"name": "age", "state": "withheld", "reports": 17, "valid": 2, "left_out": {"unopenable": 15}}
    assert age == expected


def test_there_is_one_row_per_number(results: RoundResults) -> None:
    rows = table_rows(results)
    assert all(tuple(row) == tuple(COLUMNS) for row in rows)
    kinds = [(row["query"], row["statistic"], row["category"]) for row in rows]
    assert kinds == [
        ("carrier", "count", "AA"),
        ("carrier", "count", "B6"),
        ("carrier", "count", "UA"),
        ("carrier", "answered", None),
        ("delay", "answered", None),
        ("delay", "sum", None),
        ("delay", "mean", None),
        ("age", None, None),
    ]
    carrier, delay = results.queries[0].estimates, results.queries[1].estimates
    assert (rows[1]["estimate"], rows[1]["consistent"]) == (12.6666667, 12.0)
    assert rows[1]["estimate"] == pytest.approx(published(carrier)[1].value, rel=1e-8)
    assert consistent(carrier)[1] == 12.0
    assert (rows[5]["lower"], rows[5]["unit"]) == (pytest.approx(number(delay, "sum").lower, abs=1e-5), "minutes")
    assert [row["kind"] for row in rows] == ["histogram"] * 4 + ["sum"] * 3 + [None]
    assert [row["unit"] for row in rows] == [None] * 5 + ["minutes"] * 2 + [None]
    assert [row["consistent"] is None for row in rows] == [False] * 3 + [True] * 5
    assert (rows[7]["state"], rows[7]["estimate"]) == ("withheld", None)


def test_csv_and_parquet_read_back_as_the_table(results: RoundResults, tmp_path: Path) -> None:
    table = as_table(results)
    write_parquet(tmp_path / "results.parquet", results)
    assert parquet.read_table(tmp_path / "results.parquet").equals(table)
    write_csv(tmp_path / "results.csv", results)
    read = csv.read_csv(tmp_path / "results.csv")
    assert read.column_names == list(COLUMNS)
    assert read["estimate"].to_pylist() == table["estimate"].to_pylist()
    assert read["category"].to_pylist()[:3] == ["AA", "B6", "UA"]


def test_a_statistic_without_a_value_is_null_in_the_document_and_no_row(results: RoundResults) -> None:
    """The mean where nobody can be said to have answered."""
    query = QUERIES[1]
    nobody = query.estimates(Tally(np.array([0] * 8 + [50], dtype=np.int64), 50), 0)
    result = QueryResult("delay", QueryState.PUBLISHED, 50, 50, {}, nobody)
    only = RoundResults(results.id, (result,), results.certificate)
    (document,) = results_document(only)["queries"]
    assert document["mean"] is None
    assert document["sum"]["estimate"] == pytest.approx(number(nobody, "sum").value, rel=1e-8)
    assert [row["statistic"] for row in table_rows(only)] == ["answered", "sum"]


def test_a_kind_of_question_that_nobody_here_knows_is_shown_all_the_same(results: RoundResults) -> None:
    """Rows name their statistic, so readers need no change for a new kind."""
    count, answered = published(results.queries[0].estimates)[0], number(results.queries[0].estimates, "answered")
    rows = (Row("share", count, "AA"), Row("share", count, "B6"), Row("spread", answered, unit="km"))
    result = QueryResult("new", QueryState.PUBLISHED, 9, 9, {}, Estimates("novel", rows))
    only = RoundResults(results.id, (result,), results.certificate)
    (document,) = results_document(only)["queries"]
    assert document["kind"] == "novel"
    assert [share["category"] for share in document["shares"]] == ["AA", "B6"]
    assert document["spread"]["estimate"] == answered.value
    assert [(row["statistic"], row["category"], row["unit"]) for row in table_rows(only)] == [
        ("share", "AA", None),
        ("share", "B6", None),
        ("spread", None, "km"),
    ]
    assert [line.label for line in result_rows(result)] == ["AA", "B6", "spread, km"]


def test_a_withheld_query_has_no_lines(results: RoundResults) -> None:
    assert result_rows(results.queries[2]) == ()


def test_true_counts_are_whole_whatever_the_digits_of_the_estimate() -> None:
    rows = (
        Row("count", Estimate(1196.84, 8.94, 1179.3, 1214.4), "a"),
        Row("sum", Estimate(9_953.4, 182.0, 9_596, 1e4)),
    )
    result = QueryResult("q", QueryState.PUBLISHED, 9, 9, {}, Estimates("histogram", rows))
    truth = {("count", "a"): 1200.0, ("sum", None): 9_861.2}
    printer = Console(width=200, file=io.StringIO())
    print_query(printer, query_document(result, "histogram", truth, optional=False))
    shown = [line.split("│")[1:6] for line in printer.file.getvalue().splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line] for line in shown] == [
        ["a", "1,200", "1,196.8", "8.9", "1,179.3 … 1,214.4"],
        ["sum", "9,860", "9,950", "180", "9,600 … 10,000"],
    ]


def test_how_many_answered_is_compared_only_where_somebody_may_not(results: RoundResults) -> None:
    carrier, delay, age = results.queries
    truth: dict[tuple[str, str | None], float] = {("answered", None): 16.0, ("count", "AA"): 5.0, ("sum", None): 1.0}
    assert [each.row.statistic for each in compare(carrier, truth, optional=False)] == ["count"]
    assert [each.row.statistic for each in compare(carrier, truth, optional=True)] == ["count", "answered"]
    assert [each.row.statistic for each in compare(delay, truth, optional=True)] == ["answered", "sum"]
    assert compare(age, truth, optional=True) == []


def certified(results: RoundResults) -> RoundResults:
    """The same with a certificate that states the privacy of each query."""
    queries = [{"name": query.name, "epsilon_upper": 0.25, "epsilon_local": 4.0} for query in results.queries]
    body = {"delta": 1e-6, "queries": queries, "round_total": {"epsilon_upper": 0.5}}
    return replace(results, certificate=json.dumps({"body": body, "signature": "00"}).encode())


def test_rows_say_how_many_reports_under_which_privacy_and_clipped_to_what(results: RoundResults) -> None:
    rows = table_rows(certified(results))
    names = ("reports", "valid", "epsilon_upper", "epsilon_local", "delta", "round_epsilon_upper")
    assert {tuple(row[name] for name in names) for row in rows[:7]} == {(17, 16, 0.25, 4.0, 1e-6, 0.5)}
    assert [(row["clip_lower"], row["clip_upper"]) for row in rows] == [(None, None)] * 4 + [(-30.0, 180.0)] * 3 + [
        (None, None)
    ]
    assert (rows[7]["valid"], rows[7]["epsilon_upper"]) == (2, 0.25)


def test_tables_say_to_what_numbers_were_clipped(results: RoundResults) -> None:
    one, every = Console(file=io.StringIO(), width=80), Console(file=io.StringIO(), width=80)
    print_results(one, results)
    print_all_rounds(every, [results, results])
    for printed, said in (one, "  estimates are"), (every, "delay: estimates are"):
        assert isinstance(printed.file, io.StringIO)
        assert printed.file.getvalue().count(f"{said} for values clipped to [-30, 180]\n") == 1


def test_every_column_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "formats-results.md").read_text()
    table = text[text.index("## Exported estimates") :]
    assert re.findall(r"(?m)^\| `([a-z_0-9]+)` \|", table) == list(COLUMNS)


def test_categories_that_pandas_takes_for_missing_survive_as_the_documentation_says(tmp_path: Path) -> None:
    import pandas as pd

    names = ("NA", "None", "null", "nan", "N/A", "01")
    query = krr_query(Histogram("kind", names), 2**31)
    counted = query.estimates(Tally(np.array([9] * 6, dtype=np.int64), 54), 0)
    result = QueryResult("kind", QueryState.PUBLISHED, 54, 54, {}, counted)
    only = RoundResults(RoundId(bytes(32), "flights", 3), (result,), b'{"body":{}}')
    path = tmp_path / "estimates.csv"
    write_csv(path, only)
    text = (ROOT / "docs" / "reference" / "formats-results.md").read_text()
    (call,) = re.findall(r"pd\.read_csv\(.*\)", text)
    read = eval(call, {"pd": pd, "path": path})  # noqa: S307 - the documentation's own line
    assert list(read["category"][:6]) == list(names)
    assert read["category"].isna().tolist() == [False] * 6 + [True]
    assert read["estimate"].dtype.kind in "if"
    assert read["consistent"].isna().tolist() == [False] * 6 + [True]
    write_parquet(tmp_path / "estimates.parquet", only)
    assert list(pd.read_parquet(tmp_path / "estimates.parquet")["category"][:6]) == list(names)


def test_rounds_are_one_table_with_their_times_and_each_note_once(results: RoundResults) -> None:
    known = Parties.generate()
    signed = sign(sample_task(known), known)
    certificate = json.dumps({"body": {"task": json.loads(signed.encode())}, "signature": "00"}).encode()
    noted = [
        replace(query, estimates=query.estimates and replace(query.estimates, notes=("say it once",)))
        for query in results.queries
    ]
    rounds = [
        replace(results, id=replace(results.id, round=which), queries=tuple(noted), certificate=certificate)
        for which in (0, 1)
    ]
    out = io.StringIO()
    print_all_rounds(Console(file=out, width=200), rounds)
    schedule = signed.task.schedule
    for which in (0, 1):
        row = next(line for line in out.getvalue().splitlines() if line.startswith(f"│ {which} "))
        assert at(schedule.opens(which)) in row
        assert at(schedule.ends(which)) in row
    assert out.getvalue().count("say it once") == 1
    assert out.getvalue().count("withheld") == 2
    table = as_table(*rounds)
    assert table.column("round").to_pylist() == sorted(table.column("round").to_pylist())
    assert set(table.column("round_begins").to_pylist()) == {at(schedule.opens(which)) for which in (0, 1)}
    document = series_document(rounds)
    assert [each["round_ends"] for each in document["rounds"]] == [at(schedule.ends(which)) for which in (0, 1)]


def test_a_series_of_the_demo_is_one_table_and_its_notes_are_said_once() -> None:
    def row(statistic: str, category: str, value: float) -> dict[str, object]:
        numbers = {"truth": value, "estimate": value, "standard_error": 1.0, "lower": value - 2, "upper": value + 2}
        return {"statistic": statistic, "category": category, **numbers}

    notes = ["one sentence", "another sentence"]
    rounds = []
    for which in range(16):
        fits = [row("smoothed_count", f"round {each}", each) for each in range(which + 1)]
        query = {"name": "late", "kind": "longitudinal", "state": "published", "notes": notes}
        rounds.append({"round": which, "queries": [{**query, "estimates": [row("count", "yes", 40 + which), *fits]}]})
    out = io.StringIO()
    print_series(Console(file=out, width=100), rounds)
    assert [out.getvalue().count(note) for note in notes] == [1, 1]
    assert "late in 16 rounds" in out.getvalue()
    first = out.getvalue().partition("fitted to all rounds")[0]
    assert [str(40 + which) in first for which in range(16)] == [True] * 16


def many(counts: np.ndarray) -> QueryResult:
    """Return a query of that many categories, named c0, c1, …"""
    query = krr_query(Histogram("zone", tuple(f"c{number}." for number in range(len(counts)))), 2**31)
    people = int(counts.sum())
    estimates = query.estimates(Tally(counts, people), 0)
    return QueryResult("zone", QueryState.PUBLISHED, people, people, {}, estimates)


def printed_of_many(all_counts: bool) -> tuple[list[str], list[str], str]:
    """Return the categories that are printed of a round of 99, and of two rounds whose largest differ, and the text."""
    rising, out = many(np.arange(99) * 100), io.StringIO()
    falling = many(np.arange(99)[::-1] * 10)
    first, second = (
        RoundResults(RoundId(bytes(32), "flights", 3), (each,), b'{"body":{}}') for each in (rising, falling)
    )
    print_results(Console(file=out, width=100), first, all_counts=all_counts)
    alone = out.getvalue()
    print_all_rounds(Console(file=out, width=100), [first, second], all_counts=all_counts)
    together = out.getvalue().removeprefix(alone)
    return re.findall(r"c\d+\.", alone), re.findall(r"c\d+\.", together), out.getvalue()


def test_of_more_than_twenty_counts_the_largest_are_printed_largest_first() -> None:
    alone, together, text = printed_of_many(all_counts=False)
    largest = [f"c{number}." for number in range(98, 78, -1)]
    assert alone == largest
    # A series has the same categories in every round, or it would be none.
    assert together == largest * 2
    assert text.count("the largest 20 of 99 counts; --all-counts prints the others too") == 2
    assert text.count("answered") == 3


def test_all_counts_are_printed_if_they_are_asked_for() -> None:
    alone, together, text = printed_of_many(all_counts=True)
    assert alone == [f"c{number}." for number in range(99)]
    assert together == alone * 2
    assert "the largest" not in text


@pytest.mark.parametrize(("categories", "shown"), [(20, 20), (21, 20)])
def test_twenty_counts_are_not_many(categories: int, shown: int) -> None:
    out = io.StringIO()
    results = RoundResults(RoundId(bytes(32), "flights", 3), (many(np.full(categories, 50)),), b'{"body":{}}')
    print_results(Console(file=out, width=100), results)
    assert len(re.findall(r"c\d+\.", out.getvalue())) == shown
