"""Computes what counting a round adds to its task's ledger, or refuses a round beyond the budget.

This loads the accountant, and with it scipy, which would double the service's start-up time; so it is imported while
the first batch arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.certificate.batches import parts_below_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.ledger import BudgetExceeded
from hubbub.analyzer.progress import counted
from hubbub.analyzer.records import RoundProgress
from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.budgets import PurposeSpending, Share, exactly
from hubbub.protos.task.task import Task
from hubbub.service.ledger.charges import Charge, Charges
from hubbub.service.ledger.ledgers import charges_for, epsilon_of


@dataclass(frozen=True)
class TaskLedger:
    """A task's stored charges, and the progress of its rounds."""

    task: Task
    stored: Charges
    rounds: Sequence[RoundProgress]


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


def check_purpose(spending: PurposeSpending, ledgers: Iterable[TaskLedger]) -> None:
    """Return only if the tasks of a purpose, with these ledgers, are within its budget together.

    Their shares always are. But a task whose batches turned out short may have spent more than its share: what is
    beyond counts against what no task has taken of the budget yet.

    Raises:
        Refusal: OVER_BUDGET if that is more, naming the tasks.
        HubbubError: if the stored charges are not valid.
    """
    try:
        beyond = {each.task.name: _beyond_share(each) for each in ledgers}
    except AccountingError as error:
        raise HubbubError(f"the tasks of purpose {spending.budget.purpose} cannot be charged: {error}") from error
    over = sum(beyond.values(), Fraction(0))
    if over > spending.left.epsilon:
        named = ", ".join(f"{name} ε {float(each):.6g}" for name, each in beyond.items() if each)
        raise Refusal(
            Reason.OVER_BUDGET,
            f"batches with too few valid reports have cost more than the shares of their tasks ({named}), and of the "
            f"budget of purpose {spending.budget.purpose} {spending.in_words()}; end the tasks of this purpose",
        )


def _beyond_share(ledger: TaskLedger) -> Fraction:
    batches = counted(ledger.task, ledger.rounds)
    # Otherwise the ledger itself keeps the task within its share: composing takes a while.
    if not parts_below_minimum(Terms.of(ledger.task), batches):
        return Fraction(0)
    spent = epsilon_of(ledger.task, ledger.stored, batches)
    return max(Fraction(0), exactly(spent) - Share.of(ledger.task).epsilon)
