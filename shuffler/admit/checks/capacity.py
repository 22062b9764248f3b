"""Limits the submissions of a round, the disk, and the submissions in work at once.

So disk and memory stay bounded under any load, and for any content of the submissions. A device is also refused while
the store cannot be used; it is told what is in the way, without addresses or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.errors import StoreError, StoreFault
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts

OVERLOADED_SECONDS = 1.0
"""Seconds until a device may try again after OVERLOADED: the work of now is done by then."""

DISK_SECONDS, AWAY_SECONDS = 5.0, 2.0
"""Seconds until a device may try again after the disk refused a write, and after something else was in the way."""

_TOLD = MappingProxyType(
    {
        StoreFault.STORE: Refusal(
            Reason.NOT_READY, "the shuffler cannot use its store now; try again later", DISK_SECONDS
        ),
        StoreFault.DISK: Refusal(
            Reason.OVERLOADED, "the shuffler cannot write to its disk now; try again later", DISK_SECONDS
        ),
        StoreFault.DATABASE: Refusal(
            Reason.NOT_READY, "the shuffler cannot use its database now; try again later", AWAY_SECONDS
        ),
        StoreFault.STANDBYS: Refusal(
            Reason.NOT_READY,
            "the shuffler waits for a standby, and enrolls no device without one; try again later",
            AWAY_SECONDS,
        ),
        StoreFault.LEADER: Refusal(
            Reason.NOT_READY, "no leader of the shuffler's rounds answers now; try again later", AWAY_SECONDS
        ),
        StoreFault.PROCESS: Refusal(
            Reason.NOT_READY, "a process of the shuffler is starting again; try again later", AWAY_SECONDS
        ),
    }
)


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


def unavailable(error: StoreError) -> Refusal:
    """Return the refusal for a device whose call failed with this error."""
    told = _TOLD[error.fault]
    # A new one: an exception that was raised keeps references to the call.
    return Refusal(told.reason, told.message, told.retry_after)


def is_foreseen(error: StoreError) -> bool:
    """Return whether something other than the store's own disk or content failed, which is an incident elsewhere."""
    return error.fault not in (StoreFault.DISK, StoreFault.STORE)
