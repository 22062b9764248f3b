"""Decides whether a new ticket may follow a credential that is still valid, and warns if it may not.

A device with a credential keeps using it until it expires, even if the next ticket cannot be used.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterable

from hubbub.client.state.enrollment import StoredEnrollment, first_shuffler
from hubbub.protos.enrollment.credentials import NO_AUTHORITY, authority_tag, parted
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import MessageError, Unreachable
from hubbub.protos.refusals import Reason, Refusal

UnusedTickets = Refusal | Unreachable | MessageError
"""Why there is no credential for a ticket: it was refused, or there was no readable answer."""

_LOG = logging.getLogger("hubbub.client.tickets")


def objection(
    connection: sqlite3.Connection, ticket: Ticket, held: StoredEnrollment, needed: bytes | None
) -> Refusal | None:
    """Return why a readable ticket may not follow the enrollment `held`, whose credential is still valid.

    Return None if it may. `needed` is the second authority (32 bytes) that the current task names, if any. The shuffler
    is not asked: it must not see a ticket for another shuffler, and it would accept one without a countersignature.
    """
    redeemed = Ticket.decode(held.ticket)
    if first_shuffler(connection, ticket.shuffler) != first_shuffler(connection, redeemed.shuffler):
        return Refusal(Reason.BAD_TICKET, "the ticket is for another shuffler; ask the operator for a ticket")
    if held.credential is not None and _lacks_authority(ticket, redeemed, held.credential.id, needed):
        text = "the second authority signed the earlier ticket but not this one; get it countersigned"
        return Refusal(Reason.NOT_COUNTERSIGNED, text)
    return None


def _lacks_authority(ticket: Ticket, redeemed: Ticket, credential: bytes, needed: bytes | None) -> bool:
    """Return whether a new ticket would lose the second authority's signature, and so tasks that the device may answer.

    `credential` is the id of the credential that came from the ticket `redeemed`. It serves every task of the shuffler,
    so a second authority that another task may need counts too.
    """
    _, _, authority, _ = parted(credential)
    signed = {authority_tag(signer) for signer, _ in ticket.signatures}
    if authority == NO_AUTHORITY or authority in signed or authority_tag(needed) in signed:
        return False
    # A ticket for another device id admits the device again after this id was revoked: only this task's need counts.
    return authority == authority_tag(needed) or ticket.device == redeemed.device


class Warnings:
    """Logs new tickets that were not used, once for each ticket and reason; no line names a device or a ticket."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._told: set[tuple[bytes, str]] = set()

    def tell(self, untaken: Iterable[tuple[bytes, UnusedTickets]]) -> None:
        """Log one line for each reason why tickets were not used.

        `untaken` has each ticket's bytes, empty if they are unknown, with the reason.
        """
        by_reason: dict[str, list[UnusedTickets]] = {}
        for ticket, error in untaken:
            reason = error.reason.value if isinstance(error, Refusal) else type(error).__name__
            told = hashlib.sha256(ticket).digest(), reason
            if told not in self._told:
                self._told.add(told)
                by_reason.setdefault(reason, []).append(error)
        for reason, errors in by_reason.items():
            _LOG.warning(
                "task %s: new ticket not taken, %s (%d): %s; the credential of the earlier ticket is used until it "
                "expires, and the ticket is tried again with the next submission",
                *(self._task, reason, len(errors), errors[0]),
            )
