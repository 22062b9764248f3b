"""Shows the errors of each kind of randomizer as a table, with the chosen one marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_table
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


_READING = (
    "at c: standard error of a count of c people; largest: that of an answer which at most the `share` of the people "
    "have"
)


def meanings(kinds: Iterable[str]) -> list[str]:
    """Return a sentence for each kind of randomizer or strategy that has one, each once, in their order."""
    return [_MEANINGS[kind] for kind in dict.fromkeys(kinds) if kind in _MEANINGS]


def candidates_document(
    candidates: Sequence[RandomizerCandidate], chosen: RandomizerCandidate | None
) -> list[dict[str, Any]]:
    """Return the candidates as JSON values, each with whether it is the chosen one."""
    return [each.as_json() | {"chosen": each is chosen} for each in candidates]


def print_candidates(
    console: Console, candidates: Sequence[RandomizerCandidate], chosen: RandomizerCandidate | None
) -> None:
    """Print a row for each candidate, with the chosen one marked and named, then why others do not apply."""
    counts = list(dict.fromkeys(count for each in candidates for count in each.errors))
    table = Table("randomizer")
    some = any(each.dummies for each in candidates)
    at = [f"at {count:,}" for count in counts]
    for column in (*(["dummies"] if some else []), "ε_local", "ε ≤", *at, "largest"):
        table.add_column(column, justify="right")
    for each in candidates:
        if each.chosen is None:
            continue
        errors = [f"{each.errors[count]:.4g}" for count in counts]
        costs = (f"{each.chosen.epsilon_local:.4f}", f"{each.chosen.epsilon_upper:.4f}")
        # In the first cell, which a narrow terminal shows too.
        name = f"{_named(each)} (chosen)" if each is chosen else _named(each)
        added = [f"{each.dummies:,}"] if some else []
        table.add_row(name, *added, *costs, *errors, f"{each.largest:.4g}")
    print_table(console, table, spare=at)
    console.print(_READING, markup=False, soft_wrap=True)
    if chosen is not None:
        console.print(_chosen_text(candidates, chosen), markup=False, soft_wrap=True)
    for each in candidates:
        if each.why_not is not None:
            among = f" with {each.dummies:,} dummies" if some else ""
            console.print(f"{each.kind}{among} does not apply: {each.why_not}", markup=False, soft_wrap=True)


def _chosen_text(candidates: Sequence[RandomizerCandidate], chosen: RandomizerCandidate) -> str:
    with_dummies = any(each.dummies != chosen.dummies for each in candidates)
    among = f" of those with {chosen.dummies:,} dummies" if with_dummies else ""
    return (
        f"chosen: {_named(chosen)}, as its largest error, {chosen.largest:.4g}, is the least{among}; a task asks for "
        f'it with randomizer = "{chosen.kind}"'
    )


def _named(candidate: RandomizerCandidate) -> str:
    content = {} if candidate.chosen is None else candidate.chosen.mechanism.content()
    sizes = [f"{value:,} {key}" for key, value in content.items() if isinstance(value, int)]
    return ", ".join([candidate.kind, *sizes])
