"""Is it there, and is it the one that is meant; and the one way in which a new one is made.

A store that is missing is never made in silence: an empty one in its place would have forgotten what was spent, what
was acknowledged, and the keys of the rounds under way. So making one is an act of its own (`--create-store`), which
refuses where anything of a store is left; and opening one refuses where there is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.sqlite_versions import Layout, bring_forward, check_version, version_of
from hubbub.service.errors import StoreError, damaged, is_damage
from hubbub.service.sqlite.wal_guard import position_file_of

LOCK_NAME = "lock"

BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database."""

_HOW_TO_GO_ON = (
    "Is a volume not mounted, or was a file moved? Only if there never was a store here, make one: run the same "
    "command once with --create-store. A lost store has lost what its tasks spent: end them, and start new ones in a "
    "new store"
)


def check_there(path: Path, layout: Layout) -> None:
    """Return only if the store is there, is of this kind, and is of a version that can be read.

    Raises:
        StoreError: saying what is there instead and how to go on; nothing was made or touched.
        OSError: if the file cannot be read.
    """
    if not path.parent.is_dir():
        there = "is a file, not a folder" if path.parent.exists() else "is missing"
        raise StoreError(f"there is no {layout.what}: the folder {path.parent} {there}. {_HOW_TO_GO_ON}")
    if not path.exists():
        raise StoreError(f"there is no {layout.what}: {path} is missing{_rests(path)}. {_HOW_TO_GO_ON}")
    if not path.is_file():
        raise StoreError(f"{path} is not a file, so it is not the {layout.what}; name another place, or move it away")
    check_version(path, layout, StoreError)
    # A store is made whole (`create`), so that one without tables is not one that is still being made.
    if not version_of(path):
        holds = "holds no tables" if path.stat().st_size else "is empty (0 bytes)"
        raise StoreError(f"{path} {holds}, the {layout.what} was lost: keep the file and move it away. {_HOW_TO_GO_ON}")


def _rests(path: Path) -> str:
    left = [name for name in _beside(path) if path.with_name(name).exists()]
    return f", while {' and '.join(left)} of it {'is' if len(left) == 1 else 'are'} there" if left else ""


def _beside(path: Path) -> list[str]:
    return [*(f"{path.name}{ending}" for ending in BESIDE), position_file_of(path).name]


def create(folder: Path, file_name: str, layout: Layout) -> Path:
    """Make a new store in a folder (made too where it is missing, with mode 0700); return its file.

    The file is there whole or not at all, also after a crash.

    Raises:
        StoreError: if there is a store already, anything is left of one, or the folder cannot be used.
    """
    path = folder / file_name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before the lock is made, and again once no other process can be making one.
        _check_free(path, layout)
        with locked(folder, layout):
            _check_free(path, layout)
            _make(path, layout)
    except (OSError, sqlite3.Error) as error:
        raise unusable(path, error) from error
    return path


def _check_free(path: Path, layout: Layout) -> None:
    if os.path.lexists(path):
        raise StoreError(
            f"{path} exists; nothing was made. --create-store is for a first start alone, leave it out of what starts "
            f"the service. If it is not the {layout.what}, move it away first"
        )
    for other in sorted(path.parent.iterdir()):
        # SQLite would play an old log into a new database.
        if other.name in _beside(path):
            raise StoreError(f"{other} is left of a store that is gone; put the store back, or move the file away")
        if other.suffix == ".db":
            raise StoreError(f"{other} is there already; give the {layout.what} a folder of its own")


def _make(path: Path, layout: Layout) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        # SQLite would make the file with the permissions that the umask leaves.
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            # A property of the file, which it must have before any table.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            bring_forward(connection, draft, layout, StoreError)
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    # The file's name, too, must be there after the machine dies.
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path, layout: Layout) -> Iterator[None]:
    """Hold a folder's lock, which one process at a time can.

    Raises:
        StoreError: if another process holds it.
    """
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # The lock is the flock, not the file: the kernel frees it however the process ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(
            f"{folder} ({layout.what}) is in use by another process; stop it, or name another folder"
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


def unusable(path: Path, error: OSError | sqlite3.Error | UnicodeDecodeError) -> StoreError:
    """Return the error for a store, in the file `path`, that the file system, or SQLite, refuses."""
    if is_damage(error):
        return damaged(error, path)
    where = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return StoreError(
        f"cannot use the store in {path.parent}: {where}; check the disk, its owner, and who may write there"
    )
