"""A table that its terminal has no room for becomes lines, and no number is ever cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.tables import print_table


def printed(width: int) -> str:
    table = Table(title="sizes", title_justify="left")
    for column in ("", "estimate", "95 % interval", "why"):
        table.add_column(column, justify="left" if column in ("", "why") else "right")
    table.add_row("[red] :smile:", "20,000,000,000,000", "19,500,000,000,000 … 20,500,000,000,000", "a b c d e f")
    text = io.StringIO()
    print_table(Console(file=text, width=width, markup=False, emoji=False), table)
    return text.getvalue()


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 90, 100, 200])
def test_every_number_is_whole_at_any_width(width: int) -> None:
    text = printed(width)
    assert "sizes" in text
    assert "[red]" in text
    assert " 20,000,000,000,000" in text
    assert " 19,500,000,000,000 … 20,500,000,000,000" in text


def test_it_is_a_table_where_that_fits_and_lines_where_not() -> None:
    assert "│" in printed(100)
    assert printed(60).splitlines() == [
        "sizes",
        "[red] :smile:",
        "  estimate       20,000,000,000,000",
        "  95 % interval  19,500,000,000,000 … 20,500,000,000,000",
        "  why            a b c d e f",
    ]
