"""Maintains a store while its service is stopped: checks all of it, or accepts the loss of its log."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.sqlite_layout import Layout, add_checksums
from hubbub.service.sqlite import wal_guard
from hubbub.service.sqlite.files import check_there, locked, unusable
from hubbub.service.sqlite.integrity import check_all


@contextlib.contextmanager
def _held(folder: Path, file_name: str, layout: Layout) -> Iterator[Path]:
    path = folder / file_name
    try:
        check_there(path, layout)
        with locked(folder, layout):
            yield path
    except (OSError, sqlite3.Error) as error:
        raise unusable(path, error) from error


def check_store_file(folder: Path, file_name: str, layout: Layout) -> Path:
    """Check all of a store with SQLite, without a time limit; return its file, which is not changed.

    Raises:
        StoreError: naming the damage, or why the store could not be checked.
    """
    with _held(folder, file_name, layout) as path:
        wal_guard.check_log(path)
        with contextlib.closing(wal_guard.reading(path)) as connection:
            add_checksums(connection)
            check_all(connection, path)
        return path


def accept_lost_log(folder: Path, file_name: str, layout: Layout) -> Path:
    """Allow a store to open without the commits of its lost log; return its file.

    Raises:
        StoreError: if nothing is known to be lost, or there is no store.
    """
    with _held(folder, file_name, layout) as path:
        wal_guard.forget(path)
        return path
