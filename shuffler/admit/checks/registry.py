"""Lists every check that a submission passes before it is opened. Add a new check here."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Refusal
from hubbub.shuffler.admit.checks.capacity import capacity, disk, most
from hubbub.shuffler.admit.checks.check import Arrival, Check
from hubbub.shuffler.admit.checks.credential import credential
from hubbub.shuffler.admit.checks.keys import keys
from hubbub.shuffler.admit.checks.size import size
from hubbub.shuffler.admit.checks.time import time

CHECKS: tuple[Check, ...] = (size, time, keys, credential, most, disk, capacity)
"""In this order: the first check that refuses gives the reason that is returned and counted."""


def refusals_of(arrival: Arrival, submissions: Sequence[Submission]) -> list[Refusal | None]:
    """Return the result of all checks for a call's submissions, in order: each one's refusal, or None."""
    refusals: list[Refusal | None] = [None] * len(submissions)
    places, asked = list(range(len(submissions))), submissions
    for check in CHECKS:
        verdicts = check(arrival, asked)
        if verdicts is None:
            continue
        each = [verdicts] * len(asked) if isinstance(verdicts, Refusal) else verdicts
        for place, verdict in zip(places, each, strict=True):
            refusals[place] = verdict
        places = [place for place in places if refusals[place] is None]
        asked = [submissions[place] for place in places]
        if not asked:
            break
    return refusals
