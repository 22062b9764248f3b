"""Defines the error that every service's store raises, and names the remedy for each cause."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from hubbub.protos.errors import HubbubError, SignatureError


class StoreFault(StrEnum):
    """What a caller who is not the operator may know of a store's failure."""

    STORE = "store"
    """The store itself: its content is damaged, foreign or old, or it does what nobody foresaw."""
    DISK = "disk"
    """The disk refused to be read or written."""
    DATABASE = "database"
    """The database does not answer, or refuses."""
    STANDBYS = "standbys"
    """Fewer standbys follow than a change needs, or a standby has nothing to follow yet."""
    LEADER = "leader"
    """No process leads the rounds now, or another does."""
    PROCESS = "process"
    """A process of the service is gone, or stops."""


class StoreError(HubbubError):
    """The store failed and changed nothing: its disk is full, its file is damaged or foreign, or it was closed."""

    fault = StoreFault.STORE


def with_fault(error: StoreError) -> str:
    """Return an error's text with its fault in front, for another process of the service."""
    return f"{error.fault} {error}"


def parted(text: str) -> tuple[StoreFault | None, str]:
    """Return the fault and the text of another process's error; None and the whole text if there is no fault."""
    fault, _, rest = text.partition(" ")
    known = {each.value: each for each in StoreFault}.get(fault)
    return known, text if known is None else rest


class StoreDiskError(StoreError):
    """The disk refused to be read or written, and the store changed nothing."""

    fault = StoreFault.DISK


class StoreClosedError(StoreError):
    """The service is stopping, so the store takes no more work."""

    fault = StoreFault.PROCESS

    def __init__(self) -> None:
        super().__init__("the store is closed; the service is stopping")


class StoreAwayError(StoreError):
    """The database does not answer; an incident of its own says so, and how long it lasts."""

    fault = StoreFault.DATABASE


_CHECK = "check its disk; the service then continues by itself"
_FULL = "make room on its disk; the service then continues by itself"
_READ_ONLY = (
    "mount its disk for writing and make the service the owner of the folder; the service then continues by itself"
)
_DAMAGED = (
    "keep the folder, and do not repair it or restore an old copy; end its tasks and start new ones in a new store "
    "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
)
_NO_TEXT = "Could not decode to UTF-8"
"""The error of Python's sqlite3 for text that is not UTF-8 begins so; it has no error code."""

_CODES_OF_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_CODES_OF_DISK = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}
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
    """Return a StoreError that names the file `path`, the cause and the remedy."""
    if isinstance(error, StoreError):
        return error
    if is_damage(error):
        return damaged(error, path)
    which = "the store" if path is None else f"the store {path}"
    kind = StoreDiskError if is_of_the_disk(error) else StoreError
    return kind(f"{which} could not be used: {error}; {_remedy(error)}")


def is_of_the_disk(error: BaseException) -> bool:
    """Return whether the disk refused a read or a write, as far as the error shows it."""
    return isinstance(error, OSError) or (isinstance(error, sqlite3.Error) and _code(error) in _CODES_OF_DISK)


def is_damage(error: BaseException) -> bool:
    """Return whether SQLite found a file damaged: no other disk, owner or retry repairs that."""
    return isinstance(error, UnicodeDecodeError) or (
        isinstance(error, sqlite3.Error) and (_code(error) in _CODES_OF_DAMAGE or _is_no_text(error))
    )


def _is_no_text(error: sqlite3.Error) -> bool:
    return str(error).startswith(_NO_TEXT)


def damaged(error: Exception, path: Path | None = None) -> StoreError:
    """Return the error for a store, in the file `path`, whose content can no longer be read."""
    # Python's errors would quote the content of the row.
    is_no_text = isinstance(error, UnicodeDecodeError) or str(error).startswith(_NO_TEXT)
    what = "text that is not UTF-8" if is_no_text else error
    return StoreError(f"{'the store' if path is None else path} is damaged ({what}): {_DAMAGED}")


@contextlib.contextmanager
def damage_in(whose: str) -> Iterator[None]:
    """Report rows that no version writes as damage of the store; `whose` names the rows in the error.

    Raises:
        StoreError: if the block fails because a row does not read as it was written.
    """
    try:
        yield
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, SignatureError) as error:
        raise damaged(StoreError(f"{whose} row cannot be read, {type(error).__name__}")) from error


def _code(error: sqlite3.Error) -> int:
    # The lowest byte is the kind of failure; the others are SQLite's details of it.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _remedy(error: Exception) -> str:
    if isinstance(error, sqlite3.Error):
        return _OF_SQLITE.get(_code(error), _CHECK)
    return _OF_SYSTEM.get(getattr(error, "errno", None) or 0, _CHECK)
