"""Limits on the submissions of a round, on the disk, and on those in work at once.

So disk and memory stay bounded under any load, and whatever was sealed into the submissions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts

OVERLOADED_SECONDS = 1.0
"""When a device may try again after OVERLOADED: what is in work is done by then."""


def most(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """ROUND_FULL, for good: nothing leaves a round before it is cut.

    A call may still pass with more than the round has room for; the store takes no more of it.
    """
    limit = arrival.task.maximum_reports
    if arrival.held < limit:
        return None
    return full(arrival.round.number, limit)


def full(number: int, limit: int) -> Refusal:
    """Return the refusal of what comes to a round that holds the most its task takes."""
    message = f"round {number} is full, with the {limit} submissions that the task takes at most; answer the next"
    return Refusal(Reason.ROUND_FULL, message)


def disk(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """DISK_FULL, until there is room again."""
    return arrival.disk_full


def capacity(arrival: Arrival, submissions: Sequence[Submission]) -> Verdicts:
    """OVERLOADED. It comes last: what is refused for good must not be told to try again, and takes no room."""
    free = max(arrival.free, 0)
    if len(submissions) <= free:
        return None
    return [None] * free + [overloaded(arrival.limit)] * (len(submissions) - free)


def overloaded(limit: int) -> Refusal:
    """Return the refusal of what comes while as much is in work as there may be."""
    message = f"as much is in work as is done in time, {limit} submissions at most; try again shortly"
    return Refusal(Reason.OVERLOADED, message, OVERLOADED_SECONDS)
