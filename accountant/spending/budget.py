"""What its ledger charges for a round, and how many rounds fit.

A round is charged whole and at the minimum fixed beforehand, so it is known before anyone is asked what each costs. One
that turned out to hold fewer valid honest reports counts at these, as soon as somebody has counted it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hubbub.accountant.certificate.batches import parts_below_minimum
from hubbub.accountant.certificate.minimum import parts_at_minimum, parts_of_horizon
from hubbub.accountant.certificate.terms import QueryCount, Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.spending.entry import LedgerEntry
from hubbub.accountant.spending.ledger import Ledger

Counted = Iterable[tuple[int, QueryCount]]
"""Batches that were counted, each with the number of its round."""


def ledger(terms: Terms, task: str, records: Iterable[tuple[str, str]] = (), counted: Counted = ()) -> Ledger:
    """Return the ledger of a task with what is charged already, verified; without a budget it refuses nothing.

    Batches `counted` with fewer valid honest reports than the minimum gives count as what they were.

    Raises:
        LedgerBroken: where the records do not hold.
    """
    # Charges are kept without a budget too: what was spent is shown, and a cap may be asked about later.
    budget = math.inf if terms.epsilon_total is None else terms.epsilon_total
    return Ledger.from_records(task, budget, terms.delta, records, parts_below_minimum(terms, counted))


def epsilon_spent(terms: Terms, task: str, records: Iterable[tuple[str, str]], counted: Counted = ()) -> float:
    """Return the ε of everything charged so far, composed at the task's δ; 0 for no charges.

    It is never below the true one as long as no batch was short; a batch that is known to have been counts as it was.

    Raises:
        LedgerBroken: where the records do not hold.
    """
    return ledger(terms, task, records, counted).epsilon_spent()


def round_entries(
    terms: Terms, task: str, number: int, queries: Sequence[tuple[str, LocalMechanism]]
) -> tuple[LedgerEntry, ...]:
    """Return what a round is charged: one entry for each of the task's `queries` (name, mechanism), at the minimum."""
    parts = parts_at_minimum(terms, [mechanism for _, mechanism in queries])
    return tuple(LedgerEntry(task, number, name, part) for (name, _), part in zip(queries, parts, strict=True))


@dataclass(frozen=True)
class BudgetForecast:
    """How many of the `rounds` planned fit the budget, and the certified ε of one and of all of them together."""

    rounds: int
    within: int
    epsilon_of_one: float
    epsilon_of_all: float


def forecast(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int) -> BudgetForecast:
    """Return what `rounds` rounds cost at the minimum, and how many of them the budget allows: all where it has none.

    Raises:
        AccountingError: where numbers are out of range.
    """

    def spent(count: int) -> float:
        return compose_upper(parts_of_horizon(terms, mechanisms, count), terms.delta)

    one, every = spent(1), spent(rounds)
    budget = math.inf if terms.epsilon_total is None else terms.epsilon_total
    if every <= budget:
        return BudgetForecast(rounds, rounds, one, every)
    # What is spent grows with the rounds, so the last number that fits is found by halving.
    within, beyond = (1, rounds) if one <= budget else (0, 1)
    while beyond - within > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if spent(middle) <= budget else (within, middle)
    return BudgetForecast(rounds, within, one, every)
