"""Checks that a store's file exists and is of the right kind, and creates new stores.

A missing store is never replaced silently: an empty one would have forgotten the spent budgets, the acknowledged
submissions, and the keys of open rounds. So creating a store is a separate step (`--create-store`), which refuses if
any file of a store is left. Opening refuses if there is no store.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.durable_files import sync_folder
from hubbub.protos.sqlite_layout import Layout, add_checksums, bring_forward, check_version, version_of
from hubbub.service.errors import StoreError, damaged, is_damage
from hubbub.service.sqlite.wal_guard import position_file_of

LOCK_NAME = "lock"

BESIDE = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps next to a database."""

_HOW_TO_GO_ON = (
    "mount its volume, or move its files back. Only if there never was a store here, create one: run the same "
    "command once with --create-store; if the store is lost, so are its tasks' ledgers: end the tasks, and start "
    "new ones in a new store"
)


def check_there(path: Path, layout: Layout) -> None:
    """Check that the store exists, is of this kind, and is of a readable version.

    Raises:
        StoreError: naming the problem and the remedy; nothing was created or changed.
        OSError: if the file cannot be read.
    """
    if not path.parent.is_dir():
        there = "is a file, not a folder" if path.parent.exists() else "is missing"
        raise StoreError(f"there is no {layout.what}: the folder {path.parent} {there}; {_HOW_TO_GO_ON}")
    if not path.exists():
        raise StoreError(f"there is no {layout.what}: {path} is missing{_rests(path)}; {_HOW_TO_GO_ON}")
    if not path.is_file():
        raise StoreError(f"{path} is not a file, so it is not the {layout.what}; name another folder, or move it away")
    check_version(path, layout, StoreError)
    # `create` makes a store atomically, so a store without tables is not one that is being created.
    if not version_of(path):
        holds = "has no tables" if path.stat().st_size else "is empty (0 bytes)"
        raise StoreError(
            f"{path} {holds}, so the {layout.what} was lost; keep the file in another folder, and {_HOW_TO_GO_ON}"
        )


def _rests(path: Path) -> str:
    left = [name for name in _beside(path) if path.with_name(name).exists()]
    return f", but {' and '.join(left)} of it {'is' if len(left) == 1 else 'are'} there" if left else ""


def _beside(path: Path) -> list[str]:
    return [*(f"{path.name}{ending}" for ending in BESIDE), position_file_of(path).name]


def create(folder: Path, file_name: str, layout: Layout) -> Path:
    """Create a new store in a folder, and the folder (mode 0700) if it is missing; return the store's file.

    The file is complete or absent, also after a crash.

    Raises:
        StoreError: if there is a store already, any file of one is left, or the folder cannot be used.
    """
    path = folder / file_name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before the lock file is made, and again under the lock, when no other process can create a store.
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
            f"{path} exists, so nothing was created. --create-store is for the first start only: remove it from the "
            f"command that starts the service, or, if the file is not the {layout.what}, move it away first"
        )
    for other in sorted(path.parent.iterdir()):
        # SQLite would apply an old log to a new database.
        if other.name in _beside(path):
            raise StoreError(f"{other} belongs to a store that is missing; restore the store, or move the file away")
        if other.suffix == ".db":
            raise StoreError(f"{other} exists already; use a separate folder for the {layout.what}")


def _make(path: Path, layout: Layout) -> None:
    partial = path.with_name(f"{path.name}.new")
    partial.unlink(missing_ok=True)
    try:
        # SQLite would create the file with the permissions of the umask.
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as connection:
            add_checksums(connection)
            # A property of the file that must be set before any table exists.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            bring_forward(connection, partial, layout, StoreError)
        partial.rename(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    # The file's name must also survive a crash of the machine.
    sync_folder(path.parent)


@contextlib.contextmanager
def locked(folder: Path, layout: Layout) -> Iterator[None]:
    """Lock a folder for this process during the block.

    Raises:
        StoreError: if another process has locked it, or everyone can write it.
    """
    _check_private(folder, layout)
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # The lock is the flock, not the file: the kernel releases it, however the process ends.
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


def _check_private(folder: Path, layout: Layout) -> None:
    """Check that not everyone can put files into a folder, or another file in the store's place."""
    # What a link leads to counts: a folder that exists already keeps its mode.
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & stat.S_IWOTH:
        raise StoreError(
            f"{folder} ({layout.what}) can be written by everyone (mode {mode:04o}), so anybody could put another "
            f"store there; run `chmod 700 {os.path.realpath(folder)}`, or name another folder"
        )


def unusable(path: Path, error: OSError | sqlite3.Error | UnicodeDecodeError) -> StoreError:
    """Return the error for a store, in the file `path`, that the file system or SQLite refuses."""
    if is_damage(error):
        return damaged(error, path)
    where = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return StoreError(f"cannot use the store in {path.parent}: {where}; {_remedy(path.parent)}")


LEAST_FREE = 1 << 20
"""Bytes without which a store cannot be opened: SQLite's own errors do not always say that the disk is full."""


def _remedy(folder: Path) -> str:
    """Return what to do about a store that the file system refuses."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        if disk.f_flag & os.ST_RDONLY:
            return "its disk is mounted read-only; mount it for writing, and start again"
        if disk.f_bavail * disk.f_frsize < LEAST_FREE:
            return "its disk is full; make room, and start again"
    return "check the disk, the folder's owner and its permissions"
