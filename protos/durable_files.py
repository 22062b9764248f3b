"""Writes files that survive a power cut, and lets one process at a time work in a folder.

A file is on the disk in two steps: its content (`synced_file`), then its name (`sync_folder`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial"
"""How the name of a file ends that is not whole yet."""

_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})
"""What is said of a folder that cannot be synced: by some network shares, or where an account may write, not read."""


class NoFolderLock(OSError):
    """A file system locks no folders, such as that of some network shares."""


def partial_path(path: Path) -> Path:
    """Return an unused name for what is to take a file's place, in the same folder.

    A file can be replaced atomically only within a file system.
    """
    return path.with_name(f".hubbub-{secrets.token_hex(8)}{PARTIAL}")


@contextlib.contextmanager
def synced_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Make a new file, which the block writes; then its content is on the disk. If that fails, there is no file.

    Raises:
        FileExistsError: if there is a file already; it stays.
        OSError: if it cannot be written.
    """
    # The mode is set when the file is made: before a later chmod, others could read it for a moment.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with removed_if_failed(path), os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)


@contextlib.contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Let the block write a file that takes the place of an earlier one, if any, once all of it is on the disk.

    If that fails, the earlier one stays. The name is on the disk, too, if the folder can be synced.
    """
    partial = partial_path(path)
    with removed_if_failed(partial):
        with synced_file(partial, mode) as file:
            yield file
        partial.replace(path)
    sync_folder(path.parent, required=False)


@contextlib.contextmanager
def removed_if_failed(path: Path) -> Iterator[None]:
    """Remove a file if the block fails: on a full disk, whoever tries again would leave one each time."""
    try:
        yield
    except BaseException as error:
        try:
            path.unlink(missing_ok=True)
        except OSError as other:
            error.add_note(f"{path} is left, as it could not be removed: {other}")
        raise


def sync_folder(folder: Path, *, required: bool = True) -> None:
    """Put the names in a folder on the disk; unless that is `required`, only if the folder can be synced.

    Raises:
        OSError: if it fails.
    """
    try:
        descriptor = _opened(folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if required or error.errno not in _NO_SYNC:
            raise


@contextlib.contextmanager
def locked_folder(folder: Path, *, wait: bool = True, required: bool = True) -> Iterator[int]:
    """Let one process at a time work in a folder; yield the folder's descriptor. A killed process leaves no lock.

    Files in it are replaced by new ones, so a lock of a file would not do. If no lock is `required`, nothing is locked
    on a file system that locks no folders.

    Raises:
        BlockingIOError: if another process works in it, and this one is not to `wait`.
        NoFolderLock: if the file system locks no folders.
        OSError: if there is no such folder, or it cannot be read.
    """
    # Imported late: the application of a device imports this module, also where there is no such lock.
    import fcntl

    descriptor = _opened(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            if required:
                raise NoFolderLock(error.errno, error.strerror) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    # Windows has no such flag, and opens no folders: EACCES.
    return os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
