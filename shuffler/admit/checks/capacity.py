"""Limits the submissions of a round, the disk, and the submissions in work at once.

So disk and memory stay bounded under any load, and for any content of the submissions.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts

OVERLOADED_SECONDS = 1.0
"""Seconds until a device may try again after OVERLOADED: the work of now is done by then."""


def most(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """ROUND_FULL, for good: nothing leaves a round before it is cut.

    A call may pass with more submissions than the round has room for; the store takes only as many as fit.
    """
    limit = arrival.task.maximum_reports
    if arrival.held < limit:
        return None
    return full(arrival.round.number, limit)


def full(number: int, limit: int) -> Refusal:
    """Return the refusal for a round that has as many submissions as its task allows."""
    message = f"round {number} is full with {limit} submissions, the task's maximum; answer the next round"
    return Refusal(Reason.ROUND_FULL, message)


def disk(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """DISK_FULL, until there is room again."""
    return arrival.disk_full


def capacity(arrival: Arrival, submissions: Sequence[Submission]) -> Verdicts:
    """OVERLOADED. The last check: a submission that is refused for good must not retry, and takes no room."""
    free = max(arrival.free, 0)
    if len(submissions) <= free:
        return None
    return [None] * free + [overloaded(arrival.limit)] * (len(submissions) - free)


def overloaded(limit: int) -> Refusal:
    """Return the refusal for a submission that comes while the limit of work is reached."""
    message = f"the shuffler has as much work as it can do in time, {limit} submissions at most; try again shortly"
    return Refusal(Reason.OVERLOADED, message, OVERLOADED_SECONDS)
