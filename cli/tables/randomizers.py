"""Shows the errors of each kind of randomizer as a table, with the chosen one marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.tables import print_table
from hubbub.planning.comparison import RandomizerCandidate

_MEANINGS = {
    "krr": "krr: with probability gamma a device reports one of the k answers at random, and otherwise its own",
    "unary": "unary: a device reports a bit for each answer; the bit is 1 with probability truthful for its own "
    "answer, and with probability other for each other one",
    "hashed": "hashed: a device draws a row of a hash table and reports a cell of it; with probability gamma any "
    "cell, and otherwise that of its own answer",
    "direct": "direct: in every round a device reports yes or no at random with probability gamma, and otherwise its "
    "own state",
}


def meanings(kinds: Iterable[str]) -> list[str]:
    """Return a sentence for each kind of randomizer or strategy that has one, each once, in their order."""
    return [_MEANINGS[kind] for kind in dict.fromkeys(kinds) if kind in _MEANINGS]


def print_candidates(
    console: Console, candidates: Sequence[RandomizerCandidate], chosen: RandomizerCandidate | None
) -> None:
    """Print a row for each candidate, with the chosen one marked, then why others do not apply."""
    counts = list(dict.fromkeys(count for each in candidates for count in each.errors))
    table = Table("randomizer")
    for column in ("dummies", "ε_local", "ε ≤", *(f"error at {count:,}" for count in counts), "largest", ""):
        table.add_column(column, justify="right")
    for each in candidates:
        if each.chosen is None:
            continue
        errors = [f"{each.errors[count]:.4g}" for count in counts]
        costs = (f"{each.chosen.epsilon_local:.4f}", f"{each.chosen.epsilon_upper:.4f}")
        mark = "chosen" if each is chosen else ""
        table.add_row(_named(each), f"{each.dummies:,}", *costs, *errors, f"{each.largest:.4g}", mark)
    print_table(console, table)
    for each in candidates:
        if each.why_not is not None:
            console.print(f"{each.kind} with {each.dummies:,} dummies: {each.why_not}", markup=False, soft_wrap=True)


def _named(candidate: RandomizerCandidate) -> str:
    content = {} if candidate.chosen is None else candidate.chosen.mechanism.content()
    sizes = [f"{value:,} {key}" for key, value in content.items() if isinstance(value, int)]
    return ", ".join([candidate.kind, *sizes])
