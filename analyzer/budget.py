"""Budget: the ledger of what each task has spent, kept with the results that were paid for.

A round is charged whole, at the minimum its task fixed, in the transaction in which the counts of its first batch are
committed. This brings the accountant, and with it scipy: it is loaded when it is first needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.budget import epsilon_spent, ledger, round_entries
from hubbub.accountant.spending.ledger import BudgetExceeded, Ledger
from hubbub.analyzer.tables import Charge
from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task import Task


def charges_for(task: Task, round_number: int, standing: Sequence[Charge]) -> list[Charge]:
    """Return what is to be added to the task's `standing` charges for a round: nothing where it is charged already.

    Raises:
        Refusal: OVER_BUDGET where the round would pass the task's budget, saying which rounds spent what.
        HubbubError: where the standing charges do not hold.
    """
    name, queries = task.id.hex(), [(each.name, each.mechanism) for each in task.queries]
    try:
        before = ledger(Terms.of(task), name, [(charge.entry, charge.digest) for charge in standing])
        after = before.charge(round_entries(Terms.of(task), name, round_number, queries))
    except BudgetExceeded as error:
        raise Refusal(Reason.OVER_BUDGET, str(error)) from error
    except AccountingError as error:
        raise HubbubError(f"round {round_number} of task {task.name} cannot be charged: {error}") from error
    every = [Charge(place, entry, digest) for place, (entry, digest) in enumerate(after.records())]
    return every[len(before.links) :]


def epsilon_of(task: Task, charges: Sequence[Charge]) -> float:
    """Return the ε of a task's charges, composed: never below the true one."""
    records = [(charge.entry, charge.digest) for charge in charges]
    return epsilon_spent(Terms.of(task), task.id.hex(), records)


def check_ledger(task_id: bytes, standing: Iterable[Charge], counted: set[int]) -> None:
    """Return only if a task's chain holds and charges exactly the rounds of which something was `counted`.

    Raises:
        HubbubError: where it does not: the file was changed by somebody else.
    """
    records = [(charge.entry, charge.digest) for charge in standing]
    try:
        kept = Ledger.from_records(task_id.hex(), math.inf, 0.5, records)  # the budget is not looked at here
    except AccountingError as error:
        raise HubbubError(f"the analyzer's ledger does not hold: {error}") from error
    wrong = sorted(counted ^ {entry.round for entry in kept.entries})
    if wrong:
        raise HubbubError(
            f"round {wrong[0]} of task {task_id.hex()} is counted or charged, but not both; restore the analyzer's "
            "store from a copy"
        )
