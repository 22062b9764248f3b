"""A table selects, converts and shows its rows; what a notebook shows is escaped."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from unit.results.test_saved import COMMUTE, OVER_TIME
from unit.verification.test_results import results_of

from hubbub.protos.errors import UsageError
from hubbub.results import PublishedRow, ResultsTable, Trust, open_saved
from hubbub.results.table import SHOWN

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = PublishedRow("t", "00" * 32, 0, NOW, NOW, "q", "published", statistic="count", category="a", estimate=1.0)


@pytest.fixture(scope="module")
def table() -> ResultsTable:
    return open_saved(COMMUTE, keys=COMMUTE).read()


def made(*rows: PublishedRow) -> ResultsTable:
    return ResultsTable((), Trust(True), rows)


def test_rows_are_chosen_by_their_attributes(table: ResultsTable) -> None:
    counts = table.where(query="transport", statistic="count")
    assert len(counts) == 5
    assert counts.queries == ("transport",)
    assert isinstance(counts[1:3], ResultsTable)
    assert len(counts[1:3]) == 2
    with pytest.raises(UsageError, match="rows have no color"):
        table.where(color="red")


def test_arrow_and_pandas_have_every_attribute_with_its_type(table: ResultsTable) -> None:
    arrow = table.to_arrow()
    assert arrow.num_rows == len(table)
    assert arrow.column_names == list(PublishedRow.__dataclass_fields__)
    assert str(arrow.schema.field("round_begins").type) == "timestamp[us, tz=UTC]"
    assert arrow.schema.field("significant").type == pa.bool_()
    assert arrow["estimate"].to_pylist() == [row.estimate for row in table]
    frame = table.to_pandas()
    assert list(frame["estimate"]) == [row.estimate for row in table]
    assert str(frame["round_begins"].dt.tz) == "UTC"


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [("pyarrow", ResultsTable.to_arrow, "results"), ("pandas", ResultsTable.to_pandas, "pandas")],
)
def test_a_missing_package_is_named_with_its_extra(
    table: ResultsTable,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    call: Callable[[ResultsTable], object],
    extra: str,
) -> None:
    usual = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == missing or (missing, name) == ("pyarrow", "hubbub.results.arrow_table"):
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return usual(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {missing} .*hubbub\[{extra}\]"):
        call(table)


def test_a_notebook_shows_the_rows_and_what_was_checked(table: ResultsTable) -> None:
    shown = table._repr_html_()
    assert "Verified: signatures" in shown
    assert "1,097.07" in shown
    assert "1,062 … 1,133" in shown


def test_names_that_are_markup_are_escaped_and_many_rows_are_cut() -> None:
    evil = "<script>alert(1)</script>\u202e\x1b"
    rows = [PublishedRow("t", "00" * 32, 0, NOW, NOW, evil, "withheld", reason=evil)] * (SHOWN + 3)
    shown = made(*rows)._repr_html_()
    assert "<script" not in shown
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert shown.count("<tr>") == SHOWN + 1
    assert "3 further rows" in shown


def test_one_row_of_one_round_is_one() -> None:
    row = PublishedRow("t", "00" * 32, 0, NOW, NOW, "theme", "withheld", reason="few")
    assert repr(made(row)).startswith("<1 row of 1 round. ")
    assert "<p>1 further row</p>" in made(*[row] * (SHOWN + 1))._repr_html_()


def test_a_certificate_is_that_of_its_round(table: ResultsTable) -> None:
    assert b'"round":0' in table.certificate(0)
    for number in (7, "0"):
        with pytest.raises(UsageError, match=f"no round {number!r}; it has 0"):
            table.certificate(number)  # type: ignore[arg-type]


def test_a_table_is_no_data_frame_and_says_what_has_columns(table: ResultsTable) -> None:
    with pytest.raises(TypeError, match=r"not by 'estimate'; .* table\.to_pandas\(\) has columns"):
        table["estimate"]  # type: ignore[call-overload]
    assert table[True] is table.rows[1]


def test_comparing_names_or_tables_says_which_call_takes_what(table: ResultsTable) -> None:
    car = table.one(category="car")
    for wrong, name in (("bus", "str"), (table.where(category="bus"), "ResultsTable")):
        with pytest.raises(UsageError, match=f"compare takes two rows, .* not {name}; compare_all takes tables"):
            table.compare(car, wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="compare takes two rows"):
            table.compare(wrong, car)  # type: ignore[arg-type]
    for pair in ((car, table), (table, car)):
        with pytest.raises(UsageError, match=r"compare_all takes two tables, .*; compare takes two rows"):
            table.compare_all(*pair)  # type: ignore[arg-type]
    for left, right in ((table[:0], table), (table, table[:0])):
        with pytest.raises(UsageError, match="has no row with a number"):
            table.compare_all(left, right)


def test_labels_say_what_a_number_is_about() -> None:
    assert ROW.label == "a"
    grouped = PublishedRow(
        "t", "", 0, NOW, NOW, "q", "published", statistic="mean", group=(("region", "north"),), at=0.5
    )
    assert grouped.label == "region=north, mean at 0.5"


def test_tables_of_several_rounds_are_joined_and_nothing_else() -> None:
    one, two = (ResultsTable([each], Trust(True, ("analyzer",))) for each in results_of(OVER_TIME)[:2])
    joined = ResultsTable.joined([one, two])
    assert joined.rows == one.rows + two.rows
    assert joined.results == one.results + two.results
    assert joined.trust == Trust(True, ("analyzer",))
    assert not ResultsTable.joined([one, ResultsTable(two.results, Trust(False))]).trust.verified
    other = open_saved(COMMUTE).read()
    for wrong in ([], [one, one], [one, other]):
        with pytest.raises(UsageError, match="different rounds of one task"):
            ResultsTable.joined(wrong)
    assert ResultsTable.joined(each for each in (one, two)).rows == joined.rows


@pytest.mark.parametrize("given", [3, None, "tables", [1], [None]])
def test_what_is_no_table_is_refused_by_the_calls_that_take_tables(given: Any, table: ResultsTable) -> None:
    with pytest.raises(UsageError, match="joined takes tables"):
        ResultsTable.joined(given)
    with pytest.raises(UsageError, match=r"compare_all takes (two )?tables"):
        table.compare_all(table, given)


@pytest.mark.parametrize(("query", "number"), [("transport", [0, 1]), ("transport", None), (3, 0), ("transport", True)])
def test_counts_that_add_up_are_of_one_round_of_one_query(query: Any, number: Any, table: ResultsTable) -> None:
    """Of several rounds the counts of the last one were returned, as if they were of all."""
    with pytest.raises(UsageError, match="takes a query's name and the number of one round, not"):
        table.consistent_counts(query, number)
