"""Which new ticket takes nothing from a credential that still lasts, and the warning where one is not taken.

A device that holds a credential goes on with it until it ends, whatever becomes of the ticket that it is given next.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterable

from hubbub.client.state.enrollment import StoredEnrollment
from hubbub.client.state.successions import first_shuffler
from hubbub.protos.enrollment.credentials import NO_AUTHORITY, authority_tag, parted
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import MessageError, Unreachable
from hubbub.protos.refusals import Reason, Refusal

UnusedTickets = Refusal | Unreachable | MessageError
"""Why there is no credential for a ticket: it was refused, or nothing that can be read was answered."""

_LOG = logging.getLogger("hubbub.client.tickets")


def objection(
    connection: sqlite3.Connection, ticket: Ticket, held: StoredEnrollment, needed: bytes | None
) -> Refusal | None:
    """Return why a ticket that can be read does not follow what is held, a credential that lasts; None where it may.

    `needed` is the second authority (32 bytes) that the task at hand names, if it does. Nobody is asked: a ticket for
    another shuffler is not shown to this one, and one that was not countersigned this one would take.
    """
    redeemed = Ticket.decode(held.ticket)
    if first_shuffler(connection, ticket.shuffler) != first_shuffler(connection, redeemed.shuffler):
        return Refusal(Reason.BAD_TICKET, "the ticket is for another shuffler; ask the operator for a ticket")
    if held.credential is not None and _lacks_authority(ticket, redeemed, held.credential.id, needed):
        text = "the second authority that signed the ticket before has not signed this one; get it countersigned"
        return Refusal(Reason.NOT_COUNTERSIGNED, text)
    return None


def _lacks_authority(ticket: Ticket, redeemed: Ticket, credential: bytes, needed: bytes | None) -> bool:
    """Whether a device would lose its second authority's word by a new ticket, and with it tasks that it may answer.

    `credential` is the id of what was got for the ticket `redeemed`. It serves every task of the shuffler, so what
    another of them may need counts too.
    """
    _, _, authority, _ = parted(credential)
    signed = {authority_tag(signer) for signer, _ in ticket.signatures}
    if authority == NO_AUTHORITY or authority in signed or authority_tag(needed) in signed:
        return False
    # As another device it is let in again where this one was revoked, so only what this task needs counts.
    return authority == authority_tag(needed) or ticket.device == redeemed.device


class Warnings:
    """Warns of new tickets that were not taken, once of each ticket and reason; no line names a device or a ticket."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._told: set[tuple[bytes, str]] = set()

    def tell(self, untaken: Iterable[tuple[bytes, UnusedTickets]]) -> None:
        """Log one line for each reason for which tickets, given by their bytes where there are, were not taken."""
        by_reason: dict[str, list[UnusedTickets]] = {}
        for ticket, error in untaken:
            reason = error.reason.value if isinstance(error, Refusal) else type(error).__name__
            told = hashlib.sha256(ticket).digest(), reason
            if told not in self._told:
                self._told.add(told)
                by_reason.setdefault(reason, []).append(error)
        for reason, errors in by_reason.items():
            _LOG.warning(
                "task %s: new ticket not taken, %s (%d): %s; the credential of the ticket before is used while it "
                "lasts, and the ticket is tried again with the next submission",
                *(self._task, reason, len(errors), errors[0]),
            )
