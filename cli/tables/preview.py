"""Shows what a device would send, as JSON and as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_table

if TYPE_CHECKING:
    from hubbub.client import Preview, PreviewedQuery

SHOWN_BYTES = 8
"""Bytes of a report that the table shows; `--json` has all of them."""


def preview_document(preview: Preview) -> dict[str, Any]:
    """Return a preview as JSON; reports are in hex."""
    return asdict(preview) | {"queries": [asdict(each) | {"report": each.report.hex()} for each in preview.queries]}


def print_preview(console: Console, preview: Preview) -> None:
    """Print a row for each query, then the size and the cost of the submission."""
    console.print(f"task {preview.task}, round {preview.round}: nothing was sent", markup=False, soft_wrap=True)
    table = Table("query", "encoded as", "own", "other", "ε_local", "a report")
    for column in table.columns[2:5]:
        column.justify = "right"
    for query in preview.queries:
        table.add_row(query.name, query.encoded, *_chances(query), f"{query.epsilon_local:.6g}", _shown(query.report))
    print_table(console, table)
    if any(query.own is not None for query in preview.queries):
        console.print(
            "own: the probability that a report counts for what was encoded; other: for any one other symbol",
            markup=False,
            soft_wrap=True,
        )
    if any(query.own is None for query in preview.queries):
        console.print("no probabilities: the reports of several rounds are linked", markup=False, soft_wrap=True)
    console.print(
        f"sealed, every submission has {preview.submission_bytes} bytes with its id; this round costs ε_local "
        f"{preview.epsilon_local:.6g}",
        markup=False,
        soft_wrap=True,
    )
    if preview.not_sent is not None:
        console.print(f"`hubbub submit` would not send it: {preview.not_sent}", markup=False, soft_wrap=True)


def _chances(query: PreviewedQuery) -> tuple[str, str]:
    own, other = ("–" if each is None else f"{each:.4g}" for each in (query.own, query.other))
    return own, other


def _shown(report: bytes) -> str:
    rest = "…" if len(report) > SHOWN_BYTES else ""
    return f"{report[:SHOWN_BYTES].hex()}{rest}"
