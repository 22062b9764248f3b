"""What each task has spent, kept by each service beside what was paid for.

A round is charged whole, at the minimum its task fixed, in the transaction that stores what is paid for: the shuffler's
batch records, or the analyzer's first counts. A round that would pass the task's budget is never mixed or counted. So
nobody, however often it is asked, gets more than the budget.

This brings the accountant, and with it scipy: a service that starts without it loads this module when it first charges.
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
    """Return what round `number` adds to the task's `stored` charges: nothing where it is charged already.

    Batches `counted` with fewer valid honest reports than the task's minimum gives count as what
    they were. Composes, which takes some 0.1 s: call it in a thread.

    Raises:
        BudgetExceeded: if the round would pass the budget; the message says which rounds spent what.
        AccountingError: if the stored charges do not hold.
    """
    before = ledger(Terms.of(task), task.id.hex(), _records(stored), counted)
    queries = [(query.name, query.mechanism) for query in task.queries]
    after = before.charge(round_entries(Terms.of(task), task.id.hex(), number, queries))
    every = [Charge(position, entry, digest) for position, (entry, digest) in enumerate(after.records())]
    return every[len(before.links) :]


def epsilon_of(task: Task, charges: Charges, counted: Counted = ()) -> float:
    """Return the ε of a task's charges, composed; batches `counted` short of the minimum as what they were."""
    return epsilon_spent(Terms.of(task), task.id.hex(), _records(charges), counted)


def check_ledgers(whose: str, charges: Mapping[bytes, Charges], paid_for: Mapping[RoundId, int]) -> None:
    """Return only if every task's chain holds, and charges exactly the rounds that were paid for, each query once.

    `paid_for` says how many queries of each round something was made of; `whose` ledgers they are is for errors. The
    chain of digests alone would not show that its last charges were left off: the rounds that were made of them do.

    Raises:
        StoreError: if it does not: the file was changed by somebody else, or is an old copy in part.
    """
    charged: Counter[RoundId] = Counter()
    for task_id, stored in charges.items():
        try:
            # Budget and δ are the task's, which is not looked at here.
            kept = Ledger.from_records(task_id.hex(), math.inf, 0.5, _records(stored))
        except AccountingError as error:
            raise StoreError(f"the {whose}'s ledger does not hold: {error}") from error
        charged.update((task_id, entry.round) for entry in kept.entries)
    wrong = sorted(key for key in charged.keys() | paid_for.keys() if charged[key] != paid_for.get(key, 0))
    if wrong:
        task_id, number = wrong[0]
        raise StoreError(
            f"the {whose}'s ledger charges {charged[wrong[0]]} queries of round {number} of task {task_id.hex()}, "
            f"{paid_for.get(wrong[0], 0)} of it were paid for; restore the store from a copy"
        )


def _records(charges: Charges) -> list[tuple[str, str]]:
    return [(charge.entry, charge.digest) for charge in charges]
