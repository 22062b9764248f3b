"""A table that its terminal has no room for becomes lines, and no number is ever cut."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_columns, print_table, print_tables
from hubbub.cli.terminal.output import Printer


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
    for number in ("20,000,000,000,000", "19,500,000,000,000", "20,500,000,000,000"):
        assert number in text.split()


def test_it_is_a_table_where_that_fits_and_lines_where_not() -> None:
    assert "│" in printed(100)
    assert printed(60).splitlines() == [
        "sizes",
        "[red] :smile:",
        "  estimate       20,000,000,000,000",
        "  95 % interval  19,500,000,000,000 … 20,500,000,000,000",
        "  why            a b c d e f",
    ]


def test_tables_that_belong_together_have_one_form() -> None:
    def shown(width: int) -> str:
        narrow, wide = (
            Table("task", "round", title="at the analyzer"),
            Table("task", "waits for", title="at the shuffler"),
        )
        narrow.add_row("usage", "3")
        wide.add_row("usage", "submissions-until-2026-01-01T01:00:00Z")
        text = io.StringIO()
        empty = Table("kind", title="keys")
        print_tables(Console(file=text, width=width, markup=False, emoji=False), [wide, narrow, empty])
        return text.getvalue()

    assert shown(80).count("┃") >= 4
    assert shown(80).splitlines()[-1] == "keys: nothing"
    assert shown(30).splitlines() == [
        "at the shuffler",
        "task usage",
        "  waits for",
        "      submissions-until-2026-01-01T01:00:00Z",
        "at the analyzer",
        "task usage",
        "  round  3",
        "keys: nothing",
    ]


@pytest.mark.parametrize("width", [70, 80, 100, 120])
def test_no_word_is_cut_in_a_table(width: int) -> None:
    """rich narrows the widest column below its longest word, if another one is as wide."""
    table = Table("task", "state", "refused", "waits for", title="at the shuffler")
    words = ["usage", "0123456789ab", "mixed", "overloaded", "2026-01-01T00:00:10Z)", "analyzer.example.org:7401:"]
    waits = f"the analyzer at {words[5]} did not answer: no server listens there (since {words[4]}"
    table.add_row(" ".join(words[:2]), words[2], "duplicate 20, overloaded 2000, too_late 1000, not_enrolled 1", waits)
    text = io.StringIO()
    print_table(Console(file=text, width=width, markup=False, emoji=False), table)
    assert [word for word in words if word not in text.getvalue()] == []
    assert max(map(len, text.getvalue().splitlines())) <= max(width, 0 if "│" in text.getvalue() else 200)


WORDS = st.text("abε≤東京é-_,.0123456789", min_size=1, max_size=30)
CELLS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
ROWS = st.integers(1, 4).flatmap(
    lambda columns: st.lists(st.lists(CELLS, min_size=columns, max_size=columns), min_size=1, max_size=4)
)


@given(ROWS, st.integers(20, 130), st.sampled_from(["", "  "]))
def test_a_list_in_columns_is_folded_between_words_alone(rows: list[list[str]], width: int, indent: str) -> None:
    text = io.StringIO()
    print_columns(Printer(file=text, width=width), rows, indent)
    assert text.getvalue().split() == [word for row in rows for cell in row for word in cell.split()]
    beside = sum(max(map(cell_len, cells)) + 2 for cells in list(zip(*rows, strict=True))[:-1]) + len(indent)
    for line in text.getvalue().splitlines():
        # What is before the last cells is never folded, nor is a word.
        assert cell_len(line) <= max(width, beside) or len(line.split()) == 1


@given(ROWS, st.sampled_from([60, 80, 120]))
def test_a_table_or_its_lines_are_folded_between_words_alone(rows: list[list[str]], width: int) -> None:
    table, text = Table(*(f"c{place}" for place in range(len(rows[0])))), io.StringIO()
    for row in rows:
        table.add_row(*row)
    print_table(Printer(file=text, width=width), table)
    words = {word for row in rows for cell in row for word in cell.split()}
    shown = set(re.sub("[│┃━─┏┡└┓┩┘╇┳┴┛┗┻╋┼]", " ", text.getvalue()).split())
    assert words <= shown
    if "│" in text.getvalue():
        assert max(map(cell_len, text.getvalue().splitlines())) <= width
