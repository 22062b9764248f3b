"""Budget: the shuffler's own ledger of what each task has spent, kept with its batch records.

A round is charged whole, at the minimum its task fixed, in the transaction that makes its batch records; a round that
would pass the task's budget is never mixed. So no analyzer, however often it is asked, gets more than the budget.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.budget import ledger, round_entries
from hubbub.accountant.spending.ledger import Ledger
from hubbub.protos.task import Task
from hubbub.shuffler.records import Charge, StoreError

Charges = Sequence[Charge]


class Budgets:
    """Makes the charges of rounds; the rounds of one task one after the other, under `alone`."""

    def __init__(self) -> None:
        self._locks: dict[bytes, asyncio.Lock] = {}

    def alone(self, task: Task) -> asyncio.Lock:
        """Return what must be held from making a round's charges until they are on disk."""
        return self._locks.setdefault(task.id, asyncio.Lock())

    async def charges(self, task: Task, number: int, standing: Charges) -> Charges:
        """Return what is to be added to the task's `standing` charges for round `number`.

        Raises:
            BudgetExceeded: where the round would pass the budget; the message says which rounds spent what.
            AccountingError: where the standing charges do not hold.
        """
        return await asyncio.to_thread(_charges, task, number, standing)


def _charges(task: Task, number: int, standing: Charges) -> Charges:
    before = ledger(Terms.of(task), task.id.hex(), [(charge.entry, charge.digest) for charge in standing])
    queries = [(query.name, query.mechanism) for query in task.queries]
    after = before.charge(round_entries(Terms.of(task), task.id.hex(), number, queries))
    every = [Charge(place, entry, digest) for place, (entry, digest) in enumerate(after.records())]
    return every[len(before.links) :]


def check_ledgers(charges: Mapping[bytes, Charges], batches: Mapping[tuple[bytes, int], int]) -> None:
    """Return only if every task's chain holds and charges exactly the rounds that were mixed, each query once.

    `batches` says how many batch records each round (task id, number) has.

    Raises:
        StoreError: where it does not: the file was changed by somebody else, or is an old copy in part.
    """
    charged: Counter[tuple[bytes, int]] = Counter()
    for task_id, standing in charges.items():
        records = [(charge.entry, charge.digest) for charge in standing]
        try:
            kept = Ledger.from_records(task_id.hex(), math.inf, 0.5, records)  # the budget is not looked at here
        except AccountingError as error:
            raise StoreError(f"the shuffler's ledger does not hold: {error}") from error
        charged.update((task_id, entry.round) for entry in kept.entries)
    wrong = sorted(key for key in charged.keys() | batches.keys() if charged[key] != batches.get(key, 0))
    if wrong:
        task_id, number = wrong[0]
        raise StoreError(
            f"the shuffler's ledger charges {charged[wrong[0]]} queries of round {number} of task {task_id.hex()}, "
            f"{batches.get(wrong[0], 0)} batches of it were made; restore the store from a copy"
        )
