"""Compares estimates with the truth, which a demo or a simulation knows, as values and as one JSON document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hubbub.protos.records.results import QueryResult, SumResult
from hubbub.protos.records.results_document import counts_document, numbers, result_rows
from hubbub.queries.estimation.estimates import Estimate, Row, Truth
from hubbub.queries.questions.number import Number

FEWER_CATEGORIES = "merge categories, or plan a task of kind `top` or `text`, which looks for frequent ones alone"
"""What to do if there are too many categories."""


@dataclass(frozen=True)
class ComparedEstimate:
    """A statistic's row, its estimate and its true value."""

    row: Row
    estimate: Estimate
    truth: float

    @property
    def error_in_standard_errors(self) -> float | None:
        """The error of the estimate in standard errors; None if the estimate has no standard error."""
        error = self.estimate.standard_error
        if error is None:
            return None
        return (self.estimate.value - self.truth) / error if error else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        group, at = self.row.group, self.row.at
        return {
            "statistic": self.row.statistic,
            "category": self.row.category,
            **({"group": dict(group)} if group else {}),
            **({} if at is None else {"at": at}),
            "truth": self.truth,
            **numbers(self.estimate),
            "error_in_standard_errors": self.error_in_standard_errors,
        }


def compare(result: QueryResult | SumResult, truth: Truth, optional: bool) -> list[ComparedEstimate]:
    """Return a query's estimates with their true values; an empty list if the query was withheld.

    If the query is not optional, everybody answers, so the number of people who answered is left out.
    """
    return [
        ComparedEstimate(line.row, line.estimate, truth[line.row.key])
        for line in result_rows(result)
        if line.row.key in truth and (optional or line.row.group or line.row.statistic != "answered")
    ]


def query_document(result: QueryResult, kind: str, truth: Truth, optional: bool) -> dict[str, Any]:
    """Return a query's part of the JSON document; `kind` is its question's."""
    document = {
        **counts_document(result),
        "kind": kind,
        "estimates": [row.as_json() for row in compare(result, truth, optional)],
    }
    return document | _about(result, truth)


def sum_compared(result: SumResult, truth: Truth) -> dict[str, Any]:
    """Return the part of the JSON document of a sum that is asked by digits."""
    named = {"name": result.name, "queries": list(result.queries), "state": result.state.value, "kind": Number.kind}
    estimates = [row.as_json() for row in compare(result, truth, optional=False)]
    return {**named, "estimates": estimates, **_about(result, truth)}


def _about(result: QueryResult | SumResult, truth: Truth) -> dict[str, Any]:
    """Return what else is published beside the numbers; nothing if they are withheld."""
    estimates = result.estimates
    if estimates is None:
        return {}
    document: dict[str, Any] = {}
    rows = [line.row for line in result_rows(result)]
    consistent = {row.category: row.consistent for row in rows if row.consistent is not None and not row.group}
    if consistent:
        document["consistent_biased"] = consistent
    if estimates.clipped_to is not None:
        raw = truth.get(("raw_mean", None))
        document |= {"unit": estimates.unit, "raw_mean": raw, "clipped_to": list(estimates.clipped_to)}
    return document | ({"notes": list(estimates.notes)} if estimates.notes else {})
