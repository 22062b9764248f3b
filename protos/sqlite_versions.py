"""Stored: the versions of SQLite files, and their migrations.

Every store carries the version of its layout in the file's `user_version`. Whoever changes a layout raises its version
and adds the migration from the version before. The version is read from the file's header without SQLite, which may
write files beside the one it opens: a file that is newer, or is not one of ours, is refused before anything is touched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from hubbub.protos.errors import HubbubError

_MAGIC = b"SQLite format 3\x00"
_VERSION_FIELD = slice(60, 64)
"""Where SQLite's file header holds `user_version`, big-endian."""

_APPLICATION_FIELD = slice(68, 72)
"""Where it holds `application_id`, big-endian."""

_HEADER_BYTES = 100

APPLICATIONS = {
    "shuffler's store": b"hubS",
    "shuffler's keyring": b"hubK",
    "hop's store": b"hubH",
    "analyzer's store": b"hubA",
    "state file": b"hubD",
}
"""The `application_id` of each kind of file, four letters. Files that were written before have none, 0."""

KINDS = {
    "known": "shuffler's store",
    "certificates": "analyzer's store",
    "submission": "state file",
    "private_keys": "hop's store",
}
"""What a file without an `application_id` is, by a table of it, the first of these that it has.

They are in every version of their kind; the analyzer's stores have the hop's table, too."""

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

    @property
    def application(self) -> int:
        """The `application_id` of its files; 0 where it has none of its own."""
        return int.from_bytes(APPLICATIONS.get(self.what, b""), "big")

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
    application = application_of(path)
    tables = _tables(path) if found >= 0 and application == 0 else set()
    if found < 0 or (found == 0 and tables != set()):
        raise error(f"{path} is not a file of this kind ({layout.what}); nothing was touched, name another place")
    kind = _kind(application, tables or set())
    if kind not in ("", layout.what):
        raise error(f"{path} is not the {layout.what} but the {kind}; nothing was touched, put each file in its place")
    if found:
        _check_known(path, found, layout, error)


def _kind(application: int, tables: Collection[str]) -> str:
    """Name what a file is, in words; nothing where it does not say."""
    if application == 0:
        found = next((kind for table, kind in KINDS.items() if table in tables), "")
    else:
        known = {int.from_bytes(letters, "big"): what for what, letters in APPLICATIONS.items()}
        found = known.get(application, f"file of another program (application id {application:#010x}), or damaged")
    return found


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
    if _version_in(connection) == layout.version and _application_in(connection) == layout.application:
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
    connection.execute(f"PRAGMA application_id = {layout.application}")
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


def _application_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def version_of(path: Path) -> int | None:
    """Return a file's `user_version`; None where the file is missing or empty, -1 where it is not a database."""
    header = _header(path)
    if not header:
        return None
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return -1
    return int.from_bytes(header[_VERSION_FIELD], "big")


def application_of(path: Path) -> int:
    """Return a file's `application_id`; 0 where it has none, or is no database."""
    return int.from_bytes(_header(path)[_APPLICATION_FIELD], "big")


def _header(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _tables(path: Path) -> set[str] | None:
    """Return the names of the tables in the file itself, without its log; None where they cannot be read."""
    # `immutable` keeps SQLite from making locks and logs beside a file that may not be ours.
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return None
    finally:
        connection.close()
