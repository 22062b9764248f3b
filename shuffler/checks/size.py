"""Size: all envelopes of a task have one length; otherwise an envelope's length would tell devices apart."""

from __future__ import annotations

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.checks.check import Arrival, Verdict


def size(arrival: Arrival) -> Verdict:
    """WRONG_SIZE. It comes first: such an envelope is not of this task, whatever its round's state."""
    expected = arrival.task.outer_bytes

    def verdict(submission: Submission) -> Refusal | None:
        found = len(submission.envelope)
        if found == expected:
            return None
        return Refusal(
            Reason.WRONG_SIZE, f"the envelope has {found} bytes, this task's have {expected}; is it of this task?"
        )

    return verdict
