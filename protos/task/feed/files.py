"""Reads the entries of a feed from a folder, each in a file of its own, and adds entries to it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hubbub.protos.durable_files import NoFolderLock, locked_folder, partial_path, sync_folder, synced_file
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.feed.entry import LONGEST_ENTRY, FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed

_NAME = re.compile(r"\d{6}\.json")

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What a file system says that has no hard links, such as those of USB sticks and many network shares."""

Stamp = tuple[tuple[str, int, int, int], ...]
"""The state of a folder's entries: name, inode, size and time of each."""


def file_of(folder: Path, number: int) -> Path:
    """Return the file of an entry: its number in six digits."""
    return folder / f"{number:06d}.json"


def stamp_of(folder: Path) -> Stamp:
    """Return the state of the files, which differs after a change.

    Raises:
        FeedError: if the folder cannot be read.
    """
    try:
        with os.scandir(folder) as found:
            entries = [(each.name, each.stat()) for each in found if each.name.endswith(".json")]
    except OSError as error:
        raise _unreadable(folder, error) from error
    return tuple(sorted((name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in entries))


def read_entries(folder: Path, taken: Feed) -> Iterator[FeedEntry]:
    """Yield the entries of a folder after those that were `taken` before; signatures and order are not checked.

    The files of entries that were taken must still have the same entries.

    Raises:
        FeedError: naming the file: of an older copy of the feed, a gap, an entry that was changed, or what is no entry.
    """
    names = [name for name, *_ in stamp_of(folder)]
    for name in names:
        if not _NAME.fullmatch(name):
            raise FeedError(
                f"{folder / name} is not named as an entry, such as {file_of(folder, 1).name}; "
                "move it elsewhere, or name another folder if this is not the feed's"
            )
    for number, known in enumerate(taken.entries, 1):
        path = file_of(folder, number)
        if path.name not in names:
            raise FeedError(
                f"{path} is missing, but entries up to {taken.position.number} were taken: the folder has an older "
                "copy of the feed; put the newest one there"
            )
        if _read(path).position != known.position:
            raise FeedError(
                f"{path} has another entry {number} than the one that was taken: it was changed, or is of another "
                "feed; put the entry back that both parties signed first"
            )
    for number, name in enumerate(names[len(taken.entries) :], len(taken.entries) + 1):
        path = file_of(folder, number)
        if name != path.name:
            raise FeedError(f"{path} is missing, but {name} is there: the feed has a gap; put entry {number} there")
        found = _read(path)
        if found.number != number:
            raise FeedError(f"{path} has {found.name}; name the file by the number of its entry")
        yield found


def feed_in(folder: Path, parties: FeedParties | None = None) -> Feed:
    """Return the whole feed of a folder, its order checked, and with `parties` also the signatures.

    Raises:
        FeedError: naming the file, and what is wrong with it.
    """
    feed = Feed()
    for entry in read_entries(folder, feed):
        feed = with_checked(folder, feed, entry, parties)
    return feed


def with_checked(folder: Path, feed: Feed, entry: FeedEntry, parties: FeedParties | None) -> Feed:
    """Return the feed with the next entry of a folder, its order checked, and with `parties` also the signatures.

    Raises:
        FeedError: naming the file, and what is wrong with it.
    """
    try:
        after = feed.with_entry(entry)
        if parties is not None:
            entry.check(parties)
    except HubbubError as error:
        raise FeedError(f"{file_of(folder, entry.number)}: {error}") from error
    return after


def add_entry(folder: Path, entry: FeedEntry) -> Path:
    """Write an entry into a new file of a folder, completely on the disk or not at all; return the file.

    It may be repeated: a file that has the same bytes already is left as it is.

    Raises:
        FeedError: if there is another entry with this number, or the folder cannot be written.
    """
    path = file_of(folder, entry.number)
    partial = partial_path(path)
    content = entry.encode()
    try:
        try:
            with synced_file(partial) as file:
                file.write(content)
            _link(path, partial, content)
        finally:
            # Also on a full disk, where whoever tries again would leave one each time.
            partial.unlink(missing_ok=True)
        # The entry is there by now. Who read that it is not would find it in the way of another one.
        sync_folder(folder, required=False)
    except FileExistsError as error:
        raise FeedError(f"{path} is there already: somebody else added an entry just now; try again") from error
    except OSError as error:
        raise FeedError(f"cannot write {path}: {error.strerror}; {_remedy(error)}") from error
    return path


def _remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space on its disk"
    if isinstance(error, NoFolderLock):
        return "this file system has neither links nor locks: add the entry in a folder on another one, and copy it"
    if error.errno == errno.EROFS:
        return "keep the feed on a disk that can be written"
    return "let this account write into the folder"


def _link(path: Path, partial: Path, content: bytes) -> None:
    try:
        # Not a replacement: of two who add an entry at once, the second must not undo the first.
        path.hardlink_to(partial)
    except FileExistsError:
        if path.read_bytes() != content:
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename(path, partial, content)


def _rename(path: Path, partial: Path, content: bytes) -> None:
    """Give a file its name where the file system has no links; of two processes that do so, one waits."""
    # Renaming replaces: so nobody else may look or rename in between.
    with locked_folder(path.parent):
        if not path.exists():
            partial.rename(path)
        elif path.read_bytes() != content:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _read(path: Path) -> FeedEntry:
    try:
        # A pipe without a writer would stop who follows the feed, without a word: so it reads as an empty file.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            # One byte more than allowed shows that it is too large: a huge file is not read.
            content = file.read(LONGEST_ENTRY + 1)
        return FeedEntry.decode(content)
    except FeedError as error:
        raise FeedError(f"{path}: {error}") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> FeedError:
    return FeedError(f"cannot read {path}: {error.strerror}; name the readable folder of the feed in its place")
