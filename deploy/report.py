"""Reports: estimates beside the truth, as one JSON document and as tables and bars for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.deploy.data import Truth
from hubbub.protos.results import Estimate, HistogramEstimate, QueryResult, SumEstimate

BAR_WIDTH = 12
"""Characters of the longest bar."""


@dataclass(frozen=True)
class Compared:
    """One statistic: its estimate, and the truth it is an estimate of."""

    statistic: str
    category: str | None
    estimate: Estimate
    truth: float

    @property
    def error_in_standard_errors(self) -> float:
        """How far off the estimate is, in standard errors."""
        return (
            (self.estimate.value - self.truth) / self.estimate.standard_error if self.estimate.standard_error else 0.0
        )

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
        return {
            "statistic": self.statistic,
            "category": self.category,
            "truth": self.truth,
            "estimate": self.estimate.value,
            "standard_error": self.estimate.standard_error,
            "lower": self.estimate.lower,
            "upper": self.estimate.upper,
            "error_in_standard_errors": self.error_in_standard_errors,
        }


def compare(result: QueryResult, truth: Truth, optional: bool) -> list[Compared]:
    """Return a query's estimates beside the truth; none where the query was withheld."""
    estimate = result.estimate
    if isinstance(estimate, HistogramEstimate):
        rows = [
            Compared("count", category, count, truth.counts[category])
            for category, count in zip(estimate.categories, estimate.counts, strict=True)
        ]
        return [*rows, Compared("answered", None, estimate.answered, truth.answered)] if optional else rows
    if isinstance(estimate, SumEstimate):
        rows = [Compared("answered", None, estimate.answered, truth.answered)] if optional else []
        rows.append(Compared("sum", None, estimate.sum, truth.total))
        if estimate.mean is not None and truth.mean is not None:
            rows.append(Compared("mean", None, estimate.mean, truth.mean))
        return rows
    return []


def query_document(result: QueryResult, truth: Truth, optional: bool) -> dict[str, Any]:
    """Return a query's part of the JSON document."""
    document: dict[str, Any] = {
        "name": result.name,
        "kind": "sum" if not truth.counts else "histogram",
        "state": result.state.value,
        "reports": result.reports,
        "valid": result.valid,
        "left_out": dict(result.left_out),
        "estimates": [row.as_json() for row in compare(result, truth, optional)],
    }
    if isinstance(result.estimate, HistogramEstimate):
        consistent = zip(result.estimate.categories, result.estimate.consistent, strict=True)
        document["consistent_biased"] = dict(consistent)
    if isinstance(result.estimate, SumEstimate):
        document |= {"unit": result.estimate.unit, "raw_mean": truth.raw_mean}
        document["clipped_to"] = [result.estimate.lower, result.estimate.upper]
    return document


def print_query(console: Console, document: Mapping[str, Any]) -> None:
    """Print a query's document as a table, a histogram with a bar to each count."""
    if document["state"] == "withheld":
        console.print(
            f"{document['name']}: withheld, {document['valid']} valid reports are under the minimum", markup=False
        )
        return
    histogram = document["kind"] == "histogram"
    unit = f" in {document['unit']}" if document.get("unit") else ""
    table = Table(title=f"{document['name']}{unit}", title_justify="left")
    for column in ("", "truth", "estimate", "standard error", "95 % interval"):
        table.add_column(column, justify="left" if column == "" else "right")
    if histogram:
        table.add_column("")
    longest = max((row["estimate"] for row in document["estimates"]), default=0.0)
    for row in document["estimates"]:
        cells = _cells(row)
        bar = [_bar(row["estimate"], longest)] if histogram else []
        table.add_row(*cells, *bar)
    console.print(table)
    if document.get("raw_mean") is not None:
        lower, upper = document["clipped_to"]
        note = f"truth and estimates are of values clipped to [{lower:g}, {upper:g}]"
        console.print(f"{note}; the raw mean is {document['raw_mean']:.4g}", markup=False)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    precise = ".2f" if row["statistic"] == "mean" else ",.0f"
    interval = f"{row['lower']:{precise}} … {row['upper']:{precise}}"
    return (
        row["category"] or row["statistic"],
        f"{row['truth']:{precise}}",
        f"{row['estimate']:{precise}}",
        f"{row['standard_error']:{precise}}",
        interval,
    )


def _bar(value: float, longest: float) -> str:
    if longest <= 0 or value <= 0:
        return ""
    eighths = round(BAR_WIDTH * 8 * value / longest)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def print_privacy(console: Console, certificate: Mapping[str, Any]) -> None:
    """Print a certificate's numbers."""
    table = Table(title="privacy of everyone in the batch", title_justify="left")
    for column in ("", "reports", "ε ≤", "ε ≥", "ε local", "bound"):
        table.add_column(column, justify="left" if column in ("", "bound") else "right")
    for query in certificate["queries"]:
        table.add_row(query["name"], str(query["valid"]), *_epsilons(query), query["bound"])
    total, rounds = certificate["round_total"], certificate["all_rounds"]
    table.add_row("all queries", "", *_epsilons(total), total["bound"])
    if len(rounds["history"]) > 1:
        upper, local = f"{rounds['epsilon_upper']:.6g}", f"{rounds['epsilon_local']:.6g}"
        table.add_row(f"{len(rounds['history'])} rounds", "", upper, "", local, rounds["bound"])
    console.print(table)
    share = certificate["honest_share"]
    console.print(
        f"at δ = {total['delta']:g}: ε ≤ is proven, an attack reaches ε ≥, ε local holds if both services collude; "
        f"honest share of the reports {share:g}",
        markup=False,
        soft_wrap=True,
    )


def _epsilons(numbers: Mapping[str, Any]) -> Sequence[str]:
    lower = numbers["epsilon_lower"]
    return (
        f"{numbers['epsilon_upper']:.6g}",
        f"{lower:.6g}" if lower is not None else "unknown",
        f"{numbers['epsilon_local']:.6g}",
    )
