"""Computes what counting a round adds to its task's ledger, or refuses a round beyond the budget.

This loads the accountant, and with it scipy, which would double the service's start-up time; so it is imported while
the first batch arrives.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.ledger import BudgetExceeded
from hubbub.analyzer.progress import counted
from hubbub.analyzer.records import RoundProgress
from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Task
from hubbub.service.ledger.charges import Charge, Charges
from hubbub.service.ledger.ledgers import charges_for


def charges_or_refusal(task: Task, round_number: int, stored: Charges, rounds: Sequence[RoundProgress]) -> list[Charge]:
    """Return what a round adds to the task's `stored` charges; empty if it is charged already.

    Those of the task's `rounds` that were counted below the minimum count against the budget with their actual counts.

    Raises:
        Refusal: OVER_BUDGET if the round would exceed the task's budget, naming which rounds spent what.
        HubbubError: if the stored charges are not valid.
    """
    try:
        return charges_for(task, round_number, stored, counted(task, rounds))
    except BudgetExceeded as error:
        raise Refusal(Reason.OVER_BUDGET, str(error)) from error
    except AccountingError as error:
        raise HubbubError(f"round {round_number} of task {task.name} cannot be charged: {error}") from error
