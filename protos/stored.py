"""Stored: the versions of SQLite files, and their migrations.

Every store carries the version of its layout in the file's `user_version`. Whoever changes a layout raises its version
and adds the migration from the version before. The version is read from the file's header without SQLite, which may
write files beside the one it opens: a file that is newer, or is not one of ours, is refused before anything is touched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from hubbub.protos.errors import HubbubError

_MAGIC = b"SQLite format 3\x00"
_VERSION_FIELD = slice(60, 64)
"""Where SQLite's file header holds `user_version`, big-endian."""

_HEADER_BYTES = 100

KINDS = {"known": "shuffler's store", "certificates": "analyzer's store", "submission": "state file"}
"""What a file is, by a table that this kind alone has, in every version: versions say nothing about the kind."""

Migration = Callable[[sqlite3.Connection], None]
"""Changes the tables from one version to the next, inside a transaction that the caller begins and ends.

It runs single statements with `execute`: `executescript` would commit the transaction first.
"""


@dataclass(frozen=True)
class Layout:
    """A store's tables: `what` names the store in messages, `script` makes the tables of this `version`.

    Each of the `migrations` leads from the version that is its key to the next. `older` tells people what to do with a
    store that is too old for them.
    """

    what: str
    version: int
    script: str
    older: str
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    def leads_from(self, version: int) -> bool:
        """Return whether a store of that version is of this version or can be brought forward to it."""
        return version <= self.version and all(step in self.migrations for step in range(version, self.version))


def check_version(path: Path, layout: Layout, error: type[HubbubError]) -> None:
    """Return only if a file is missing, empty, new, of this version, or of one that can be brought forward.

    A file of version 0 without tables is new: an earlier start may have been interrupted as it made the file.

    Raises:
        error: saying what the file is and what to do. The file was only read.
        OSError: where it cannot be read.
    """
    found = version_of(path)
    if found is None:
        return
    tables = _tables(path) if found >= 0 else set()
    if found < 0 or (found == 0 and tables != set()):
        raise error(f"{path} is not a file of this kind ({layout.what}); nothing was touched, name another place")
    for kind in {KINDS[table] for table in KINDS.keys() & (tables or set())} - {layout.what}:
        raise error(f"{path} is not the {layout.what} but the {kind}; nothing was touched, put each file in its place")
    if found:
        _check_known(path, found, layout, error)


def _check_known(path: Path, found: int, layout: Layout, error: type[HubbubError]) -> None:
    refused = f"{path} ({layout.what}) is of version {found}, this hubbub knows {layout.version}; nothing was touched"
    if found > layout.version:
        raise error(f"{refused}: install the newer hubbub that wrote it, or one newer than that")
    if not layout.leads_from(found):
        raise error(f"{refused}: {layout.older}")


def bring_forward(connection: sqlite3.Connection, path: Path, layout: Layout, error: type[HubbubError]) -> int:
    """Make the tables of a new file, or bring an older one to this version; return the version that was found.

    All of it is one transaction: after a crash in between, or a migration that fails, the file is as it was.

    Raises:
        error: where the file's write-ahead log holds a version that cannot be brought forward, which the header does
            not show yet; nothing was changed.
        sqlite3.Error: where a statement fails; nothing was changed.
    """
    if _version_in(connection) == layout.version:
        return layout.version
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have brought the file forward since.
        found = _version_in(connection)
        _bring(connection, path, found, layout, error)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found


def _bring(connection: sqlite3.Connection, path: Path, found: int, layout: Layout, error: type[HubbubError]) -> None:
    if found == layout.version:
        return
    if found == 0:
        for statement in statements(layout.script):
            connection.execute(statement)
    else:
        _check_known(path, found, layout, error)
        for step in range(found, layout.version):
            layout.migrations[step](connection)
    connection.execute(f"PRAGMA user_version = {layout.version}")


def statements(script: str) -> Iterator[str]:
    """Yield a script's statements one by one; a trigger with the statements inside it is one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _version_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def version_of(path: Path) -> int | None:
    """Return a file's `user_version`; None where the file is missing or empty, -1 where it is not a database."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None
    if not header:
        return None
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return -1
    return int.from_bytes(header[_VERSION_FIELD], "big")


def _tables(path: Path) -> set[str] | None:
    """Return the names of the tables in the file itself, without its log; None where they cannot be read."""
    # `immutable` keeps SQLite from making locks and logs beside a file that may not be ours.
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()
