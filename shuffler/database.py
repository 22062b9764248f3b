"""Database: the SQLite file, opened with the settings that the promises rest on.

An acknowledgement needs `synchronous=FULL` (a commit is synced); erasure needs `secure_delete` (freed pages are
zeroed), `auto_vacuum` (they are given back) and the write-ahead log cut to nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from pathlib import Path

from hubbub.protos.stored import check_version
from hubbub.service import erasing
from hubbub.shuffler.records import StoreError

FILE_NAME = "shuffler.db"
LOCK_NAME = "lock"

VERSION = 2
"""`user_version` of stores that this code reads and writes."""

VACUUM_PAGES = 2000
"""Free pages given back at once: about 0.1 s, so that submissions to another round need not wait for all of it."""

OLDER = "run the version that wrote it until its tasks are over, and start new tasks in an empty folder"
"""What to do with a store of an older version."""

_SCHEMA = """
CREATE TABLE round (
    key INTEGER PRIMARY KEY,
    task BLOB NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    submissions INTEGER NOT NULL DEFAULT 0,
    closed_by TEXT,
    refusals TEXT NOT NULL DEFAULT '{}',
    reason TEXT NOT NULL DEFAULT '',
    private_key BLOB,
    shuffler_body BLOB,
    shuffler_signature BLOB,
    analyzer_body BLOB,
    analyzer_signature BLOB,
    UNIQUE (task, number)
) STRICT;
CREATE TABLE tally (
    task BLOB NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (task, number, name)
) STRICT, WITHOUT ROWID;
-- Blocks, one for each round in a commit: key is round << 32 | running number, so that a round is one range of keys.
CREATE TABLE known (key INTEGER PRIMARY KEY, entries BLOB NOT NULL) STRICT;
CREATE TABLE arrived (key INTEGER PRIMARY KEY, inners BLOB NOT NULL) STRICT;
-- key is round << 32 | query << 26 | block.
CREATE TABLE released (key INTEGER PRIMARY KEY, envelopes BLOB NOT NULL) STRICT;
-- key is round << 32 | query << 26.
CREATE TABLE batch (
    key INTEGER PRIMARY KEY,
    query INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    signature BLOB NOT NULL,
    committed INTEGER NOT NULL DEFAULT 0
) STRICT;
-- What each task has spent: a chain of digests, only ever added to.
CREATE TABLE ledger (
    task BLOB NOT NULL, place INTEGER NOT NULL, entry TEXT NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (task, place)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER ledger_is_not_shortened BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""


class Database:
    """The store's file in a folder (made with mode 0700): a connection to write, one to read, and the folder's lock.

    `connection` is the class of both connections.

    Raises:
        StoreError: where another process uses it, or another version wrote it; then nothing was touched.
    """

    def __init__(self, folder: Path, connection: type[sqlite3.Connection] = sqlite3.Connection) -> None:
        self.path = folder / FILE_NAME
        self._opened = contextlib.ExitStack()
        try:
            with self._opened:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._open(folder, connection)
                self._opened = self._opened.pop_all()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot use the store in {folder}: {error}; check the disk and who owns it") from error

    def _open(self, folder: Path, connection: type[sqlite3.Connection]) -> None:
        check_version(self.path, VERSION, "shuffler's store", StoreError, OLDER)
        self._opened.callback(os.close, _lock(folder / LOCK_NAME))
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self.writer = _connect(self.path, connection)
        self._opened.callback(self.writer.close)
        _prepare(self.writer)
        self.reader = _connect(self.path, connection)
        self._opened.callback(self.reader.close)
        self.reader.execute("PRAGMA query_only = ON")

    def shrink(self) -> bool:
        """Give some free pages back; return whether there are more."""
        # `execute` would step this statement once, which frees one page.
        self.writer.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        return bool(self.writer.execute("PRAGMA freelist_count").fetchone()[0])

    def rewrite(self) -> None:
        """Leave nothing of what was deleted in pages that other rows stand on; see `service.erasing`."""
        erasing.rewrite(self.writer)

    def cut_log(self) -> None:
        """Cut the write-ahead log to nothing: what was deleted is in no file any more.

        Raises:
            StoreError: where a reader held the log; nothing is lost, it may be called again.
        """
        busy, _, _ = self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError("the write-ahead log is in use and was not cut; it is tried again")

    def close(self) -> None:
        """Close the file and let the folder go."""
        self._opened.close()


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(f"{path.parent} is in use by another shuffler; stop it, or give this one its own") from error
    return descriptor


def _connect(path: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10, factory=factory)
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in a new file; cut the log that a killed process left, which may hold what was erased since."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):  # stood in the log alone
        raise StoreError(f"the store is of version {version}, this hubbub knows {VERSION}; use the one that wrote it")
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    connection.execute("PRAGMA wal_autocheckpoint = 4000").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
