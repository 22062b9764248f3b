"""Opens the state file: readable by its owner only, durable at every commit, refused if its version is unknown."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sqlite3
import threading
import time
from pathlib import Path

from hubbub.client.errors import NEW_FILE, StateError
from hubbub.client.state.budget import BUDGET_TABLES
from hubbub.client.state.enrollment import ENROLLMENT_TABLES, SUCCESSION_TABLE
from hubbub.protos.errors import remedy_of
from hubbub.protos.sqlite_layout import (
    Layout,
    add_checksums,
    bring_forward,
    changed_table,
    check_version,
    checksum_column,
    differing_tables,
    version_of,
)

BUSY_SECONDS = 30.0
"""Seconds to wait for another process that uses the same file."""

BUSY_PAUSE = 0.01
"""Seconds between two tries to open a file that another process is making."""

_OPENING = threading.Lock()
"""Locked while a file is checked, created and opened, and while a connection to it is closed."""

_OPEN: dict[int, tuple[int, int]] = {}
"""The file, as device and inode, of every connection of this process, by the connection's `id`.

POSIX drops all locks that a process has on a file when any descriptor of it is closed. Another process would then treat
the file as unused, and truncate the log that this process still writes, so later writes would be lost. So a file that
this process has open in SQLite is never opened by other means."""

_OF_SUBMISSION = ("round", "device", "id", "reports", "envelope", "outcome", "sealed", "send_time")

_TABLES = f"""
CREATE TABLE round (
    key INTEGER PRIMARY KEY,
    task BLOB NOT NULL,
    number INTEGER NOT NULL,
    key_set BLOB,
    over_at REAL NOT NULL,
    {checksum_column("key", "task", "number", "key_set", "over_at")},
    UNIQUE (task, number)
);
CREATE TABLE submission (
    round INTEGER NOT NULL REFERENCES round (key) ON DELETE CASCADE,
    device TEXT NOT NULL,
    id BLOB NOT NULL,
    reports BLOB,
    envelope BLOB,
    outcome TEXT,
    sealed INTEGER NOT NULL,
    send_time REAL,
    {checksum_column(*_OF_SUBMISSION)},
    PRIMARY KEY (round, device),
    CHECK ((reports IS NOT NULL) + (envelope IS NOT NULL) + (outcome IS NOT NULL) = 1)
);
CREATE TABLE forgotten (task BLOB PRIMARY KEY, last INTEGER NOT NULL, {checksum_column("task", "last")});
CREATE TABLE history (
    task BLOB NOT NULL,
    device TEXT NOT NULL,
    answered INTEGER NOT NULL,
    sealed INTEGER NOT NULL,
    expired INTEGER NOT NULL,
    reported INTEGER NOT NULL DEFAULT 0,
    {checksum_column("task", "device", "answered", "sealed", "expired", "reported")},
    PRIMARY KEY (task, device)
) WITHOUT ROWID;
CREATE TABLE opted_out (device TEXT PRIMARY KEY, {checksum_column("device")}) WITHOUT ROWID;
CREATE TABLE memory (
    task BLOB NOT NULL,
    device TEXT NOT NULL,
    content TEXT NOT NULL,
    over_at REAL NOT NULL,
    {checksum_column("task", "device", "content", "over_at")},
    PRIMARY KEY (task, device)
) WITHOUT ROWID;
"""
"""A submission is in one of three stages, and stores only the data of that stage: `reports`, randomized and not sealed;
`envelope`, sealed from them; `outcome`. `sealed` stays 1 from the second stage on: the submission may have left the
device. It is sent at its `send_time` (seconds since 1970), or as soon as possible if that is NULL.

`forgotten` has each task's last forgotten round. `history` counts the forgotten rounds that each device answered;
`expired` are those without an outcome, of which `reported` were reported to the application.
`memory` is the state that a device keeps from round to round for longitudinal queries: a JSON object by query."""

STATE = Layout(
    what="state file",
    version=1,
    script=_TABLES + BUDGET_TABLES + ENROLLMENT_TABLES + SUCCESSION_TABLE,
)
"""The tables of a state file."""


def open_state(
    path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection, wait: float = math.inf
) -> sqlite3.Connection:
    """Open the state file, or create it (mode 0600) if it does not exist; `factory` is the connection's class.

    It waits for another process for at most `wait` seconds, and at most `BUSY_SECONDS`.

    Raises:
        StateError: if it is of another version or another program's; then it is not changed.
        OSError, sqlite3.Error: if it cannot be read or written.
    """
    wait = min(wait, BUSY_SECONDS)
    deadline = time.monotonic() + wait
    while True:
        connection = _connected(path, factory, wait)
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


def _connected(path: Path, factory: type[sqlite3.Connection], wait: float) -> sqlite3.Connection:
    with _OPENING:
        _make_file(path)
        found = path.stat()
        file = (found.st_dev, found.st_ino)
        # Version 0 is checked later, through SQLite: another process may be creating the file at this moment.
        if file not in _OPEN.values() and version_of(path) not in (None, 0):
            check_version(path, STATE, StateError)
        # Threads share the connection (check_same_thread=False); State's lock lets one in at a time.
        connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False, factory=factory)
        _OPEN[id(connection)] = file
        return connection


def _make_file(path: Path) -> None:
    """Create an empty file that only its owner can read; an existing file is not even opened (see `_OPEN`)."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def set_wait(connection: sqlite3.Connection, wait: float = math.inf) -> None:
    """Let a connection wait for other processes for at most `wait` seconds, and at most `BUSY_SECONDS`."""
    connection.execute(f"PRAGMA busy_timeout = {round(1000 * min(wait, BUSY_SECONDS))}").fetchall()


def why_busy(path: Path, wait: float, error: object) -> str:
    """Return a message: others have used the state file for `wait` seconds, or `BUSY_SECONDS` if that is less."""
    seconds = min(max(wait, 0.0), BUSY_SECONDS)
    return (
        f"the state file {path} has been in use by another program for {seconds:.2g} s ({error}); nothing was stored: "
        "end that program, or try again"
    )


def why_unusable(path: Path, error: BaseException, wait: float = math.inf) -> str:
    """Return a message: why the state file cannot be used, after `wait` seconds, and what to do."""
    if _is_busy(error):
        return why_busy(path, wait, error)
    if isinstance(error, UnicodeError) or _code_of(error) in _DAMAGED or _IN_FUNCTION in str(error):
        return _why_damaged(path, error)
    # First: for a name that is too long, the questions below would raise the same error again.
    if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        return f"cannot use the state file {path}: {error.strerror or error}; {remedy_of(error)}"
    if not path.parent.is_dir():
        return f"cannot use the state file {path}: its folder does not exist; make the folder"
    if path.is_symlink() and not path.exists():
        target = f"{os.path.realpath(path)}, where there is no file"
        return (
            f"cannot use the state file {path}: it is a link to {target}; make an empty file there, or name that file"
        )
    if path.is_dir():
        return f"cannot use the state file {path}: it is a folder; name a file in it"
    return (
        f"cannot use the state file {path}: {error}; check that its folder exists and is writable, and that the disk "
        "has room and works; if the file itself is damaged, "
        f"{NEW_FILE}"
    )


def _why_damaged(path: Path, error: object) -> str:
    return (
        f"the state file {path} is damaged ({error}); {NEW_FILE}: which rounds it answered, and what they cost, is "
        "then forgotten"
    )


_IN_FUNCTION = "user-defined function raised"
"""SQLite's error if a checksum is computed of text that is not UTF-8."""


def _is_busy(error: BaseException) -> bool:
    """Return whether another process had the file locked: SQLite does not wait for a lock when it changes to WAL."""
    return _code_of(error) == sqlite3.SQLITE_BUSY


def _code_of(error: BaseException) -> int:
    # A UnicodeError, from text that is not UTF-8, has no SQLite code.
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_ours(connection, path)
    # secure_delete overwrites erased data, also if a migration drops an old table.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    add_checksums(connection)
    bring_forward(connection, path, STATE, StateError)
    # FULL: in WAL mode NORMAL may lose the last commits in a power failure, and with them the only copy of sent
    # reports. The answers would then be randomized a second time.
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    _check_content(connection, path)


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Return only if the file is empty or has a version."""
    # One statement reads both consistently: another process may be creating the tables.
    query = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    version, tables = connection.execute(query).fetchone()
    if version == 0 and tables:
        raise StateError(f"{path} is no state file of hubbub; nothing was touched: name another file")


LARGEST_CHECKED_BYTES = 4 * 2**20
"""Size up to which a state file is checked when it is opened: 14 ms of CPU a mebibyte, as measured. A device's has some
kilobytes (1 ms); only that of a fleet of more than 10,000 devices is larger."""


def _check_content(connection: sqlite3.Connection, path: Path) -> None:
    """Return only if the file has the tables of its version, and each row is as it was written.

    Raises:
        StateError: if it is damaged.
    """
    if path.stat().st_size > LARGEST_CHECKED_BYTES:
        return
    differing = differing_tables(connection, STATE)
    if differing:
        raise StateError(_why_damaged(path, f"tables differ from those of its version: {', '.join(differing):.200}"))
    ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        raise StateError(_why_damaged(path, " ".join(found.split())))
    table = changed_table(connection)
    if table is not None:
        raise StateError(_why_damaged(path, f"a row of {table} is not as it was written"))
