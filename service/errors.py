"""Errors that every service's store raises, and what to do about each."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from hubbub.protos.errors import HubbubError


class StoreError(HubbubError):
    """The store could not do it, and did nothing: a full disk, a damaged or foreign file, or it was closed."""


_CHECK = "check its disk, and the service goes on by itself"
_FULL = "make room on its disk, and the service goes on by itself"
_READ_ONLY = "see that its disk is mounted for writing and the folder is the service's own; it goes on by itself"
_DAMAGED = (
    "keep the folder, do not repair it or put an old copy back; end its tasks, and start new ones in a new store "
    "(docs/operations.md, A store was damaged or lost)"
)
_CODES_OF_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_OF_SQLITE = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
}
_OF_SYSTEM = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
}


def as_store_error(error: Exception, path: Path | None = None) -> StoreError:
    """Return what a failure of the store in the file `path` is told as: the file, what went wrong, what to do."""
    if isinstance(error, StoreError):
        return error
    if is_damage(error):
        return damaged(error, path)
    which = "the store" if path is None else f"the store {path}"
    return StoreError(f"{which} could not be used: {error}; {_remedy(error)}")


def is_damage(error: BaseException) -> bool:
    """Return whether SQLite found a file damaged, which no other disk, owner or second try mends."""
    return isinstance(error, sqlite3.Error) and _code(error) in _CODES_OF_DAMAGE


def damaged(error: Exception, path: Path | None = None) -> StoreError:
    """Return the error for a store, in the file `path`, whose content cannot be read any more."""
    return StoreError(f"{'the store' if path is None else path} is damaged ({error}): {_DAMAGED}")


def _code(error: sqlite3.Error) -> int:
    # The lowest byte is the kind of failure, the others say where in SQLite it happened.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _remedy(error: Exception) -> str:
    if isinstance(error, sqlite3.Error):
        return _OF_SQLITE.get(_code(error), _CHECK)
    return _OF_SYSTEM.get(getattr(error, "errno", None) or 0, _CHECK)
