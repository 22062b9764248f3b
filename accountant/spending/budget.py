"""Computes a ledger's charge for a round, and how many rounds fit a task's budget.

A round is charged whole and at the minimum fixed beforehand, so its cost is known before anyone is asked. If a count
shows fewer valid honest reports, the round is charged at that number from then on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hubbub.accountant.certificate.alone import epsilon_of, hides_alone, horizon_alone
from hubbub.accountant.certificate.batches import local_of, parts_below_minimum
from hubbub.accountant.certificate.minimum import parts_at_minimum, parts_of_horizon
from hubbub.accountant.certificate.terms import QueryCount, Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.spending.entry import LedgerEntry
from hubbub.accountant.spending.ledger import Ledger

Counted = Iterable[tuple[int, QueryCount]]
"""Counted batches, each with the number of its round."""


def ledger(terms: Terms, task: str, records: Iterable[tuple[str, str]] = (), counted: Counted = ()) -> Ledger:
    """Return the ledger of a task with the charges so far, verified; without a budget it refuses nothing.

    Batches in `counted` with fewer valid honest reports than the minimum gives are charged at their actual number.

    Raises:
        LedgerBroken: if the records fail verification.
    """
    # Charges are kept without a budget too: the spending is shown, and a cap may be set later.
    budget = math.inf if terms.epsilon_total is None else terms.epsilon_total
    return Ledger.from_records(task, budget, terms.delta, records, parts_below_minimum(terms, counted))


def epsilon_spent(terms: Terms, task: str, records: Iterable[tuple[str, str]], counted: Counted = ()) -> float:
    """Return the ε of all charges so far, composed at the task's δ; 0 for no charges.

    It is never below the true ε if no batch was below the minimum. A batch in `counted` that was below it is charged at
    its actual number.

    Raises:
        LedgerBroken: if the records fail verification.
    """
    return ledger(terms, task, records, counted).epsilon_spent()


def round_entries(
    terms: Terms, task: str, number: int, queries: Sequence[tuple[str, LocalMechanism]]
) -> tuple[LedgerEntry, ...]:
    """Return the charge of a round: one entry for each of the task's `queries` (name, mechanism), at the minimum."""
    parts = parts_at_minimum(terms, [mechanism for _, mechanism in queries])
    return tuple(LedgerEntry(task, number, name, part) for (name, _), part in zip(queries, parts, strict=True))


@dataclass(frozen=True)
class BudgetForecast:
    """How many of the planned `rounds` fit the budget, and the certified ε of one round and of all together.

    `local_of_all` is ε_local over all rounds, by the device alone: also of rounds that do not fit, as they are sent.
    `alone_of_one` and `alone_of_all` are what the shuffler's noise gives beside any number of liars: never below the ε
    of a person whose report is the only valid one in every round. They are None if a query has no noise.
    """

    rounds: int
    within: int
    epsilon_of_one: float
    epsilon_of_all: float
    local_of_all: float
    alone_of_one: float | None = None
    alone_of_all: float | None = None


def forecast(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int) -> BudgetForecast:
    """Return the cost of `rounds` rounds at the minimum, and how many the budget allows: all if there is no budget.

    Raises:
        AccountingError: if a number is out of range.
    """

    def spent(count: int) -> float:
        return compose_upper(parts_of_horizon(terms, mechanisms, count), terms.delta)

    one, every = spent(1), spent(rounds)
    local = local_of(parts_of_horizon(terms, mechanisms, rounds))
    alone = _alone(terms, mechanisms, 1, one), _alone(terms, mechanisms, rounds, every)
    budget = math.inf if terms.epsilon_total is None else terms.epsilon_total
    if every <= budget:
        return BudgetForecast(rounds, rounds, one, every, local, *alone)
    within = largest_within(spent, (1, one), (rounds, every), budget) if one <= budget else 0
    return BudgetForecast(rounds, within, one, every, local, *alone)


def largest_within(
    spent: Callable[[int], float], within: tuple[int, float], beyond: tuple[int, float], budget: float
) -> int:
    """Return the largest number of rounds whose ε is at most `budget`, between two whose ε are given.

    ε² grows about as the rounds do, so a line through both ends finds the number in some four looks, each of which may
    take a second. Every third look halves what is left, so that there are never many.
    """
    (low, least), (high, most) = within, beyond
    for look in itertools.count(1):
        if high - low <= 1:
            break
        share = (budget**2 - least**2) / (most**2 - least**2) if look % 3 and most < math.inf else 0.5
        middle = min(max(low + round(share * (high - low)), low + 1), high - 1)
        found = spent(middle)
        if found <= budget:
            low, least = middle, found
        else:
            high, most = middle, found
    return low


def _alone(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int, least: float) -> float | None:
    """Return the ε by the noise alone, at least `least`; None if a query has no noise.

    It is composed of the parts of a person beside whom nobody's report is valid, as a certificate's
    `epsilon_upper_alone` is, so it is never below the truth.
    """
    parts = horizon_alone(terms, mechanisms, rounds)
    return max(least, epsilon_of(terms, parts)) if all(map(hides_alone, parts)) else None
