"""Checks that all envelopes of a task have one length; otherwise the length would distinguish devices."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts


def size(arrival: Arrival, submissions: Sequence[Submission]) -> Verdicts:
    """WRONG_SIZE. It is the first check: such an envelope is not of this task in any state of the round."""
    expected = arrival.task.outer_bytes
    lengths = [len(submission.envelope) for submission in submissions]
    if lengths.count(expected) == len(lengths):
        return None
    return [None if length == expected else _wrong(length, expected) for length in lengths]


def _wrong(length: int, expected: int) -> Refusal:
    message = f"the envelope has {length} bytes, but this task's have {expected}; check that it is for this task"
    return Refusal(Reason.WRONG_SIZE, message)
