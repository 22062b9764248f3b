"""Opening the state file: readable by its owner only, durable at every commit, refused where its version is unknown."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from pathlib import Path

from hubbub.client.errors import StateError
from hubbub.protos.stored import Layout, bring_forward, check_version, version_of

BUSY_SECONDS = 30.0
"""Seconds to wait for another process that uses the same file."""

BUSY_PAUSE = 0.01
"""Seconds between two tries to open a file that another process is making."""

_MAKING = threading.Lock()
"""Held while a file is made. POSIX drops all locks that a process has on a file when any descriptor of it is closed, so
no thread of this process may have the file open in SQLite when the descriptor that made it is closed."""

STATE = Layout(
    what="state file",
    version=1,
    older="use the program that wrote it until its rounds are over, then name another file",
    script="""
CREATE TABLE round (
    number INTEGER PRIMARY KEY,
    task BLOB NOT NULL,
    round INTEGER NOT NULL,
    key_set BLOB NOT NULL,
    key_set_hash BLOB NOT NULL,
    over_at REAL NOT NULL,
    UNIQUE (task, round)
);
CREATE TABLE submission (
    number INTEGER PRIMARY KEY,
    round INTEGER NOT NULL REFERENCES round (number) ON DELETE CASCADE,
    device TEXT NOT NULL,
    id BLOB NOT NULL,
    envelope BLOB,
    outcome TEXT,
    UNIQUE (round, device)
);
CREATE TABLE forgotten (task BLOB PRIMARY KEY, round INTEGER NOT NULL);
""",
)
"""The tables of a state file."""


def open_state(path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open the state file, making it (mode 0600) where there is none; `factory` is the connection's class.

    Raises:
        StateError: where it is of another version or another program's; it is not touched then.
        OSError, sqlite3.Error: where it cannot be read or written.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    # Version 0 is looked at later, through SQLite: another process may be making the file at this moment.
    if version_of(path) not in (None, 0):
        check_version(path, STATE, StateError)
    with _MAKING:
        _make_file(path)
    while True:
        # Threads share the connection (check_same_thread=False); State's lock lets one in at a time.
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=factory
        )
        try:
            _prepare(connection, path)
            return connection
        except BaseException as error:
            connection.close()
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(BUSY_PAUSE)


def _make_file(path: Path) -> None:
    """Make an empty file that only its owner can read; one that exists is not even opened (see `_MAKING`)."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _is_busy(error: BaseException) -> bool:
    """Return whether another process was in the way: SQLite does not wait for it when it changes to WAL."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_ours(connection, path)
    bring_forward(connection, path, STATE, StateError)
    # FULL: in WAL mode NORMAL may lose the last commits in a power failure, and with them the only copy of what was
    # sent; the answers would then be randomized a second time. secure_delete overwrites what is erased.
    for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}").fetchall()


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Return only if the file is empty or has a version."""
    # One statement reads both, as of one moment: another process may be making the tables.
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    version, tables = connection.execute(query).fetchone()
    if version == 0 and tables:
        raise StateError(f"{path} is not a file of this kind (state file); nothing was touched, name another place")
