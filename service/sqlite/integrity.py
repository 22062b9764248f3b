"""Checks that a store's file is intact: at every start as far as time allows, and in full for `--check-store`."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.sqlite_layout import Layout, changed_table, differing_tables
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
    """Check that pages, rows and indexes of the store in `path` are as its trees expect, if time allows.

    A file of more than `largest` bytes is not checked, and a warning is logged.

    The check finds truncation, exchanged pages, and overwrites in SQLite's own structures. `check_rows` compares rows
    with their checksums, and the callers compare what is signed with its signatures.

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
    with _in_time(connection, path, seconds):
        _raise_found(connection.execute("PRAGMA integrity_check(1)").fetchall(), path)


def check_rows(
    connection: sqlite3.Connection, path: Path, seconds: float = CHECK_SECONDS, largest: int = LARGEST_BYTES
) -> None:
    """Check that each row of the store in `path` has its checksum, if time allows; after `check_tables`.

    Raises:
        StoreError: naming the table with a row that differs.
        sqlite3.Error, OSError: as `check_whole` does.
    """
    if path.stat().st_size <= largest:  # `check_whole` has warned of a larger one
        with _in_time(connection, path, seconds):
            _raise_changed(connection, path)


def _raise_changed(connection: sqlite3.Connection, path: Path) -> None:
    try:
        table = changed_table(connection)
    except sqlite3.OperationalError as error:
        if _IN_FUNCTION not in str(error):
            raise
        # Python gives SQLite no cause; text that is not UTF-8 is the only one.
        raise damaged(StoreError("text that is not UTF-8"), path) from error
    if table is not None:
        raise damaged(StoreError(f"a row of {table} is not as it was written"), path)


_IN_FUNCTION = "user-defined function raised"


@contextlib.contextmanager
def _in_time(connection: sqlite3.Connection, path: Path, seconds: float) -> Iterator[None]:
    """Interrupt SQLite after so many seconds, and log that as a warning."""
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_INTERRUPT:
            raise
        _LOG.warning("the store was not looked over to its end: %s", f"{path}, within {seconds:g} s")
    finally:
        connection.set_progress_handler(None, 0)


def check_all(connection: sqlite3.Connection, path: Path) -> None:
    """Check all of the file, with its references and the checksums of its rows, without a time limit.

    Raises:
        StoreError: naming the damage that SQLite found.
    """
    _raise_found(connection.execute("PRAGMA integrity_check(1)").fetchall(), path)
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise damaged(StoreError("a row refers to a missing one"), path)
    _raise_changed(connection, path)


def check_tables(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    """Check that the store in `path` has the tables of its layout.

    Raises:
        StoreError: naming the tables that differ.
    """
    differing = ", ".join(differing_tables(connection, layout))
    if differing:
        raise damaged(StoreError(f"tables differ from those of its version: {differing:.200}"), path)


def _raise_found(rows: list[tuple[str]], path: Path) -> None:
    for (found,) in rows:
        if found != "ok":
            raise damaged(StoreError(" ".join(found.split())), path)
