"""The tables of enrollment: redeemed tickets, revoked devices, master keys.

None of this is linked to a submission: a round has pseudonyms, and only the round's key derives them from a device's
number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from hubbub.protos.messages import KeyState
from hubbub.protos.sqlite_layout import checksum_column
from hubbub.service.sqlite.secure_delete import pad_for_erasure, unpad
from hubbub.shuffler.records import MasterSecret, RedeemedTicket, Revoked

KEPT_SECONDS = 366 * 86_400
"""How long a device's number is kept after its ticket has expired: longer than rounds last."""

ADMISSION_TABLES = f"""
-- A ticket, by its device: a hash of the secret it was redeemed by, and the number drawn for the device.
CREATE TABLE ticket (
    device BLOB PRIMARY KEY, redeemed_by BLOB NOT NULL, number BLOB NOT NULL, expires INTEGER NOT NULL,
    {checksum_column("device", "redeemed_by", "number", "expires")}
) STRICT, WITHOUT ROWID;
CREATE TABLE revoked (device BLOB PRIMARY KEY, {checksum_column("device")}) STRICT, WITHOUT ROWID;
CREATE TABLE master (
    generation INTEGER PRIMARY KEY, secret BLOB NOT NULL, state TEXT NOT NULL, since INTEGER NOT NULL,
    {checksum_column("generation", "secret", "state", "since")}
) STRICT;
"""
"""The enrollment tables of every store."""


def masters(connection: sqlite3.Connection) -> list[MasterSecret]:
    """Return the master keys, oldest first."""
    rows = connection.execute("SELECT generation, secret, state, since FROM master ORDER BY generation").fetchall()
    return [MasterSecret(number, unpad(secret), KeyState(state), since) for number, secret, state, since in rows]


def add_master(connection: sqlite3.Connection, secret: bytes, state: KeyState, now: int) -> None:
    """Add a master key in that state, unless one has that state; its generation is one above all others."""
    held = masters(connection)
    if any(key.state is state for key in held):
        return
    generation = max((key.generation for key in held), default=0) + 1
    statement = "INSERT INTO master (generation, secret, state, since) VALUES (?, ?, ?, ?)"
    connection.execute(statement, (generation, pad_for_erasure(secret), state.value, now))


def activate(connection: sqlite3.Connection, now: int) -> None:
    """Activate the pending key and retire the active one; without a pending key, nothing changes."""
    if not any(key.state is KeyState.PENDING for key in masters(connection)):
        return
    for before, after in ((KeyState.ACTIVE, KeyState.RETIRED), (KeyState.PENDING, KeyState.ACTIVE)):
        statement = "UPDATE master SET state = ?, since = ? WHERE state = ?"
        connection.execute(statement, (after.value, now, before.value))


def forget(connection: sqlite3.Connection, now: int) -> None:
    """Destroy the retired keys, and the records of devices whose tickets expired more than `KEPT_SECONDS` ago.

    Until then a device keeps its number, so a later ticket gives it no second pseudonym in a round.
    """
    connection.execute("DELETE FROM master WHERE state = ?", (KeyState.RETIRED.value,))
    connection.execute("DELETE FROM ticket WHERE expires <= ?", (now - KEPT_SECONDS,))


def redeem(connection: sqlite3.Connection, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
    """Record tickets as redeemed unless they are; return the record of each, in order."""
    noted = connection.executemany(
        "INSERT INTO ticket (device, redeemed_by, number, expires) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(ticket.device, ticket.redeemed_by, ticket.number, ticket.expires) for ticket in tickets],
    )
    if noted.rowcount == len(tickets):
        # The usual case: all of them are new.
        return list(tickets)
    # The first record wins. The same device may bring a ticket that is valid longer, and then keeps its number.
    connection.executemany(
        "UPDATE ticket SET expires = max(expires, ?) WHERE device = ? AND redeemed_by = ?",
        [(ticket.expires, ticket.device, ticket.redeemed_by) for ticket in tickets],
    )
    query = "SELECT device, redeemed_by, number, expires FROM ticket WHERE device = ?"
    return [RedeemedTicket(*connection.execute(query, (ticket.device,)).fetchone()) for ticket in tickets]


def revoke(connection: sqlite3.Connection, devices: Collection[bytes]) -> None:
    """Revoke these devices."""
    statement = "INSERT INTO revoked (device) VALUES (?) ON CONFLICT DO NOTHING"
    connection.executemany(statement, [(each,) for each in devices])


def revoked(connection: sqlite3.Connection) -> Revoked:
    """Return the revoked devices, by the devices of tickets, and by the numbers of those that were redeemed."""
    devices = connection.execute("SELECT device FROM revoked").fetchall()
    numbers = connection.execute("SELECT number FROM ticket JOIN revoked USING (device)").fetchall()
    return Revoked(frozenset(device for (device,) in devices), frozenset(number for (number,) in numbers))


def redeemed(connection: sqlite3.Connection) -> int:
    """Return how many tickets are redeemed."""
    return int(connection.execute("SELECT count(*) FROM ticket").fetchone()[0])
