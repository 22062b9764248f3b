"""Stores the successions that devices of a state file have followed, and each device's ticket and credential.

A device that has followed a succession keeps to it. If a shuffler hides it later, or presents another successor of the
same identity, the device refuses the round's keys. Enrollments are stored by shuffler and device. A shuffler is named
there by its earliest known identity, so that an enrollment survives a change of the identity.

The secret that redeems a ticket is stored before the ticket is sent. If the device is killed in between, or gets no
answer, it tries again with the same secret and gets the same credential.

A credential is never discarded: a new ticket is stored only together with the credential that it gave.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hubbub.protos.enrollment.credentials import KEY_BYTES, Credential, parted
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.sqlite_layout import checksum_column
from hubbub.queries.randomizers.sampling import Random

SUCCESSION_TABLE = f"""
CREATE TABLE succession (
    role TEXT NOT NULL,
    old BLOB NOT NULL,
    new BLOB NOT NULL,
    document BLOB NOT NULL,
    {checksum_column("role", "old", "new", "document")},
    PRIMARY KEY (role, old)
) WITHOUT ROWID;
"""
"""Part of the script of the state file's layout."""

ENROLLMENT_TABLES = f"""
CREATE TABLE enrollment (
    shuffler BLOB NOT NULL,
    device TEXT NOT NULL,
    ticket BLOB NOT NULL,
    secret BLOB NOT NULL,
    credential BLOB,
    key BLOB,
    {checksum_column("shuffler", "device", "ticket", "secret", "credential", "key")},
    PRIMARY KEY (shuffler, device),
    CHECK ((credential IS NULL) = (key IS NULL))
);
"""
"""Part of the script of the state file's layout.

The table has row ids: without them SQLite keeps a quarter of a page at most with a row, and gives a page of its own to
the rest. A ticket of a long list is longer than that.
"""

Tickets = Callable[[str], bytes | None]
"""Returns the ticket of a device; None if it has none."""


@dataclass(frozen=True)
class StoredEnrollment:
    """A device's ticket, the secret that redeems it (never printed), and its credential, once it has one."""

    ticket: bytes = field(repr=False)
    secret: bytes = field(repr=False)
    credential: Credential | None = None

    def lasts(self, now: float) -> bool:
        """Return whether there is a credential that has not expired at `now` (seconds since 1970)."""
        if self.credential is None:
            return False
        _, expires, _, _ = parted(self.credential.id)
        return expires > now


def find_enrollments(
    connection: sqlite3.Connection, shuffler: bytes, devices: Collection[str]
) -> dict[str, StoredEnrollment]:
    """Return the stored enrollments of these devices at a shuffler (its identity); devices without one are left out."""
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
    """Return whether a ticket that a device is given replaces the ticket of its enrollment `held`.

    It does not if the redeemed ticket is for the same device, lasts at least as long and has at least the same signers.
    So a renewed ticket stays even if the file of the earlier ticket is restored.
    """
    if held is None or held.credential is None:
        return True
    redeemed = Ticket.decode(held.ticket)
    signed = {signer for signer, _ in ticket.signatures} <= {signer for signer, _ in redeemed.signatures}
    return not (ticket.device == redeemed.device and ticket.expires <= redeemed.expires and signed)


def take_tickets(
    connection: sqlite3.Connection, shuffler: bytes, tickets: Mapping[str, Ticket], random: Random
) -> None:
    """Store tickets of devices that have no credential, each with the secret that will redeem it.

    A later ticket is redeemed by the secret of the earlier one. If both are of the same device, the shuffler would
    otherwise take the later one for a copy. If the earlier one was wrong, the right one can still be redeemed. A device
    with a credential keeps it, and the ticket that it came from.
    """
    first = first_shuffler(connection, shuffler)
    # One call of the system for all devices of a fleet, which takes a tenth of one for each.
    secrets = random(KEY_BYTES * len(tickets))
    connection.executemany(
        "INSERT INTO enrollment (shuffler, device, ticket, secret) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "ticket = excluded.ticket WHERE credential IS NULL",
        [
            (first, device, ticket.encode(), secrets[place * KEY_BYTES : (place + 1) * KEY_BYTES])
            for place, (device, ticket) in enumerate(tickets.items())
        ],
    )


def keep_credentials(
    connection: sqlite3.Connection,
    shuffler: bytes,
    before: Mapping[str, StoredEnrollment],
    got: Mapping[str, tuple[bytes, Credential]],
) -> None:
    """Store the credentials that devices got, each with the ticket that it came from.

    `before` is the enrollment as it was read. If another process has stored a third ticket since, its enrollment stays.
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


# Successions


def kept_successions(connection: sqlite3.Connection) -> list[Succession]:
    """Return all successions that were followed, of all deployments."""
    return [Succession.decode(document) for (document,) in connection.execute("SELECT document FROM succession")]


def keep_successions(connection: sqlite3.Connection, successions: Iterable[Succession]) -> None:
    """Store successions that were checked.

    Raises:
        SuccessionError: if another successor of the same identity was followed before.
    """
    for each in successions:
        row = (each.role.value, each.old)
        found = connection.execute("SELECT new FROM succession WHERE role = ? AND old = ?", row).fetchone()
        if found is not None and found[0] != each.new:
            raise SuccessionError(f"{each.name} is a fork: this device followed another one; report it to the operator")
        connection.execute("INSERT OR IGNORE INTO succession VALUES (?, ?, ?, ?)", (*row, each.new, each.encode()))


def first_shuffler(connection: sqlite3.Connection, shuffler: bytes) -> bytes:
    """Return the earliest identity of a shuffler (32 bytes) that is known to lead to this one.

    Enrollments are stored under that identity, so that they survive a change of the shuffler's identity.
    """
    query = "SELECT old FROM succession WHERE role = ? AND new = ?"
    # Stored successions were checked to form no loop.
    while (found := connection.execute(query, (Role.SHUFFLER.value, shuffler)).fetchone()) is not None:
        shuffler = found[0]
    return shuffler
