"""Capacity: a limit on the submissions in work at once, so that memory stays bounded under any load."""

from __future__ import annotations

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.checks.check import Arrival, Verdict

OVERLOADED_SECONDS = 1.0
"""When a device may try again after OVERLOADED: a full queue of 20,000 takes about a second."""


def capacity(arrival: Arrival) -> Verdict:
    """OVERLOADED. It comes last: what is refused for good must not be told to try again, and takes no room."""
    room = arrival.room

    def verdict(_submission: Submission) -> Refusal | None:
        nonlocal room
        if room <= 0:
            message = f"{arrival.limit} submissions are in work; try again shortly"
            return Refusal(Reason.OVERLOADED, message, OVERLOADED_SECONDS)
        room -= 1
        return None

    return verdict
