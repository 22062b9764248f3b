"""Fills a new or empty folder completely, or leaves no trace of a failed attempt."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.durable_files import locked_folder
from hubbub.protos.errors import HubbubError
from hubbub.service.runtime.tidying import noted_on


def check_new(root: Path) -> None:
    """Check that `root` does not exist, or is an empty folder.

    Raises:
        HubbubError: if it has content, or is a file.
    """
    if root.is_symlink() and not root.exists():
        raise HubbubError(f"{root} is a link to {root.readlink()}, which does not exist; name a folder")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise HubbubError(f"{root} is not an empty folder, and nothing is overwritten; name a new or empty one")


@contextlib.contextmanager
def new_folder(root: Path, keep: str = "") -> Iterator[None]:
    """Make the folder, or use it if it is empty. If the block fails, everything that was made is removed.

    `keep` names an entry that stays nevertheless, unless it is empty.

    Raises:
        HubbubError: if it has content, or is a file, or if another process fills it meanwhile.
    """
    check_new(root)
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(parents=True, exist_ok=True)
    with _alone_in(root):
        # Another process may have filled it since it was looked at.
        check_new(root)
        try:
            yield
        except BaseException as error:
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(root)  # a full disk names no file
            with noted_on(error):
                _empty(root, keep)
            # The nearest first: each is empty once those inside it are gone.
            for folder in missing:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise


@contextlib.contextmanager
def _alone_in(root: Path) -> Iterator[None]:
    """Keep other processes from filling the folder: one that fails would remove what this one made."""
    with contextlib.ExitStack() as stack:
        try:
            # Some network file systems lock no folders. There the second look alone tells of another process.
            descriptor = stack.enter_context(locked_folder(root, wait=False, required=False))
        except BlockingIOError as error:
            raise HubbubError(f"another command fills the folder {root} now; name another one") from error
        if not root.exists() or not os.path.samestat(os.fstat(descriptor), root.stat()):
            raise HubbubError(f"another command removed the folder {root} meanwhile; run this one again")
        yield


def _empty(root: Path, keep: str) -> None:
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path.name != keep or not any(path.iterdir()):
                shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
