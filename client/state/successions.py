"""Stores the successions of identities that the devices of a state file have followed, so that none is undone.

A device that has followed a succession keeps to it. If a shuffler hides it later, or presents another successor of the
same identity, the device refuses the round's keys.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.sqlite_checksums import checksum_column

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
