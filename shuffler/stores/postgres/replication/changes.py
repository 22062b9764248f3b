"""Copies the content of a keyring to another one: all of it first, then each change.

A change consists of the rows as they are after it, not of an operation: applying it twice has the same result.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hubbub.protos.cluster import KeyringRow
from hubbub.service.errors import StoreError


@dataclass(frozen=True)
class ReplicatedTable:
    """A table that is copied: the columns that identify a row, and all columns, those first."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    kinds: tuple[type, ...]
    """The type of each column's values."""


TABLES = {
    "progress": ReplicatedTable(("one",), ("one", "changes"), (int, int)),
    "secret": ReplicatedTable(
        ("task", "number"),
        ("task", "number", "storage", "private_key", "pseudonym_key"),
        (bytes, int, bytes, bytes, bytes),
    ),
    "ticket": ReplicatedTable(("device",), ("device", "redeemed_by", "number", "expires"), (bytes, bytes, bytes, int)),
    "revoked": ReplicatedTable(("device",), ("device",), (bytes,)),
    "master": ReplicatedTable(("generation",), ("generation", "secret", "state", "since"), (int, bytes, str, int)),
}
"""The whole content of a keyring except its id."""


def is_gone(row: KeyringRow) -> bool:
    """Return whether the row was deleted."""
    # No device is admitted again after a revocation, so a row of `revoked`, which has only its key, is never deleted.
    return len(row.values) < len(TABLES[row.table].columns)


def destroys(row: KeyringRow) -> bool:
    """Return whether this change may have destroyed data, of which no trace must be left."""
    return is_gone(row) or None in row.values


def watch(connection: sqlite3.Connection) -> None:
    """Make a connection record from now on which rows change, in memory, without their values."""
    connection.execute("PRAGMA temp_store = MEMORY").fetchall()
    connection.execute("CREATE TEMP TABLE changed (name TEXT, one, two, UNIQUE (name, one, two))")
    for name, table in TABLES.items():
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            keys = [f"{row}.{key}" for key in table.keys] + ["0"] * (2 - len(table.keys))
            noted = f"INSERT OR IGNORE INTO changed VALUES ('{name}', {', '.join(keys)})"  # noqa: S608
            connection.execute(f"CREATE TEMP TRIGGER {name}_{event} AFTER {event} ON main.{name} BEGIN {noted}; END")


def changed(connection: sqlite3.Connection) -> list[KeyringRow]:
    """Return the rows that changed since the last call, as they are now."""
    noted = connection.execute("SELECT name, one, two FROM temp.changed").fetchall()
    connection.execute("DELETE FROM temp.changed")
    found = []
    for name, *given in noted:
        keys = tuple(given[: len(TABLES[name].keys)])
        row = connection.execute(f"SELECT {_columns(name)} FROM {name} WHERE {_which(name)}", keys).fetchone()  # noqa: S608
        found.append(KeyringRow(name, keys if row is None else row))
    return found


def every(connection: sqlite3.Connection) -> Iterator[KeyringRow]:
    """Return all rows."""
    for name in TABLES:
        for row in connection.execute(f"SELECT {_columns(name)} FROM {name}"):  # noqa: S608
            yield KeyringRow(name, row)


def apply(connection: sqlite3.Connection, rows: Sequence[KeyringRow], *, anew: bool = False) -> None:
    """Make rows as given, in the caller's transaction; if `anew`, delete all others."""
    for name in TABLES if anew else ():
        connection.execute(f"DELETE FROM {name}")  # noqa: S608
    for row in rows:
        _statement(row)(connection)


def checked(row: KeyringRow) -> KeyringRow:
    """Return a row that another keyring sent.

    Raises:
        StoreError: if its table is unknown, or its columns or their types differ.
    """
    table = TABLES.get(row.table)
    if table is None or len(row.values) not in (len(table.keys), len(table.columns)) or not _has_types(table, row):
        raise StoreError("the leader sent rows that this version does not know; install the same hubbub on both")
    return row


def _has_types(table: ReplicatedTable, row: KeyringRow) -> bool:
    may_be_none = row.table == "secret"
    return all(
        type(value) is kind or (value is None and may_be_none and place >= len(table.keys))
        for place, (value, kind) in enumerate(zip(row.values, table.kinds, strict=False))
    )


def _statement(row: KeyringRow) -> Callable[[sqlite3.Connection], object]:
    name, table = row.table, TABLES[row.table]
    if is_gone(row):
        return lambda connection: connection.execute(f"DELETE FROM {name} WHERE {_which(name)}", row.values)  # noqa: S608
    rest = ", ".join(f"{each} = excluded.{each}" for each in table.columns[len(table.keys) :])
    marks = ", ".join("?" * len(table.columns))
    conflict = f"ON CONFLICT ({', '.join(table.keys)}) DO {f'UPDATE SET {rest}' if rest else 'NOTHING'}"
    statement = f"INSERT INTO {name} ({_columns(name)}) VALUES ({marks}) {conflict}"  # noqa: S608
    return lambda connection: connection.execute(statement, row.values)


def _columns(name: str) -> str:
    return ", ".join(TABLES[name].columns)


def _which(name: str) -> str:
    return " AND ".join(f"{key} = ?" for key in TABLES[name].keys)
