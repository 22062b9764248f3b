"""Compared: estimates beside the truth, which is known in a demo or a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.deploy.views.digits import significant
from hubbub.deploy.views.results import counts_document, fineness, lines_of, numbers, row_label
from hubbub.deploy.views.tables import print_table
from hubbub.protos.results import QueryResult
from hubbub.queries.rows import BEGINNING, Estimate, Row, Truth

BAR_WIDTH = 12
"""Characters of the longest bar."""


@dataclass(frozen=True)
class Compared:
    """One statistic: its row with its estimate, and its true value."""

    row: Row
    estimate: Estimate
    truth: float

    @property
    def error_in_standard_errors(self) -> float | None:
        """How far off the estimate is, in standard errors; None where it has none."""
        error = self.estimate.standard_error
        if error is None:
            return None
        return (self.estimate.value - self.truth) / error if error else 0.0

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON."""
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


def compare(result: QueryResult, truth: Truth, optional: bool) -> list[Compared]:
    """Return a query's estimates beside the truth; an empty list where the query was withheld.

    Where the query is not optional, everybody answers, so the number of those who answered is left out.
    """
    return [
        Compared(line.row, line.estimate, truth[line.row.key])
        for line in lines_of(result)
        if line.row.key in truth and (optional or line.row.group or line.row.statistic != "answered")
    ]


def query_document(result: QueryResult, kind: str, truth: Truth, optional: bool) -> dict[str, Any]:
    """Return a query's part of the JSON document; `kind` is its question's."""
    document = {
        **counts_document(result),
        "kind": kind,
        "estimates": [row.as_json() for row in compare(result, truth, optional)],
    }
    estimates = result.estimates
    if estimates is None:
        return document
    rows = [line.row for line in lines_of(result)]
    consistent = {row.category: row.consistent for row in rows if row.consistent is not None and not row.group}
    if consistent:
        document["consistent_biased"] = consistent
    if estimates.clipped_to is not None:
        raw = truth.get(("raw_mean", None))
        document |= {"unit": estimates.unit, "raw_mean": raw, "clipped_to": list(estimates.clipped_to)}
    return document | ({"notes": list(estimates.notes)} if estimates.notes else {})


def print_query(console: Console, document: Mapping[str, Any]) -> None:
    """Print a query's document as a table, a histogram with a bar to each count."""
    if document["state"] == "withheld":
        console.print(
            f"{document['name']}: withheld, {document['valid']} valid reports are under the minimum", markup=False
        )
        return
    if not document["estimates"]:
        # Of a text, and of the top of many, only what stands out is estimated.
        console.print(f"{document['name']}: nothing stands out of the noise", markup=False)
        return
    # Bars are for counts only: sums and means have different units, so their bars would have no common scale. One count
    # has nothing to be compared with.
    bars = sum(row["statistic"] == "count" for row in document["estimates"]) > 1
    unit = f" in {document['unit']}" if document.get("unit") else ""
    table = Table(title=f"{document['name']}{unit}", title_justify="left")
    for column in ("", "truth", "estimate", "standard error", "95 % interval"):
        table.add_column(column, justify="left" if column == "" else "right")
    if bars:
        table.add_column("")
    longest = max((row["estimate"] for row in document["estimates"] if row["statistic"] in _PEOPLE), default=0.0)
    for row in document["estimates"]:
        cells = _cells(row)
        bar = [_bar(row["estimate"], longest) if row["statistic"] in _PEOPLE else ""] if bars else []
        table.add_row(*cells, *bar)
    print_table(console, table)
    for note in document.get("notes", ()):
        console.print(note, markup=False, soft_wrap=True)
    if document.get("raw_mean") is not None:
        lower, upper = document["clipped_to"]
        note = f"truth and estimates are of values clipped to [{lower:g}, {upper:g}]"
        console.print(f"{note}; the raw mean is {document['raw_mean']:.4g}", markup=False)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    error = row["standard_error"]
    scale = fineness((row["lower"], row["upper"])) if error is None else error
    ends = (row["truth"], row["estimate"], row["lower"], row["upper"])
    truth, estimate, lower, upper = significant([*ends, scale], scale)[:4]
    if row["statistic"] in _PEOPLE:
        truth = f"{row['truth']:,.0f}"  # people, counted: a whole number, known exactly
    shown = "" if error is None else significant([*ends, error], error)[4]
    group = tuple(row.get("group", {}).items())
    label = row_label(group, row["category"], row["statistic"], row.get("at"))
    return (label, truth, estimate, shown, f"{lower} … {upper}")


_PEOPLE = frozenset({"count", "answered", BEGINNING})
"""Statistics that are numbers of people."""


def _bar(value: float, longest: float) -> str:
    if longest <= 0 or value <= 0:
        return ""
    eighths = round(BAR_WIDTH * 8 * value / longest)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
