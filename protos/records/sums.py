"""Estimates the sums of numbers that are asked by digits, from the counted batches of a round.

The analyzer publishes what this returns, and whoever verifies results computes it again from the same counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.records.counts import Counted
from hubbub.protos.records.results import SumResult
from hubbub.protos.task.asked_question import Asked
from hubbub.protos.task.task import Task
from hubbub.queries.estimation.estimates import Estimates
from hubbub.queries.questions.number import Number


def sums_of(task: Task, counted: Sequence[Counted]) -> tuple[SumResult, ...]:
    """Return the sum of each number that a task asks by digits, from all batches of a round in the task's order.

    It is withheld if a digit's query is, as it has too few valid reports: nothing of the number follows from the rest.

    Raises:
        ValueError: if a tally cannot be its query's.
    """
    found = []
    for asked in task.asked:
        number = asked.by_digits
        if number is not None:
            names = tuple(task.queries[place].name for place in asked.places)
            found.append(SumResult(asked.name, names, _estimates(task, asked, number, counted)))
    return tuple(found)


def _estimates(task: Task, asked: Asked, number: Number, counted: Sequence[Counted]) -> Estimates | None:
    from hubbub.queries.estimation.digits import combined

    bits = []
    for place in asked.places:
        tally, dummies = counted[place].tally, task.privacy.dummies + counted[place].noise
        if tally is None:
            return None
        bits.append(task.queries[place].debiased(tally, dummies))
    return combined(number, bits)
