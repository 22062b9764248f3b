"""The state file itself: made for its owner alone, durable at every commit, refused where it is of another version."""

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
"""How long to wait for another process that uses the same file."""

BUSY_PAUSE = 0.01
"""Seconds between two tries to open a file that another process is making."""

_MAKING = threading.Lock()
"""Held while a file is made: nobody in this process has it open when it is closed again."""

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
"""What a state file looks like."""


def open_state(path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open the state file, making it (mode 0600) where there is none; `factory` is the connection's class.

    Raises:
        StateError: where it is of another version or another program's; it is not touched then.
        OSError, sqlite3.Error: where it cannot be read or written.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    if version_of(path) not in (None, 0):
        check_version(path, STATE, StateError)
    with _MAKING:
        _make_file(path)
    while True:
        # Shared between threads, which State's lock lets in one at a time.
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
    """Make an empty file for its owner alone; one that exists is not opened: closing it would drop SQLite's locks."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _is_busy(error: BaseException) -> bool:
    """Whether another process was in the way. Changing to WAL does not wait for it, as SQLite's other steps do."""
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_ours(connection, path)
    bring_forward(connection, path, STATE, StateError)
    for setting in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}").fetchall()


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Return only if the file is empty or has a version, read at one moment: another process may be making it."""
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    version, tables = connection.execute(query).fetchone()
    if version == 0 and tables:
        raise StateError(f"{path} is not a file of this kind (state file); nothing was touched, name another place")
