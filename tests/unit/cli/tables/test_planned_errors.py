"""What is below the table of alternatives explains the columns that are there."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hubbub.cli.tables.planned_errors import alternatives_words, print_alternatives_alone
from hubbub.planning.alternatives import Added, Alternative


@pytest.mark.parametrize("errors", [None, {0: 6.5, 200: 7.7}])
def test_an_error_at_a_count_is_explained_if_it_is_shown(errors: dict[int, float] | None) -> None:
    row = Alternative("noise", 8, 255, 4.0, 0.5, 10.0, errors)
    printer = Console(width=200, file=io.StringIO())
    print_alternatives_alone(printer, {"query": (row,)}, None)
    text: str = printer.file.getvalue()  # type: ignore[attr-defined]
    assert ("at 200" in text) is ("at c: that of a count of c people" in text) is (errors is not None)


@pytest.mark.parametrize("added", [("nothing", "noise"), ("nothing", "dummies", "noise")])
def test_who_must_be_honest_is_said_of_what_is_in_the_table(added: tuple[Added, ...]) -> None:
    rows = [Alternative(each, 8, 255, 4.0, 0.5, 10.0) for each in added]
    (text,) = alternatives_words({"query": rows})
    assert [f"with {each}" in text for each in ("nothing", "dummies", "noise")] == [True, "dummies" in added, True]
    assert text.endswith("; if all shufflers and the analyzer collude, ε_local is left in each case")
