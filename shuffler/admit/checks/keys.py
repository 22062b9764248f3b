"""Whether a submission was sealed for this round's keys."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.admit.checks.check import Arrival, Verdicts
from hubbub.shuffler.records import not_ready

DAMAGED_SECONDS = 60.0
"""When a device may ask again for keys of a round whose key is damaged: its operator has to do something first."""


def keys(arrival: Arrival, _submissions: Sequence[Submission]) -> Verdicts:
    """NOT_READY, KEY_SET_DIFFERS: what is sealed for other keys would not open, here or at the analyzer."""
    held = arrival.round.keys
    if held is None:
        return not_ready(arrival.round.number)
    if arrival.key_damaged:
        return damaged(arrival.round.number)
    if held.key_set.hash == arrival.destination.key_set_hash:
        return None
    return Refusal(Reason.KEY_SET_DIFFERS, "sealed for other keys than this round's; fetch the round's keys again")


def damaged(number: int) -> Refusal:
    """Return the refusal of a round whose private key is known to open nothing, before anybody answers it in vain."""
    return Refusal(
        Reason.NOT_READY,
        f"the key of round {number} is damaged at the shuffler, so nothing that is sealed for it would open; ask "
        "again, or answer the next round",
        DAMAGED_SECONDS,
    )
