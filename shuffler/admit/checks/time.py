"""Whether a round takes submissions now."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import RoundState, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import taken_from
from hubbub.protos.task.task import Task
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts
from hubbub.shuffler.records import Round
from hubbub.shuffler.tasks import at, next_round


def time(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """TOO_EARLY, and what `over` says."""
    return over(arrival.task, arrival.round, arrival.now) or _early(arrival)


def over(task: Task, round_: Round, now: float) -> Refusal | None:
    """Return TOO_LATE, ERASED or OVER_BUDGET where a round takes nothing any more, whenever a submission was made.

    A device may fetch a round's keys before the round takes submissions, but not after this.
    """
    schedule, number = task.schedule, round_.number
    if round_.state is RoundState.OPEN and now < schedule.cut(number):
        return None
    following = next_round(schedule, now, number)
    if round_.state is RoundState.ERASED:
        return Refusal(Reason.ERASED, f"round {number} is over and erased, too old for this; {following}")
    if round_.state is RoundState.EXPIRED and round_.reason:
        return Refusal(Reason.OVER_BUDGET, f"round {number} takes nothing, nothing may come of it: {round_.reason}")
    last = at(schedule.cut(number))
    return Refusal(Reason.TOO_LATE, f"round {number} takes nothing more, its last time was {last}; {following}")


def _early(arrival: Arrival) -> Refusal | None:
    number = arrival.round.number
    first = taken_from(arrival.task.schedule, number)
    if arrival.now >= first:
        return None
    times = f"takes submissions from {at(first)}, now is {at(arrival.now)}; wait"
    return Refusal(Reason.TOO_EARLY, f"round {number} {times}")
