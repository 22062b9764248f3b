"""Checks whether a round takes submissions now."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import RoundState, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import taken_from
from hubbub.protos.task.task import Task, ended
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts
from hubbub.shuffler.records import Round
from hubbub.shuffler.tasks import at, next_round


def time(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """TOO_EARLY, and the refusals of `over`."""
    return over(arrival.task, arrival.round, arrival.now) or _early(arrival)


def over(task: Task, round_: Round, now: float) -> Refusal | None:
    """Return TASK_ENDED, TOO_LATE or ERASED if a round takes no more submissions, whenever they were made.

    A device may fetch a round's keys before the round takes submissions, but not after it is over.
    """
    schedule, number = task.schedule, round_.number
    if number > task.last_round:
        return ended(task)
    if round_.state is RoundState.OPEN and now < schedule.cut(number):
        return None
    following = next_round(task, now, number)
    if round_.state is RoundState.ERASED:
        return Refusal(Reason.ERASED, f"round {number} is over and erased, so this came too late; {following}")
    if round_.state is RoundState.EXPIRED and round_.reason:
        text = f"round {number} takes no submissions, because it cannot be released: {round_.reason}; {following}"
        return Refusal(Reason.ERASED, text)
    last = at(schedule.cut(number))
    return Refusal(Reason.TOO_LATE, f"round {number} was cut at {last} and takes no more submissions; {following}")


def _early(arrival: Arrival) -> Refusal | None:
    number = arrival.round.number
    first = taken_from(arrival.task.schedule, number)
    if arrival.now >= first:
        return None
    times = f"takes submissions from {at(first)}, now is {at(arrival.now)}; wait until then, and check the clock"
    return Refusal(Reason.TOO_EARLY, f"round {number} {times}")
