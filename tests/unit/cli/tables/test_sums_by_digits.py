"""A sum by digits is shown before the queries of its digits, and told when it is withheld."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from hubbub.cli.tables.results import print_results
from hubbub.protos.records.results import QueryResult, QueryState, RoundId, RoundResults, SumResult
from hubbub.protos.records.results_document import results_document, table_rows
from hubbub.protos.rpc.results import read_results, write_results
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row

NOTE = "the digits have from 99 to 100 reports; a report that was left out counts as a digit 0"
ROWS = (
    Row("answered", Estimate.known(100.0)),
    Row("sum", Estimate(120.0, 3.0, 114.0, 126.0), unit="minutes"),
    Row("mean", Estimate(1.2, 0.03, 1.14, 1.26), unit="minutes"),
)
SUM = SumResult("delay", ("delay-bit-1",), Estimates("sum", ROWS, "minutes", (0.0, 5.0), (NOTE,)))
BIT = QueryResult(
    *("delay-bit-1", QueryState.PUBLISHED, 100, 100, {}),
    Estimates("bit", (Row("ones", Estimate(24.0, 1.0, 22.0, 26.0)),)),
    b"\x00" * 16,
)
RESULTS = RoundResults(RoundId(bytes(32), "trips", 0), (BIT,), b'{"body":{},"signature":"00"}', (SUM,))


def shown(results: RoundResults) -> str:
    console = Console(width=100, record=True)
    print_results(console, results)
    return console.export_text()


@pytest.mark.parametrize("results", [RESULTS, replace(RESULTS, sums=(replace(SUM, estimates=None),))])
def test_sums_travel_with_the_results(results: RoundResults) -> None:
    message = write_results(results)
    assert read_results(type(message).FromString(message.SerializeToString())) == results


def test_people_see_the_sum_first() -> None:
    text = shown(RESULTS)
    title = text.index("delay: from its digits, delay-bit-1 to delay-bit-1")
    assert title < text.index("sum, minutes") < text.index(NOTE)
    assert text.index(NOTE) < text.index("delay-bit-1: 100 valid reports of 100") < text.index("ones")


def test_a_withheld_sum_has_no_numbers() -> None:
    withheld = replace(RESULTS, sums=(replace(SUM, estimates=None),))
    assert "withheld: a digit has fewer valid reports than the task's minimum" in shown(withheld)
    assert results_document(withheld)["sums"] == [{"name": "delay", "queries": ["delay-bit-1"], "state": "withheld"}]
    first = table_rows(withheld)[0]
    assert (first["query"], first["state"], first["estimate"]) == ("delay", "withheld", None)


def test_the_document_has_a_sum_only_if_one_is_asked() -> None:
    (found,) = results_document(RESULTS)["sums"]
    assert (found["name"], found["kind"], found["range"], found["notes"]) == ("delay", "sum", [0.0, 5.0], [NOTE])
    assert found["sum"] == {"estimate": 120.0, "standard_error": 3.0, "lower": 114.0, "upper": 126.0}
    assert "sums" not in results_document(replace(RESULTS, sums=()))
