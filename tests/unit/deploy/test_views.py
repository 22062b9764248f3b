from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet

from hubbub.analyzer.estimate import estimate
from hubbub.deploy.views.export import COLUMNS, as_json, as_rows, as_table, write_csv, write_parquet
from hubbub.protos.results import HistogramEstimate, QueryResult, QueryState, RoundId, RoundResults, SumEstimate
from support.samples import QUERIES


@pytest.fixture
def results() -> RoundResults:
    counts = np.array([5, 9, 2], dtype=np.int64), np.array([2, 2, 1, 1, 4, 1, 2, 2, 1], dtype=np.int64)
    queries = [
        QueryResult(query.name, QueryState.PUBLISHED, 17, 16, {"duplicate": 1}, estimate(query, found))
        for query, found in zip(QUERIES, counts, strict=True)
    ]
    queries.append(QueryResult("age", QueryState.WITHHELD, 17, 2, {"unopenable": 15}, None))
    return RoundResults(RoundId(bytes(32), "flights", 3), tuple(queries), b'{"body":{},"signature":"00"}')


def test_the_document_holds_every_number(results: RoundResults) -> None:
    document = json.loads(json.dumps(as_json(results), allow_nan=False))
    assert document["task"] == {"id": "00" * 32, "name": "flights"}
    assert (document["round"], document["certificate"]) == (3, {"body": {}, "signature": "00"})
    carrier, delay, age = document["queries"]
    assert [count["category"] for count in carrier["counts"]] == ["AA", "B6", "UA"]
    assert set(carrier["counts"][0]) == {"category", "estimate", "standard_error", "lower", "upper", "consistent"}
    assert (delay["unit"], delay["range"]) == ("minutes", [-30.0, 180.0])
    assert set(delay["mean"]) == {"estimate", "standard_error", "lower", "upper"}
    expected = {"name": "age", "state": "withheld", "reports": 17, "valid": 2, "left_out": {"unopenable": 15}}
    assert age == expected


def test_there_is_one_row_per_number(results: RoundResults) -> None:
    rows = as_rows(results)
    assert all(tuple(row) == COLUMNS for row in rows)
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
    carrier, delay = results.queries[0].estimate, results.queries[1].estimate
    assert isinstance(carrier, HistogramEstimate)
    assert isinstance(delay, SumEstimate)
    assert (rows[1]["estimate"], rows[1]["consistent"]) == (carrier.counts[1].value, carrier.consistent[1])
    assert (rows[5]["lower"], rows[5]["unit"]) == (delay.sum.lower, "minutes")
    assert (rows[7]["state"], rows[7]["estimate"]) == ("withheld", None)


def test_csv_and_parquet_read_back_as_the_table(results: RoundResults, tmp_path: Path) -> None:
    table = as_table(results)
    write_parquet(results, tmp_path / "results.parquet")
    assert parquet.read_table(tmp_path / "results.parquet").equals(table)
    write_csv(results, tmp_path / "results.csv")
    read = csv.read_csv(tmp_path / "results.csv")
    assert read.column_names == list(COLUMNS)
    assert read["estimate"].to_pylist() == table["estimate"].to_pylist()
    assert read["category"].to_pylist()[:3] == ["AA", "B6", "UA"]
