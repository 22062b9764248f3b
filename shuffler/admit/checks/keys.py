"""Checks whether a submission was sealed for this round's keys."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts
from hubbub.shuffler.records import not_ready

DAMAGED_SECONDS = 60.0
"""Seconds until a device may ask again for keys of a round whose key is damaged: its operator has to act first."""


def keys(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """NOT_READY, KEY_SET_DIFFERS: a submission for other keys would not open, here or at the analyzer."""
    held = arrival.round.keys
    if held is None:
        return not_ready(arrival.round.number)
    if arrival.key_damaged:
        return damaged(arrival.round.number)
    if held.key_set.hash == arrival.destination.key_set_hash:
        return None
    return Refusal(
        Reason.KEY_SET_DIFFERS,
        "the submission is sealed for other keys than this round's; send nothing more of this round, and report it to "
        "the operator",
    )


def damaged(number: int) -> Refusal:
    """Return the refusal for a round whose private key is damaged, before a device answers it in vain."""
    return Refusal(
        Reason.NOT_READY,
        f"the key of round {number} is damaged at the shuffler, so it cannot open submissions; ask again later, "
        "or answer the next round",
        DAMAGED_SECONDS,
    )
