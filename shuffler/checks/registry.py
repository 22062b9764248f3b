"""Registry: every check that a submission passes before it is opened. A new check is one more line here."""

from __future__ import annotations

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Refusal
from hubbub.shuffler.checks.capacity import capacity, disk, most
from hubbub.shuffler.checks.check import Arrival, Check, Verdict, passes
from hubbub.shuffler.checks.credential import credential
from hubbub.shuffler.checks.keys import keys
from hubbub.shuffler.checks.size import size
from hubbub.shuffler.checks.time import time

CHECKS: tuple[Check, ...] = (size, time, keys, credential, most, disk, capacity)
"""In their order: the first that refuses is the reason that is given and counted."""


def verdict_of(arrival: Arrival) -> Verdict:
    """Return what all checks together say of each submission of a call."""
    verdicts = [verdict for verdict in (check(arrival) for check in CHECKS) if verdict is not passes]

    def verdict(submission: Submission) -> Refusal | None:
        # A plain loop: this runs for every submission of every call.
        for each in verdicts:
            refusal = each(submission)
            if refusal is not None:
                return refusal
        return None

    return verdict
