"""Finds rows of SQLite files that changed below SQLite, such as by a bit that a disk flipped.

SQLite checks the structure of a file, and not the values in it. A flipped bit in an amount that was spent, or in the
number of an enrolled device, would be read as another value, in silence. So the tables have a column with the CRC-32
of those columns that no signature, cipher or chain of digests covers. SQLite computes it with each write, and a start
compares it with the row.

A CRC-32 misses a changed row with a probability of 2⁻³², if the change does not depend on it. It has no key: whoever
changes a file on purpose computes it anew. Against that are signatures, chains of digests, and the other party.
"""

from __future__ import annotations

import re
import sqlite3
import struct
import zlib

COLUMN = "row_checksum"
"""The column with a row's checksum."""

_FUNCTION = "checksum_of_row"
_COVERED = re.compile(rf"{_FUNCTION}\(([^)]*)\)")

Stored = bytes | str | int | float | None


def checksum_column(*columns: str) -> str:
    """Return the definition of the column with the checksum of these columns of its table."""
    return f"{COLUMN} INTEGER NOT NULL GENERATED ALWAYS AS ({_FUNCTION}({', '.join(columns)})) STORED"


def checksum_of_row(*values: Stored) -> int:
    """Return the CRC-32 of values, each with its type and, where it varies, its length."""
    # One function without calls of others: it runs once for each row that is written.
    found = 0
    for value in values:
        if isinstance(value, int):
            found = zlib.crc32(b"i%d" % value, found)
        elif value is None:
            found = zlib.crc32(b"n", found)
        elif isinstance(value, float):
            found = zlib.crc32(b"f" + struct.pack(">d", value), found)
        elif isinstance(value, bytes):
            found = zlib.crc32(value, zlib.crc32(b"b%d:" % len(value), found))
        else:
            content = value.encode()
            found = zlib.crc32(content, zlib.crc32(b"t%d:" % len(content), found))
    return found


def add_checksums(connection: sqlite3.Connection) -> None:
    """Let a connection write tables with checksums: SQLite needs the function."""
    # Off, it would refuse functions of programs in tables. Our tables are compared with those of the version.
    connection.execute("PRAGMA trusted_schema = ON")
    connection.create_function(_FUNCTION, -1, checksum_of_row, deterministic=True)


def changed_table(connection: sqlite3.Connection) -> str | None:
    """Return the first table with a row that is not as it was written; None if there is none.

    The caller has checked that the tables are those of the version.

    Raises:
        sqlite3.Error: if the rows cannot be read, or the connection's progress handler interrupts.
    """
    tables = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE ? ORDER BY name"
    for name, script in connection.execute(tables, (f"%{_FUNCTION}%",)).fetchall():
        covered = _COVERED.search(script)
        if covered is None:
            continue
        differs = f"SELECT 1 FROM {name} WHERE {COLUMN} IS NOT {_FUNCTION}({covered[1]}) LIMIT 1"  # noqa: S608
        if connection.execute(differs).fetchone() is not None:
            return str(name)
    return None
