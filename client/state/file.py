"""Opening the state file: readable by its owner only, durable at every commit, refused where its version is unknown."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from pathlib import Path

from hubbub.client.errors import StateError
from hubbub.client.state.budget import TABLES as _BUDGET_TABLES
from hubbub.client.state.budget import charge_what_was_answered
from hubbub.client.state.enrollment import ENROLMENT_TABLES
from hubbub.client.state.successions import SUCCESSION_TABLE
from hubbub.protos.sqlite_versions import Layout, bring_forward, check_version, statements, version_of

BUSY_SECONDS = 30.0
"""Seconds to wait for another process that uses the same file."""

BUSY_PAUSE = 0.01
"""Seconds between two tries to open a file that another process is making."""

_OPENING = threading.Lock()
"""Held while a file is looked at, made and opened, and while a connection to it is closed."""

_OPEN: dict[int, tuple[int, int]] = {}
"""The file, as device and inode, of every connection of this process, by its `id`.

POSIX drops all locks that a process has on a file when any descriptor of it is closed. Another process would then take
the file for unused, and cut the log that this one goes on writing: what is written later is lost. So a file that this
process has open in SQLite is never opened beside it."""

_TABLES = """
CREATE TABLE round (
    number INTEGER PRIMARY KEY,
    task BLOB NOT NULL,
    round INTEGER NOT NULL,
    key_set BLOB,
    key_set_hash BLOB,
    over_at REAL NOT NULL,
    UNIQUE (task, round)
);
CREATE TABLE submission (
    number INTEGER PRIMARY KEY,
    round INTEGER NOT NULL REFERENCES round (number) ON DELETE CASCADE,
    device TEXT NOT NULL,
    id BLOB NOT NULL,
    reports BLOB,
    envelope BLOB,
    outcome TEXT,
    sealed INTEGER NOT NULL,
    UNIQUE (round, device),
    CHECK ((reports IS NOT NULL) + (envelope IS NOT NULL) + (outcome IS NOT NULL) = 1)
);
CREATE TABLE forgotten (task BLOB PRIMARY KEY, round INTEGER NOT NULL, uncounted INTEGER NOT NULL);
CREATE TABLE history (
    task BLOB NOT NULL,
    device TEXT NOT NULL,
    answered INTEGER NOT NULL,
    sealed INTEGER NOT NULL,
    PRIMARY KEY (task, device)
) WITHOUT ROWID;
CREATE TABLE opted_out (device TEXT PRIMARY KEY) WITHOUT ROWID;
"""
"""A submission is in one of three stages, and holds what that stage needs alone: `reports`, randomized and not sealed;
`envelope`, sealed from them; `outcome`. `sealed` stays 1 from the second stage on: it may have left the device."""

_MEMORY = """
CREATE TABLE memory (
    task BLOB NOT NULL,
    device TEXT NOT NULL,
    content TEXT NOT NULL,
    over_at REAL NOT NULL,
    PRIMARY KEY (task, device)
) WITHOUT ROWID;
"""
"""What a device keeps of a task from round to round, for questions over time: a JSON object by query."""


def _from_1(connection: sqlite3.Connection) -> None:
    """Version 1 had no reports, so every submission in it is sealed; what it forgot was not counted."""
    for table in ("round", "submission", "forgotten"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in statements(_TABLES):
        connection.execute(statement)
    connection.execute("INSERT INTO round SELECT number, task, round, key_set, key_set_hash, over_at FROM old_round")
    connection.execute(
        "INSERT INTO submission (number, round, device, id, envelope, outcome, sealed) "
        "SELECT number, round, device, id, envelope, outcome, 1 FROM old_submission"
    )
    # Which rounds up to the last forgotten one were answered is not known: at most all of them, from round 0.
    connection.execute("INSERT INTO forgotten SELECT task, round, round + 1 FROM old_forgotten")
    for table in ("submission", "round", "forgotten"):
        connection.execute(f"DROP TABLE old_{table}")


def _from_2(connection: sqlite3.Connection) -> None:
    """Version 2 knew no questions over time, so there is nothing to be kept of any."""
    for statement in statements(_MEMORY):
        connection.execute(statement)


def _with_budget(connection: sqlite3.Connection) -> None:
    """Version 3 counted rounds, and not what they cost."""
    for statement in statements(_BUDGET_TABLES):
        connection.execute(statement)
    charge_what_was_answered(connection)


def _with_enrolments(connection: sqlite3.Connection) -> None:
    """Version 5 knew tasks alone that take whoever comes, and identities that nothing follows."""
    for statement in statements(ENROLMENT_TABLES + SUCCESSION_TABLE):
        connection.execute(statement)


_MOMENT = "ALTER TABLE submission ADD COLUMN moment REAL;"
"""When a submission is to be sent (seconds since 1970); NULL where that is as soon as it can be."""


def _with_moment(connection: sqlite3.Connection) -> None:
    """Version 4 sent everything as soon as it could."""
    for statement in statements(_MOMENT):
        connection.execute(statement)


STATE = Layout(
    what="state file",
    version=6,
    older="use the program that wrote it until its rounds are over, then name another file",
    script=_TABLES + _MEMORY + _BUDGET_TABLES + _MOMENT + ENROLMENT_TABLES + SUCCESSION_TABLE,
    migrations={1: _from_1, 2: _from_2, 3: _with_budget, 4: _with_moment, 5: _with_enrolments},
)
"""The tables of a state file."""


def open_state(path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """Open the state file, making it (mode 0600) where there is none; `factory` is the connection's class.

    Raises:
        StateError: where it is of another version or another program's; it is not touched then.
        OSError, sqlite3.Error: where it cannot be read or written.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        connection = _connected(path, factory)
        try:
            _prepare(connection, path)
            return connection
        except BaseException as error:
            close_state(connection)
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(BUSY_PAUSE)


def close_state(connection: sqlite3.Connection) -> None:
    """Close a connection that `open_state` returned."""
    with _OPENING:
        connection.close()
        _OPEN.pop(id(connection), None)


def _connected(path: Path, factory: type[sqlite3.Connection]) -> sqlite3.Connection:
    with _OPENING:
        _make_file(path)
        found = path.stat()
        file = (found.st_dev, found.st_ino)
        # Version 0 is looked at later, through SQLite: another process may be making the file at this moment.
        if file not in _OPEN.values() and version_of(path) not in (None, 0):
            check_version(path, STATE, StateError)
        # Threads share the connection (check_same_thread=False); State's lock lets one in at a time.
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, factory=factory
        )
        _OPEN[id(connection)] = file
        return connection


def _make_file(path: Path) -> None:
    """Make an empty file that only its owner can read; one that exists is not even opened (see `_OPEN`)."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def why_unusable(path: Path, error: BaseException) -> str:
    """Say why the state file cannot be used, and what to do."""
    if _is_busy(error):
        return (
            f"the state file {path} has been in use by another program for {BUSY_SECONDS:g} s ({error}); nothing was "
            "stored: end that program, or try again"
        )
    return (
        f"cannot use the state file {path}: {error}; see that it is a file of this program, that its "
        "folder exists and is writable, and that the disk has room"
    )


def _is_busy(error: BaseException) -> bool:
    """Return whether another process was in the way: SQLite does not wait for it when it changes to WAL."""
    # An error of Python's own, of text that is not UTF-8, has no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_ours(connection, path)
    # secure_delete overwrites what is erased, also where a migration drops an old table.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    bring_forward(connection, path, STATE, StateError)
    # FULL: in WAL mode NORMAL may lose the last commits in a power failure, and with them the only copy of what was
    # sent; the answers would then be randomized a second time.
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}").fetchall()


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Return only if the file is empty or has a version."""
    # One statement reads both, as of one moment: another process may be making the tables.
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    version, tables = connection.execute(query).fetchone()
    if version == 0 and tables:
        raise StateError(f"{path} is not a file of this kind (state file); nothing was touched, name another place")
