"""Charges each task's ledger, which every service stores together with the outputs that the charges pay for.

A round is charged whole, at the minimum that its task fixed. The charge is in the transaction that stores its outputs:
the shuffler's batch records, or the analyzer's first counts. A round that would exceed the task's budget is never mixed
or counted. So nobody gets more than the budget, however often a service is asked.

This module loads the accountant, and with it scipy. A service that starts without it loads this module when it first
charges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.budget import Counted, epsilon_spent, ledger, round_entries
from hubbub.accountant.spending.ledger import Ledger
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError
from hubbub.service.ledger.charges import Charge, Charges

RoundId = tuple[bytes, int]
"""A task's id, and a round's number."""


def charges_for(task: Task, number: int, stored: Charges, counted: Counted = ()) -> list[Charge]:
    """Return the charges that round `number` adds to the task's `stored` charges: none if it is charged already.

    Batches `counted` with fewer valid honest reports than the task's minimum gives are charged at their actual number.
    Composes, which takes some 0.1 s: call it in a thread.

    Raises:
        BudgetExceeded: if the round would exceed the budget; the message names the rounds and their shares.
        AccountingError: if the stored charges are inconsistent.
    """
    before = ledger(Terms.of(task), task.id.hex(), _records(stored), counted)
    queries = [(query.name, query.mechanism) for query in task.queries]
    after = before.charge(round_entries(Terms.of(task), task.id.hex(), number, queries))
    every = [Charge(position, entry, digest) for position, (entry, digest) in enumerate(after.records())]
    return every[len(before.links) :]


def epsilon_of(task: Task, charges: Charges, counted: Counted = ()) -> float:
    """Return the composed ε of a task's charges; batches `counted` below the minimum at their actual number."""
    return epsilon_spent(Terms.of(task), task.id.hex(), _records(charges), counted)


def check_ledgers(whose: str, charges: Mapping[bytes, Charges], paid_for: Mapping[RoundId, int]) -> None:
    """Check that every task's chain is valid, and charges exactly the rounds that were paid for, each query once.

    `paid_for` gives the number of queries with outputs, by round; `whose` names the service in errors. The chain of
    digests alone would not show that its last charges were removed; the rounds with outputs show it.

    Raises:
        StoreError: if one is not: somebody else changed the file, or parts of it are an old copy.
    """
    charged: Counter[RoundId] = Counter()
    for task_id, stored in charges.items():
        try:
            # Budget and δ belong to the task, and are not checked here: the values are placeholders.
            kept = Ledger.from_records(task_id.hex(), math.inf, 0.5, _records(stored))
        except AccountingError as error:
            raise StoreError(f"the {whose}'s ledger is invalid: {error}") from error
        charged.update((task_id, entry.round) for entry in kept.entries)
    wrong = sorted(key for key in charged.keys() | paid_for.keys() if charged[key] != paid_for.get(key, 0))
    if wrong:
        task_id, number = wrong[0]
        raise StoreError(
            f"the {whose}'s ledger charges {charged[wrong[0]]} queries of round {number} of task {task_id.hex()}, but "
            f"the store has outputs of {paid_for.get(wrong[0], 0)}; restore the newest copy of the store"
        )


def _records(charges: Charges) -> list[tuple[str, str]]:
    return [(charge.entry, charge.digest) for charge in charges]
