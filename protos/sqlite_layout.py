"""The layouts of SQLite files: their versions, how they are migrated, and checksums of their rows.

Every store has the version of its layout in the file's `user_version`, and its kind in `application_id`. A change of a
layout increments its version, and adds a migration from the previous one. Both numbers are read from the file's header
without SQLite, which may write other files next to the opened one. So a newer or foreign file is refused before
anything is changed.

SQLite checks the structure of a file, and not the values in it. A flipped bit in an amount that was spent, or in the
number of an enrolled device, would be read as another value, in silence. So the tables have a column with the CRC-32
of those columns that no signature, cipher or chain of digests covers. SQLite computes it with each write, and a start
compares it with the row.

A CRC-32 misses a changed row with a probability of 2⁻³², if the change does not depend on it. It has no key: whoever
changes a file on purpose computes it anew. Against that are signatures, chains of digests, and the other party.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from hubbub.protos.errors import HubbubError

_MAGIC = b"SQLite format 3\x00"
_VERSION_FIELD = slice(60, 64)
"""Position of `user_version` in SQLite's file header, big-endian."""

_APPLICATION_FIELD = slice(68, 72)
"""Position of `application_id`, big-endian."""

_HEADER_BYTES = 100

APPLICATIONS = {
    "shuffler's store": b"hubS",
    "shuffler's keyring": b"hubK",
    "hop's store": b"hubH",
    "analyzer's store": b"hubA",
    "analyzer's keyring": b"hubR",
    "state file": b"hubD",
}
"""The `application_id` of each kind of file, four letters."""

_KINDS = {int.from_bytes(letters, "big"): what for what, letters in APPLICATIONS.items()}

CHECKSUM_COLUMN = "row_checksum"
"""The column with a row's checksum."""

_FUNCTION = "checksum_of_row"
_COVERED = re.compile(rf"{_FUNCTION}\(([^)]*)\)")

Stored = bytes | str | int | float | None

Migration = Callable[[sqlite3.Connection], None]
"""Changes the tables from one version to the next, inside a transaction that the caller begins and ends.

It runs single statements with `execute`: `executescript` would commit the transaction first.
"""


@dataclass(frozen=True)
class Layout:
    """A store's tables: `what` names the store in messages, `script` creates the tables of this `version`.

    Each of the `migrations` leads from the version that is its key to the next.

    Raises:
        ValueError: if a migration is missing.
    """

    what: str
    version: int
    script: str
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.migrations) != set(range(1, self.version)):
            raise ValueError(f"{self.what}: there must be one migration from each version below {self.version}")

    @property
    def application(self) -> int:
        """The `application_id` of its files."""
        return int.from_bytes(APPLICATIONS[self.what], "big")


def check_version(path: Path, layout: Layout, error: type[HubbubError]) -> None:
    """Check that a file is missing, empty, new, of this version, or of one that can be migrated.

    A file of version 0 without tables is new: an earlier start may have been interrupted while it made the file.

    Raises:
        error: naming the kind of file and the remedy. The file was only read.
        OSError: if it cannot be read.
    """
    version = version_of(path)
    if version is None:
        return
    application = application_of(path)
    if version == 0 and application == 0 and _has_no_tables(path):
        return
    if version < 1 or application == 0:
        raise error(f"{path} is not a file of this kind ({layout.what}); nothing was touched: name another place")
    if application != layout.application:
        of_another = f"file of another program (application id {application:#010x}), or damaged"
        kind = _KINDS.get(application, of_another)
        raise error(f"{path} is not the {layout.what} but the {kind}; nothing was touched: put each file in its place")
    _check_known(path, version, layout, error)


def _check_known(path: Path, version: int, layout: Layout, error: type[HubbubError]) -> None:
    if version > layout.version:
        raise error(
            f"{path} ({layout.what}) is of version {version}, but this hubbub knows {layout.version}; nothing was "
            "touched: install the hubbub that wrote it, or one newer than that"
        )


def bring_forward(connection: sqlite3.Connection, path: Path, layout: Layout, error: type[HubbubError]) -> int:
    """Create the tables of a new file, or migrate an older one to this version; return the version that was found.

    All of it is one transaction: after a crash in between, or a failed migration, the file is unchanged.

    Raises:
        error: if the file's write-ahead log has an unknown version, which the header does not show yet; nothing was
            changed.
        sqlite3.Error: if a statement fails; nothing was changed.
    """
    if _version_in(connection) == layout.version:
        return layout.version
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another process may have migrated the file meanwhile.
        found = _version_in(connection)
        _check_known(path, found, layout, error)
        if found == 0:
            connection.execute(f"PRAGMA application_id = {layout.application}")
            for statement in statements(layout.script):
                connection.execute(statement)
        for version in range(found or layout.version, layout.version):
            layout.migrations[version](connection)
        connection.execute(f"PRAGMA user_version = {layout.version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found


def statements(script: str) -> Iterator[str]:
    """Yield a script's statements one by one; a trigger with the statements inside it is one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def differing_tables(connection: sqlite3.Connection, layout: Layout) -> list[str]:
    """Return the tables and indexes that are not as the layout makes them: statements and checksums rely on them.

    Triggers that make tables append-only are not compared: the digests of those tables show a change.
    """
    found = dict(connection.execute(_MADE_BY).fetchall())
    wanted = _made_by(layout.script)
    # A damaged name may be of any type.
    return sorted(str(name) for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))


_MADE_BY = "SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite_stat%'"


@functools.cache
def _made_by(script: str) -> dict[str, str | None]:
    with contextlib.closing(sqlite3.connect(":memory:")) as pattern:
        add_checksums(pattern)
        for statement in statements(script):
            pattern.execute(statement)
        return dict(pattern.execute(_MADE_BY).fetchall())


def _version_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def version_of(path: Path) -> int | None:
    """Return a file's `user_version`; None if the file is missing or empty, -1 if it is not a database."""
    header = _header(path)
    if not header:
        return None
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return -1
    return int.from_bytes(header[_VERSION_FIELD], "big")


def application_of(path: Path) -> int:
    """Return a file's `application_id`; 0 if it has none, or is no database."""
    return int.from_bytes(_header(path)[_APPLICATION_FIELD], "big")


def _header(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return b""


def _has_no_tables(path: Path) -> bool:
    """Return whether the file itself, without its log, is a database without tables."""
    # `immutable` keeps SQLite from creating locks and logs next to a file that may not be ours.
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table'").fetchone() is None
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False
    finally:
        connection.close()


def checksum_column(*columns: str) -> str:
    """Return the definition of the column with the checksum of these columns of its table."""
    return f"{CHECKSUM_COLUMN} INTEGER NOT NULL GENERATED ALWAYS AS ({_FUNCTION}({', '.join(columns)})) STORED"


def checksum_of_row(*values: Stored) -> int:
    """Return the CRC-32 of values, each with its type and, where it varies, its length."""
    # One function without calls of others: it runs once for each row that is written.
    found = 0
    for value in values:
        if isinstance(value, int):
            found = zlib.crc32(b"i%d" % value, found)
        elif value is None:
            found = zlib.crc32(b"n", found)
        elif isinstance(value, float):
            found = zlib.crc32(b"f" + struct.pack(">d", value), found)
        elif isinstance(value, bytes):
            found = zlib.crc32(value, zlib.crc32(b"b%d:" % len(value), found))
        else:
            content = value.encode()
            found = zlib.crc32(content, zlib.crc32(b"t%d:" % len(content), found))
    return found


def add_checksums(connection: sqlite3.Connection) -> None:
    """Let a connection write tables with checksums: SQLite needs the function."""
    # Off, it would refuse functions of programs in tables. Our tables are compared with those of the version.
    connection.execute("PRAGMA trusted_schema = ON")
    connection.create_function(_FUNCTION, -1, checksum_of_row, deterministic=True)


def changed_table(connection: sqlite3.Connection) -> str | None:
    """Return the first table with a row that is not as it was written; None if there is none.

    The caller has checked that the tables are those of the version.

    Raises:
        sqlite3.Error: if the rows cannot be read, or the connection's progress handler interrupts.
    """
    tables = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE ? ORDER BY name"
    for name, script in connection.execute(tables, (f"%{_FUNCTION}%",)).fetchall():
        covered = _COVERED.search(script)
        if covered is None:
            continue
        differs = f"SELECT 1 FROM {name} WHERE {CHECKSUM_COLUMN} IS NOT {_FUNCTION}({covered[1]}) LIMIT 1"  # noqa: S608
        if connection.execute(differs).fetchone() is not None:
            return str(name)
    return None
