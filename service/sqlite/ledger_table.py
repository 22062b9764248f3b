"""Stores the ledger in an append-only table; triggers of the database refuse every other change."""

from __future__ import annotations

import sqlite3

from hubbub.protos.sqlite_layout import checksum_column
from hubbub.service.ledger.charges import Charge, Charges, check_follows

LEDGER_TABLE = f"""
-- What each task has spent: a chain of digests, only ever added to.
CREATE TABLE ledger (
    task BLOB NOT NULL, position INTEGER NOT NULL, entry TEXT NOT NULL, digest TEXT NOT NULL,
    {checksum_column("task", "position", "entry", "digest")},
    PRIMARY KEY (task, position)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER ledger_is_not_shortened BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""
"""Part of the script of a store's layout."""


def insert_charges(connection: sqlite3.Connection, task_id: bytes, charges: Charges) -> None:
    """Add to a task's ledger.

    Raises:
        LedgerMoved: if the charges do not follow the stored ones; nothing was added.
    """
    if not charges:
        return
    (stored,) = connection.execute("SELECT count(*) FROM ledger WHERE task = ?", (task_id,)).fetchone()
    check_follows(stored, charges)
    connection.executemany(
        "INSERT INTO ledger (task, position, entry, digest) VALUES (?, ?, ?, ?)",
        [(task_id, charge.position, charge.entry, charge.digest) for charge in charges],
    )


def charges_of(connection: sqlite3.Connection, task_id: bytes) -> list[Charge]:
    """Return a task's ledger, oldest charge first."""
    rows = connection.execute("SELECT position, entry, digest FROM ledger WHERE task = ? ORDER BY position", (task_id,))
    return [Charge(*row) for row in rows]


def all_charges(connection: sqlite3.Connection) -> dict[bytes, list[Charge]]:
    """Return every task's ledger, oldest charge first, by the task's id."""
    found: dict[bytes, list[Charge]] = {}
    for task, *charge in connection.execute("SELECT task, position, entry, digest FROM ledger ORDER BY task, position"):
        found.setdefault(task, []).append(Charge(*charge))
    return found
