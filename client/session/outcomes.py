"""Outcomes: what a device is told of a submission that is settled, from what its state file keeps of it."""

from __future__ import annotations

from hubbub.client.errors import NoRound
from hubbub.client.state.records import DONE, ERASED_HERE, Entry, Round
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Reason, Refusal


def erased_unsent(of: Round) -> NoRound:
    """Return the error where what was kept of a round was erased before it left the device."""
    return NoRound(f"the answers to round {of.number} were erased on this device before they were sent")


def settled(of: Round, entry: Entry) -> Receipt:
    """Return the receipt that a settled submission got.

    Raises:
        Refusal: for which it was discarded.
        NoRound: where it was erased on this device.
    """
    if entry.outcome == DONE:
        return Receipt(entry.submission_id, of.number)
    if entry.outcome == ERASED_HERE:
        raise NoRound(
            f"round {of.number} was answered before, and what was stored of it was erased here; answer the next"
        )
    raise discarded(of, entry)


def discarded(of: Round, entry: Entry) -> Refusal:
    """Return the refusal for which an entry was discarded."""
    reason = Reason(entry.outcome or Reason.TOO_LATE)
    return Refusal(
        reason, f"round {of.number} took nothing when this submission came; it was discarded, answer the next"
    )
