"""Stores the releases of each task in an append-only table of a SQLite store, like the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from hubbub.protos.identity.documents import canonical
from hubbub.protos.records.release_chain import Release, first_head, next_head, read_release
from hubbub.protos.sqlite_layout import checksum_column
from hubbub.protos.strict_json import read_json
from hubbub.service.errors import damage_in

CHAIN_TABLE = f"""
-- What was released of each task, in order, with the head after it: a chain of digests, only ever added to.
CREATE TABLE chain (
    task BLOB NOT NULL, position INTEGER NOT NULL, entry TEXT NOT NULL, head TEXT NOT NULL,
    {checksum_column("task", "position", "entry", "head")},
    PRIMARY KEY (task, position)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER chain_is_not_changed BEFORE UPDATE ON chain BEGIN SELECT RAISE(ABORT, 'the chain only grows'); END;
CREATE TRIGGER chain_is_not_shortened BEFORE DELETE ON chain BEGIN SELECT RAISE(ABORT, 'the chain only grows'); END;
"""
"""Part of the script of a store's layout."""


def releases_of(connection: sqlite3.Connection, task_id: bytes) -> list[Release]:
    """Return a task's releases, oldest first."""
    rows = connection.execute("SELECT entry FROM chain WHERE task = ? ORDER BY position", (task_id,))
    with damage_in("a release's"):
        return [read_release(read_json(entry)) for (entry,) in rows]


def last_of(connection: sqlite3.Connection, task_id: bytes) -> tuple[int, bytes]:
    """Return the number of a task's releases, and their head."""
    row = connection.execute(
        "SELECT position, head FROM chain WHERE task = ? ORDER BY position DESC LIMIT 1", (task_id,)
    ).fetchone()
    return (0, first_head(task_id)) if row is None else (row[0] + 1, bytes.fromhex(row[1]))


def insert_releases(connection: sqlite3.Connection, task_id: bytes, releases: Sequence[Release]) -> None:
    """Add to a task's releases."""
    position, head = last_of(connection, task_id)
    for number, release in enumerate(releases, position):
        head = next_head(head, release)
        entry = canonical(release.content()).decode()
        connection.execute(
            "INSERT INTO chain (task, position, entry, head) VALUES (?, ?, ?, ?)", (task_id, number, entry, head.hex())
        )


def all_chains(connection: sqlite3.Connection) -> Mapping[bytes, list[tuple[Release, bytes]]]:
    """Return every task's releases, oldest first, each with its stored head."""
    found: dict[bytes, list[tuple[Release, bytes]]] = {}
    with damage_in("a release's"):
        for task, entry, head in connection.execute("SELECT task, entry, head FROM chain ORDER BY task, position"):
            found.setdefault(task, []).append((read_release(read_json(entry)), bytes.fromhex(head)))
    return found
