"""Signs single tickets, each a list of its own."""

from __future__ import annotations

from dataclasses import replace

from hubbub.protos.enrollment.tickets import Ticket, countersigned, signed
from hubbub.protos.identity.keys import Identity


def alone(ticket: Ticket, maker: Identity, *others: Identity) -> Ticket:
    """Return a ticket as its maker signs it, and the others countersign it."""
    (made,) = signed([ticket], [maker, *others])
    return made


def also_by(ticket: Ticket, other: Identity) -> Ticket:
    """Return a ticket that another authority has countersigned."""
    (made,) = countersigned([ticket], other)
    return made


def also_made_by(ticket: Ticket, other: Identity) -> Ticket:
    """Return a ticket that another party has signed as its maker, too."""
    return replace(ticket, signatures=ticket.head.signed_by(other).signatures)
