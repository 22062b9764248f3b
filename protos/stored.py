"""Stored: whose a SQLite file is and of which version, read without SQLite, which may write beside what it opens.

Every store carries its version in the file's `user_version`. There is no migration so far: a store of another version
is refused before anything is touched. Whoever changes a layout raises its version, and either reads the old one or
leaves this refusal to say what to do.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from hubbub.protos.errors import HubbubError

_MAGIC = b"SQLite format 3\x00"
_VERSION_FIELD = slice(60, 64)
"""Where SQLite's file header holds `user_version`, big-endian."""

_HEADER_BYTES = 100


def check_version(path: Path, version: int, what: str, error: type[HubbubError], older: str) -> None:
    """Return only if a file is missing, empty, new, or of this version; `older` is what to do with an older one.

    A file of version 0 is new as long as it has no tables: making it may have been interrupted.

    Raises:
        error: saying what it is and what to do. The file was only read.
        OSError: where it cannot be read.
    """
    found = version_of(path)
    if found is None or found == version:
        return
    if found < 0 or (found == 0 and _has_tables(path)):
        raise error(f"{path} is no {what}; nothing was touched, name another place")
    refused = f"{path} ({what}) is of version {found}, this hubbub knows {version}; nothing was touched"
    if found > version:
        raise error(f"{refused}: install the newer hubbub that wrote it, or one newer than that")
    if found:
        raise error(f"{refused}: {older}")


def version_of(path: Path) -> int | None:
    """Return a file's `user_version`; None where there is none or it is empty, -1 where it is no database."""
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


def _has_tables(path: Path) -> bool:
    """Return whether the file itself, without its log, has any table; what cannot be read counts as one."""
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    try:
        return bool(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    except sqlite3.DatabaseError:
        return True
    finally:
        connection.close()
