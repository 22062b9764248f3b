"""Shows what each round of a text that is asked by prefixes costs to decode, and what can be found in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_table
from hubbub.queries.texts.heavy_hitters import MOST_LOOKED_UP, PrefixStep
from hubbub.queries.texts.lookup import FALSE_DISCOVERIES


def steps_document(steps: Sequence[PrefixStep]) -> list[dict[str, Any]]:
    """Return the rounds as JSON; `length` is null for a round that asks for whole texts."""
    return [asdict(each) for each in steps]


def print_steps(console: Console, name: str, steps: Sequence[PrefixStep], within: int) -> None:
    """Print a row for each round, and a warning if nothing is found; `within` is how many rounds the budget allows."""
    table = Table(f"{name}: round")
    for column in ("bytes", "look-ups of one beginning", "beginnings continued", "stands out from", "found from"):
        table.add_column(column, justify="right")
    for each in steps:
        length = "all" if each.length is None else f"{each.length}"
        numbers = (
            f"{each.look_ups:,}",
            f"{each.beginnings:,}",
            f"{each.stands_out_from:,.0f}",
            f"{each.found_from:,.0f}",
        )
        table.add_row(f"{each.round}", length, *numbers)
    print_table(console, table)
    sentences = []
    if within < len(steps):
        sentences.append(
            f"{name}: the budget allows {within} rounds, and finding the texts takes {len(steps)}; raise "
            "epsilon_total, lower epsilon, or give fewer prefixes"
        )
    if any(each.beginnings == 0 for each in steps):
        sentences.append(
            f"{name}: if no beginning is continued, the step is too long for all characters; use shorter steps, or "
            "name the characters with --alphabet"
        )
    for sentence in sentences:
        console.print(sentence, markup=False, soft_wrap=True)


def steps_words(name: str) -> str:
    """Return how the rounds' texts are found, and what the last column says."""
    return (
        f"{name}: beginnings that stand out in a round (false-discovery rate {FALSE_DISCOVERIES:.0%}) are continued in "
        "the next; a text that as many people have as in the last column is found in 39 of 40 rounds, if few others "
        f"are common; a round looks up at most {MOST_LOOKED_UP:,} continuations, of all Unicode characters: fewer "
        "characters (--alphabet) reach further"
    )
