"""What the state file holds of a device's ticket and credential, by shuffler and device.

A shuffler stands under the first of its identities that is known, so that an enrollment lasts when the identity
changes.

The secret that redeems a ticket is stored before the ticket is shown to anybody: a device that died in between, or got
no answer, comes again with the same secret and gets the same credential.

A credential is never discarded: a ticket that is to follow is stored with the credential that was got for it, together.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from hubbub.client.state.successions import first_shuffler
from hubbub.protos.enrollment.credentials import KEY_BYTES, Credential, parted
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.queries.randomizers.sampling import Random

ENROLLMENT_TABLES = """
CREATE TABLE enrollment (
    shuffler BLOB NOT NULL,
    device TEXT NOT NULL,
    ticket BLOB NOT NULL,
    secret BLOB NOT NULL,
    credential BLOB,
    key BLOB,
    PRIMARY KEY (shuffler, device),
    CHECK ((credential IS NULL) = (key IS NULL))
) WITHOUT ROWID;
"""
"""Part of the script of the state file's layout."""

Tickets = Callable[[str], bytes | None]
"""Returns the ticket of a device, None where it has none."""


@dataclass(frozen=True)
class StoredEnrollment:
    """A device's ticket, the secret that it is redeemed by (never printed), and its credential, once it has one."""

    ticket: bytes = field(repr=False)
    secret: bytes = field(repr=False)
    credential: Credential | None = None

    def lasts(self, now: float) -> bool:
        """Whether there is a credential that has not ended at `now` (seconds since 1970)."""
        if self.credential is None:
            return False
        _, expires, _, _ = parted(self.credential.id)
        return expires > now


def find_enrollments(
    connection: sqlite3.Connection, shuffler: bytes, devices: Collection[str]
) -> dict[str, StoredEnrollment]:
    """Return what is held of these devices' enrollments at a shuffler (its identity); others are left out."""
    rows = connection.execute(
        "SELECT device, ticket, secret, credential, key FROM enrollment "
        "WHERE shuffler = ? AND device IN (SELECT value FROM json_each(?))",
        (first_shuffler(connection, shuffler), json.dumps(list(devices))),
    )
    return {
        device: StoredEnrollment(ticket, secret, None if credential is None else Credential(credential, key))
        for device, ticket, secret, credential, key in rows
    }


def supersedes(ticket: Ticket, held: StoredEnrollment | None) -> bool:
    """Whether another ticket that a device is given takes the place of what is held of its enrollment.

    It does not where a ticket for the same device was redeemed that lasts as long and has the same signers: a renewed
    ticket stays, also where the file of the one before is put back.
    """
    if held is None or held.credential is None:
        return True
    redeemed = Ticket.decode(held.ticket)
    signed = {signer for signer, _ in ticket.signatures} <= {signer for signer, _ in redeemed.signatures}
    return not (ticket.device == redeemed.device and ticket.expires <= redeemed.expires and signed)


def take_tickets(
    connection: sqlite3.Connection, shuffler: bytes, tickets: Mapping[str, Ticket], random: Random
) -> None:
    """Keep tickets of devices that hold no credential, each with the secret that it is to be redeemed by.

    The secret of the earlier ticket redeems a later one: where it is of the same device, the shuffler would take it
    for a copy otherwise; and where it was a wrong one, the right one can still come again. A device that holds a
    credential keeps it, and the ticket it was got for.
    """
    first = first_shuffler(connection, shuffler)
    connection.executemany(
        "INSERT INTO enrollment (shuffler, device, ticket, secret) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "ticket = excluded.ticket WHERE credential IS NULL",
        [(first, device, ticket.encode(), random(KEY_BYTES)) for device, ticket in tickets.items()],
    )


def keep_credentials(
    connection: sqlite3.Connection,
    shuffler: bytes,
    before: Mapping[str, StoredEnrollment],
    got: Mapping[str, tuple[bytes, Credential]],
) -> None:
    """Keep the credentials that devices got, each with the ticket it was got for.

    What another process has made of an enrollment since it was found as it is `before` stays, unless that is the same.
    """
    first = first_shuffler(connection, shuffler)
    connection.executemany(
        "UPDATE enrollment SET ticket = ?, credential = ?, key = ? "
        "WHERE shuffler = ? AND device = ? AND ticket IN (?, ?)",
        [
            (ticket, credential.id, credential.key, first, device, ticket, before[device].ticket)
            for device, (ticket, credential) in got.items()
        ],
    )
