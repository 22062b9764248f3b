"""Reads and writes files of the command line, so that every error names its file.

A file is written completely or not at all: an earlier file is only replaced by one that is complete on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from hubbub.deploy.errors import NotWritten, OutputLost
from hubbub.protos.durable_files import locked_folder, replacing
from hubbub.protos.errors import HubbubError, SignatureError, TaskError, UsageError
from hubbub.protos.identity.formats import FEED_ENTRY, SUCCESSION, Kind
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft
from hubbub.service.runtime.tidying import noted_on, tidied

T = TypeVar("T")

_DATA_ENDINGS = frozenset({".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx"})
"""Endings of files that no task has."""


def draft_in(path: Path) -> Draft:
    """Return the draft in a TOML file.

    Raises:
        TaskError: if it has none, naming the file, the line and the remedy.
        OSError: if it cannot be read.
    """
    content = path.read_bytes()
    with naming(path):
        try:
            return read_draft(content.decode("utf-8-sig"))  # editors of Windows write a byte order mark
        except (TaskError, UnicodeDecodeError) as error:
            if _is_toml(content) or (other := _no_draft(path, content)) is None:
                raise
            raise TaskError(f"{other}; give the task as written by hand, a .toml file") from error


def _no_draft(path: Path, content: bytes) -> str | None:
    """Return what a file is that is no draft; None if it may be one with a fault."""
    try:
        SignedTask.decode(content)
        return "a planned task"
    except HubbubError:
        return "a file of data" if _DATA_ENDINGS.intersection(path.suffixes) else None


def signed_task_in(path: Path) -> SignedTask:
    """Return the task in a file that `hubbub plan` wrote; its signatures are still to be checked.

    Raises:
        TaskError: if it has none, naming the file.
        OSError: if it cannot be read.
    """
    content = path.read_bytes()
    with naming(path):
        try:
            return SignedTask.decode(content)
        except SignatureError as error:
            if not _is_toml(content):
                raise
            remedy = "plan it with `hubbub plan DRAFT.toml --out TASK.json`"
            raise TaskError(f"a draft, not a planned task; {remedy}") from error


def _is_toml(content: bytes) -> bool:
    try:
        return bool(tomllib.loads(content.decode("utf-8-sig")))
    except (UnicodeDecodeError, ValueError, RecursionError):
        return False


def succession_in(path: Path) -> Succession | None:
    """Return the succession of identities in a file; None if it has something else.

    Raises:
        TaskError: if it is a succession that cannot be read, naming the file.
        OSError: if it cannot be read.
    """
    return _document_in(path, SUCCESSION, Succession.decode)


def feed_entry_in(path: Path) -> FeedEntry | None:
    """Return the entry of a feed in a file; None if it has something else.

    Raises:
        TaskError: if it is an entry that cannot be read, naming the file.
        OSError: if it cannot be read.
    """
    return _document_in(path, FEED_ENTRY, FeedEntry.decode)


def _document_in(path: Path, kind: Kind, decode: Callable[[bytes], T]) -> T | None:
    content = path.read_bytes()
    # Of any version: an unsupported one is refused by its name, and not ignored.
    if f'"{kind.format.partition("/")[0]}/'.encode() not in content:
        return None
    with naming(path):
        return decode(content)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the file's name before the message of every error that the block raises."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: {error.reason}; give the file as it was written") from error
    except HubbubError as error:
        raise TaskError(f"{path}: {error}") from error


_FREE_SPACE = "free space, or name another file"
_ANOTHER_PLACE = "name a file in a folder in which you may write"
_REMEDIES = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "raise the limit on a file's size (ulimit -f), or name another file",
    errno.ENOENT: "make its folder first, or name another file",
    errno.ENOTDIR: "name a file in an existing folder",
    errno.EISDIR: "name a file, not a folder",
    errno.EACCES: _ANOTHER_PLACE,
    errno.EPERM: _ANOTHER_PLACE,
    errno.EROFS: _ANOTHER_PLACE,
}


def save(path: Path, content: bytes) -> None:
    """Write a file so that it has either all of `content` or, after a failure, its earlier content.

    An earlier file keeps its mode, and its owner if that is allowed. For a link, its target is replaced. A pipe or a
    device is written directly.

    Raises:
        NotWritten: naming the file, the reason and the remedy; also if an earlier file cannot be made again: a private
            key, a store, or what is written by hand.
        OutputLost: if it is a pipe whose reader has left.
    """
    _check_lost(path)
    with writing(path):
        try:
            # Also before a replacement: a file without write permission must not be replaced either.
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            _replace(path, content, None)
            return
        with tidied(lambda: os.close(descriptor)):
            status = os.fstat(descriptor)
            stream = _stream(status)
            if stat.S_ISREG(status.st_mode) and stream is None:
                _replace(path, content, status)
            else:
                with os.fdopen(stream or descriptor, "wb", closefd=False) as file:
                    file.write(content)


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Let one process at a time read a file, or those of a folder, and write anew: none loses what another has added.

    The folder is locked, as a file itself is replaced by a new one. Others wait. If there is no folder, nothing is
    locked, and whoever reads it says what is missing. Nor is it on a file system that locks no folders: there two at
    once may lose what one added.

    Raises:
        NotWritten: if the folder cannot be read; it names the file.
    """
    target = Path(os.path.realpath(path))
    folder = target if target.is_dir() else target.parent
    if not folder.is_dir():
        yield
        return
    with contextlib.ExitStack() as stack:
        with writing(path):
            # Some network file systems lock no folders. A refusal would stop everybody there, and two at once are rare.
            stack.enter_context(locked_folder(folder, required=False))
        yield


def save_new(path: Path, content: bytes) -> None:
    """Write a file that does not exist yet, as `save` does: of two that write it at once, one does, and one is refused.

    Raises:
        UsageError: if it is there already.
        NotWritten: naming the file, the reason and the remedy.
    """
    with writing(path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError as error:
            raise UsageError(f"{path} is there already; remove it, or name another file with --out") from error
        os.close(descriptor)
        try:
            # What was made is empty, so `save` replaces it by a whole one.
            save(path, content)
        except BaseException as error:
            with noted_on(error):
                path.unlink(missing_ok=True)
            raise


_KEPT = {
    b"-----BEGIN PRIVATE KEY": "a private key",
    b"-----BEGIN ENCRYPTED PRIVATE KEY": "a private key",
    b"SQLite format 3\0": "a store",
}
"""What files begin with that nobody can make again."""


def _check_lost(path: Path) -> None:
    """Refuse to write over what nobody can make again; a wrong name is soon given."""
    begins = _beginning(path)
    kept = next((what for start, what in _KEPT.items() if begins.startswith(start)), None)
    if kept is None and begins and path.suffix == ".toml":
        kept = "written by hand"
    if kept is not None:
        raise NotWritten(f"{path} is {kept}, and nothing is written over it; name another file")


def check_own(path: Path, kind: str, is_own: Callable[[bytes], bool]) -> None:
    """Check that an earlier file, if there is one, is of a command's own kind, so that nothing else is lost.

    Raises:
        UsageError: if it is another one.
    """
    try:
        other = bool(_beginning(path)) and not is_own(path.read_bytes())
    except OSError:
        return  # what cannot be read is reported when it is written
    if other:
        raise UsageError(f"{path} is there already and is no {kind}, so it is not written over; name another file")


def check_page(path: Path) -> None:
    """Check that an earlier file in the place of a report is one too.

    Raises:
        UsageError: if it is another one.
    """
    check_own(path, "page or PDF", lambda content: content.startswith((b"<!doctype html", b"%PDF")))


def _beginning(path: Path) -> bytes:
    """Return the first bytes of a regular file; nothing of any other, or of one that cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(64)
    except OSError:
        return b""


def _stream(status: os.stat_result) -> int | None:
    """Return which of stdout and stderr is this file (such as /dev/stdout); None if neither is."""
    # A second opening would overwrite printed text from the beginning, and a replacement would lose it.
    return next((number for number in (1, 2) if os.path.samestat(os.fstat(number), status)), None)


def _replace(path: Path, content: bytes, earlier: os.stat_result | None) -> None:
    """Replace an earlier file, if any, by a new one once all of it is on the disk."""
    with replacing(Path(os.path.realpath(path)), 0o666 if earlier is None else 0o600) as file:
        if earlier is not None:
            # Only root may give a file to another owner, and only to one that its container knows; anybody else's new
            # file is their own.
            with contextlib.suppress(OSError):
                os.fchown(file.fileno(), earlier.st_uid, earlier.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(earlier.st_mode))
        file.write(content)


def copy_files(folder: Path, out: Path) -> None:
    """Copy a folder's files, such as logs, into a new folder; nothing if there is no such folder.

    Raises:
        NotWritten: naming the first file that cannot be written, the reason and the remedy.
    """
    for file in sorted(folder.glob("*")) if folder.exists() else ():
        copied = out / file.name
        # Not with shutil.copytree: its error is a list of all files, without a sentence.
        with writing(copied):
            out.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn failures of writing a file into an error that names it.

    Raises:
        NotWritten: naming the file, the reason and the remedy.
        OutputLost: if it is a pipe whose reader has left.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise OutputLost(error.errno, error.strerror) from error
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "name another file")
        raise NotWritten(f"{path} cannot be written: {error.strerror or error}; {remedy}") from error
