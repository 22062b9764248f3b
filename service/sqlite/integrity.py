"""Checks with SQLite that a store's file is intact: briefly at every start, and in full for `--check-store`."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from pathlib import Path

from hubbub.protos.sqlite_versions import Layout, statements
from hubbub.service.errors import StoreError, damaged

CHECK_SECONDS = 30.0
"""How long a start may take for reading the rows, which SQLite can interrupt."""

LARGEST_BYTES = 4 * 2**30
"""Size up to which a start checks a store: SQLite (3.40) does not interrupt its walk over the pages, so only the size
bounds it. At 2.4 s a GB, as measured on a busy machine, it takes 10 s; from a disk of 150 MB/s 30 s."""

_STEPS = 100_000
"""Steps of SQLite's virtual machine between two checks of the clock."""

_LOG = logging.getLogger(__name__)


def check_whole(
    connection: sqlite3.Connection, path: Path, seconds: float = CHECK_SECONDS, largest: int = LARGEST_BYTES
) -> None:
    """Check that the pages and rows of the store in `path` are in the places that its trees expect, if time allows.

    A file of more than `largest` bytes is not checked, and a warning is logged.

    The check finds truncation and exchanged pages, and most overwrites in SQLite's own structures. The callers compare
    the content of rows with its signatures.

    Raises:
        StoreError: naming the damage that SQLite found.
        sqlite3.Error: if it cannot read the file at all.
        OSError: if its size cannot be read.
    """
    size = path.stat().st_size
    if size > largest:
        _LOG.warning(
            "the store was not looked over: %s", f"{path}, {size} bytes, more than {largest}; --check-store does"
        )
        return
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        _raise_found(connection.execute("PRAGMA quick_check(1)").fetchall(), path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_INTERRUPT:
            raise
        _LOG.warning("the store was not looked over to its end: %s", f"{path}, within {seconds:g} s")
    finally:
        connection.set_progress_handler(None, 0)


def check_all(connection: sqlite3.Connection, path: Path) -> None:
    """Check all of the file, including its indexes and references, without a time limit.

    Raises:
        StoreError: naming the damage that SQLite found.
    """
    _raise_found(connection.execute("PRAGMA integrity_check(1)").fetchall(), path)
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise damaged(StoreError("a row refers to a missing one"), path)


def check_tables(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    """Check that the store in `path` has the tables and columns of its layout, which statements rely on.

    Triggers that make tables append-only are not checked here: the digests of those tables show a change.

    Raises:
        StoreError: naming the tables that differ.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as pattern:
        for statement in statements(layout.script):
            pattern.execute(statement)
        wanted, found = _described(pattern), _described(connection)
    if wanted != found:
        names = ", ".join(sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)))
        raise damaged(StoreError(f"tables differ from those of its version: {names:.200}"), path)


def _described(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return the columns of each table, by its name."""
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    columns = 'SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?)'
    return {name: connection.execute(columns, (name,)).fetchall() for (name,) in names}


def _raise_found(rows: list[tuple[str]], path: Path) -> None:
    for (found,) in rows:
        if found != "ok":
            raise damaged(StoreError(" ".join(found.split())), path)
