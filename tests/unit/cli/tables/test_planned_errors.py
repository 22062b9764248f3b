"""What is below the table of alternatives explains the columns that are there."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hubbub.cli.tables.planned_errors import print_alternatives_alone
from hubbub.planning.alternatives import Alternative


@pytest.mark.parametrize("errors", [None, {0: 6.5, 200: 7.7}])
def test_an_error_at_a_count_is_explained_if_it_is_shown(errors: dict[int, float] | None) -> None:
    row = Alternative("noise", 8, 255, 4.0, 0.5, 10.0, errors)
    printer = Console(width=200, file=io.StringIO())
    print_alternatives_alone(printer, {"query": (row,)}, None)
    text: str = printer.file.getvalue()  # type: ignore[attr-defined]
    assert ("at 200" in text) is ("at c: that of a count of c people" in text) is (errors is not None)
