"""Export: a round's results as JSON, as a table, as CSV and as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.protos.results import Estimate, HistogramEstimate, QueryResult, RoundResults, SumEstimate

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    *("task", "round", "query", "kind", "category", "statistic", "estimate", "standard_error"),
    *("lower", "upper", "consistent", "unit", "state"),
)
"""Columns of the table: one row per published number. `lower` and `upper` end the 95 % interval; `consistent` is the
biased projection of a count. A query that is withheld has one row without numbers."""


def as_json(results: RoundResults) -> dict[str, Any]:
    """Return a round's results as one JSON document, the certificate included."""
    return {
        "task": {"id": results.id.task_id.hex(), "name": results.id.task_name},
        "round": results.id.round,
        "queries": [_query_json(query) for query in results.queries],
        "certificate": json.loads(results.certificate),
    }


def _query_json(query: QueryResult) -> dict[str, Any]:
    members: dict[str, Any] = {
        "name": query.name,
        "state": query.state.value,
        "reports": query.reports,
        "valid": query.valid,
        "left_out": dict(query.left_out),
    }
    if isinstance(query.estimate, HistogramEstimate):
        return members | _histogram_json(query.estimate)
    if isinstance(query.estimate, SumEstimate):
        return members | _sum_json(query.estimate)
    return members


def _estimate_json(estimate: Estimate) -> dict[str, float]:
    return {
        "estimate": estimate.value,
        "standard_error": estimate.standard_error,
        "lower": estimate.lower,
        "upper": estimate.upper,
    }


def _histogram_json(estimate: HistogramEstimate) -> dict[str, Any]:
    counts = zip(estimate.categories, estimate.counts, estimate.consistent, strict=True)
    return {
        "kind": "histogram",
        "answered": _estimate_json(estimate.answered),
        "counts": [
            {"category": category, **_estimate_json(count), "consistent": consistent}
            for category, count, consistent in counts
        ],
    }


def _sum_json(estimate: SumEstimate) -> dict[str, Any]:
    return {
        "kind": "sum",
        "unit": estimate.unit,
        "range": [estimate.lower, estimate.upper],
        "answered": _estimate_json(estimate.answered),
        "sum": _estimate_json(estimate.sum),
        "mean": None if estimate.mean is None else _estimate_json(estimate.mean),
    }


def as_rows(results: RoundResults) -> list[dict[str, Any]]:
    """Return a round's results as rows with the members `COLUMNS`; None where a column does not apply."""
    shared = {"task": results.id.task_name, "round": results.id.round}
    rows: list[dict[str, Any]] = []
    for query in results.queries:
        common: dict[str, Any] = dict.fromkeys(COLUMNS) | shared | {"query": query.name, "state": query.state.value}
        rows.extend(common | row for row in _query_rows(query))
    return rows


def _query_rows(query: QueryResult) -> Iterator[dict[str, Any]]:
    estimate = query.estimate
    if estimate is None:
        yield {}
    elif isinstance(estimate, HistogramEstimate):
        for category, count, consistent in zip(estimate.categories, estimate.counts, estimate.consistent, strict=True):
            yield {"kind": "histogram", "category": category, "consistent": consistent} | _row("count", count)
        yield {"kind": "histogram"} | _row("answered", estimate.answered)
    else:
        kind = {"kind": "sum", "unit": estimate.unit}
        yield {"kind": "sum"} | _row("answered", estimate.answered)
        yield kind | _row("sum", estimate.sum)
        if estimate.mean is not None:
            yield kind | _row("mean", estimate.mean)


def _row(statistic: str, estimate: Estimate) -> dict[str, Any]:
    return {"statistic": statistic, **_estimate_json(estimate)}


def as_table(results: RoundResults) -> pyarrow.Table:
    """Return a round's results as an Arrow table with the columns `COLUMNS`."""
    import pyarrow

    numbers = {"estimate", "standard_error", "lower", "upper", "consistent"}
    types = dict.fromkeys(COLUMNS, pyarrow.string()) | dict.fromkeys(numbers, pyarrow.float64())
    schema = pyarrow.schema([(name, pyarrow.int64() if name == "round" else types[name]) for name in COLUMNS])
    return pyarrow.Table.from_pylist(as_rows(results), schema=schema)


def write_csv(results: RoundResults, path: Path) -> None:
    """Write the table as CSV."""
    from pyarrow import csv

    csv.write_csv(as_table(results), path)


def write_parquet(results: RoundResults, path: Path) -> None:
    """Write the table as Parquet."""
    from pyarrow import parquet

    parquet.write_table(as_table(results), path)
