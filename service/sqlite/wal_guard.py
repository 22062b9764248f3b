"""Detects that a store's write-ahead log, which contains its last commits, was deleted or truncated.

SQLite treats a log that is missing, or ends early, as one that was never written: the store opens, and the last
acknowledged data is lost silently. So a file next to the store, the mark (`shuffler.mark`), records the end of the log.
The mark is written after each commit, when the log is synced and before any result is given out, so it never claims
more than the log has. The mark itself is synced only when the log begins, or begins again after 16 MB. So the mark is
exact after a kill. After a power cut it may claim less, and then less is detected. Before the log is truncated, when
all of it is checkpointed into the database, the mark is emptied and synced.

The end of the log is read from SQLite's index of it (`-shm`), in the form of https://sqlite.org/walformat.html,
"The WAL-Index Header": the last valid frame at byte 16, the log's salts at byte 32. A log that begins again increments
the first salt, once everything before is in the database. The mark follows after that commit is synced. So a log that
is one step ahead of its mark has lost nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sqlite3
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from hubbub.protos.durable_files import sync_folder
from hubbub.service.errors import StoreError

_LOG = logging.getLogger(__name__)

_MAGIC = b"hubbub-mark/1\n\0\0"
_FORM = struct.Struct(">16s8sII")
"""A mark: its form and version, the log's salts, its valid frames, and the CRC of these. It fits in a sector."""

_LOG_HEADER_BYTES = 32
_SALTS = slice(16, 24)
_CHECKSUM = slice(24, 32)
"""Positions of the salts in the header of a log, and of the checksum of the bytes before it."""

_INDEX_BYTES = 48
_INDEX_FRAMES = slice(16, 20)
_INDEX_SALTS = slice(32, 40)

_REMEDY = (
    "it lacks the last acknowledged submissions, charges and counts. Restore the file; only if it is really lost, "
    "run the same command once with --accept-lost-log (docs/howto/respond-to-incidents.md, A log was lost)"
)


@dataclass(frozen=True)
class WalPosition:
    """The end of a log: its salts (8 bytes), which change each time the log begins again, and its valid frames."""

    salts: bytes
    frames: int

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        head = _FORM.pack(_MAGIC, self.salts, self.frames, 0)[:-4]
        return head + zlib.crc32(head).to_bytes(4, "big")

    @staticmethod
    def decode(content: bytes) -> WalPosition | None:
        """Return the position in a file; None if the file is empty, torn, or of an unknown version."""
        if len(content) != _FORM.size:
            return None
        magic, salts, frames, checksum = _FORM.unpack(content)
        whole = magic == _MAGIC and checksum == zlib.crc32(content[:-4])
        return WalPosition(salts, frames) if whole and frames else None


def position_file_of(path: Path) -> Path:
    """Return the path of the mark of a store's file."""
    return path.with_suffix(".mark")


def check_log(path: Path) -> None:
    """Check that the log of the store in `path` reaches as far as its mark claims. The store is not changed.

    Raises:
        StoreError: naming the missing part and the remedy.
        OSError, sqlite3.Error: if files cannot be read.
    """
    lost = what_is_lost(path)
    if lost:
        raise StoreError(f"{lost}, and the store was not closed before, so {_REMEDY}")


def what_is_lost(path: Path) -> str:
    """Describe the loss in the log of the store in `path`; return an empty text if no loss is known."""
    mark, log = _stored(path), path.with_name(f"{path.name}-wal")
    if mark is None:
        return ""
    try:
        with log.open("rb") as file:
            header = file.read(_LOG_HEADER_BYTES)
    except FileNotFoundError:
        return f"{log} is missing"
    if len(header) < _LOG_HEADER_BYTES:
        return f"{log} was cut to {len(header)} bytes"
    # SQLite treats a log without a valid header as empty.
    if not _is_header(header):
        return f"{log} is damaged at its beginning"
    if header[_SALTS] != mark.salts:
        return "" if _is_next(header, mark) else f"{log} is not the log that belongs to the store, but another one"
    frames = _recovered(path)
    return "" if frames >= mark.frames else f"{log} is cut or damaged: {frames} of {mark.frames} pages can be read"


def forget(path: Path) -> None:
    """Allow the store in `path` to open without the lost part of its log.

    The rest of its own log is still read. A foreign log, an older one or another store's, is moved aside
    (`shuffler.db-wal.lost`): SQLite would apply its pages to the database.

    Raises:
        StoreError: if nothing of the log is known to be lost.
        OSError: if a file cannot be moved; then nothing was changed.
    """
    if not what_is_lost(path):
        raise StoreError(f"nothing of the log of {path} is missing; start without --accept-lost-log")
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and not _is_own(path):
        log.rename(_free(log.with_name(f"{log.name}.lost")))
        # Moved durably before the mark is removed: after a kill in between, the log is missing, and a start refuses.
        sync_folder(path.parent)
    position_file_of(path).unlink(missing_ok=True)
    sync_folder(path.parent)


def _is_own(path: Path) -> bool:
    """Return whether the existing log is the one of the mark; it may be damaged or truncated after its header."""
    mark, header = _stored(path), path.with_name(f"{path.name}-wal").read_bytes()[:_LOG_HEADER_BYTES]
    return mark is not None and len(header) == _LOG_HEADER_BYTES and _is_header(header) and header[_SALTS] == mark.salts


def _free(path: Path) -> Path:
    """Return an unused path: this one, or one with a number appended."""
    names = itertools.chain([path], (path.with_name(f"{path.name}.{number}") for number in itertools.count(2)))
    return next(name for name in names if not os.path.lexists(name))


def _is_next(header: bytes, mark: WalPosition) -> bool:
    """Return whether a log began again exactly once since its mark was written."""
    steps = int.from_bytes(header[_SALTS][:4], "big") - int.from_bytes(mark.salts[:4], "big")
    return steps % 2**32 == 1


def _made(path: Path) -> int:
    """Open the mark of the store in `path`, or create it; its name is synced."""
    descriptor = os.open(position_file_of(path), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        sync_folder(path.parent)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _stored(path: Path) -> WalPosition | None:
    try:
        return WalPosition.decode(position_file_of(path).read_bytes())
    except FileNotFoundError:
        return None


def _is_header(header: bytes) -> bool:
    """Return whether the checksum of a log's header is right ("Checksum Algorithm" of the format's description)."""
    order: Literal["big", "little"] = "big" if header[3] & 1 else "little"
    first = second = 0
    for start in range(0, _CHECKSUM.start, 8):
        words = header[start : start + 8]
        first = (first + int.from_bytes(words[:4], order) + second) % 2**32
        second = (second + int.from_bytes(words[4:], order) + first) % 2**32
    return header[_CHECKSUM] == struct.pack(">II", first, second)


def _recovered(path: Path) -> int:
    """Let SQLite read the log as it does after a kill; return how many valid frames it found."""
    with contextlib.closing(reading(path)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        index = os.open(path.with_name(f"{path.name}-shm"), os.O_RDONLY)
        try:
            return _position(index)[1]
        finally:
            os.close(index)


def reading(path: Path) -> sqlite3.Connection:
    """Return a read-only connection, which neither checkpoints nor removes the log."""
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, check_same_thread=False)


def _position(index: int) -> tuple[bytes, int]:
    header = os.pread(index, _INDEX_BYTES, 0)
    return header[_INDEX_SALTS], int.from_bytes(header[_INDEX_FRAMES], sys.byteorder)


class WalGuard:
    """The mark of an open store. `note` and `clear` are for the thread that writes.

    If writing the mark fails, the commit does not fail, since it is on disk by then. The mark is emptied or removed
    instead, so that it claims nothing about a log that may have begun again meanwhile. A later loss may then go
    undetected, and a warning is logged.
    """

    def __init__(self, path: Path) -> None:
        """Open the mark of the store in `path`, whose log was checked.

        Raises:
            OSError: if it cannot be created.
        """
        self._path = path
        self._file: int | None = _made(path)
        self._index: int | None = None
        self._last = _stored(path)
        self._is_empty = self._last is None
        self._failed = False

    @property
    def is_set(self) -> bool:
        """Whether the mark claims, or may claim, that the log has commits."""
        return not self._is_empty

    def note(self) -> None:
        """Record the end of the log; after a commit, before its results are given out."""
        try:
            self._note()
        except OSError as error:
            if not self._failed:
                _LOG.warning("a log's mark cannot be written: %s", f"{position_file_of(self._path)}: {error}")
            self._failed = True
            self._say_nothing()
        else:
            self._failed = False

    def _say_nothing(self) -> None:
        """Empty the mark, or remove it: with the mark of an earlier log, this log would look foreign."""
        if self._is_empty or self._file is None:
            return
        self._last = None
        try:
            os.ftruncate(self._file, 0)
            os.fsync(self._file)
        except OSError:
            try:
                position_file_of(self._path).unlink(missing_ok=True)
            except OSError:
                return  # tried again at the next commit that cannot be recorded
            os.close(self._file)
            self._file = None
            with contextlib.suppress(OSError):
                sync_folder(self._path.parent)
        self._is_empty = True

    def _note(self) -> None:
        if self._index is None:
            # Kept open: closing any descriptor of the file would drop SQLite's locks on it.
            self._index = os.open(self._path.with_name(f"{self._path.name}-shm"), os.O_RDONLY)
        if self._file is None:
            self._file = _made(self._path)
        salts, frames = _position(self._index)
        mark = WalPosition(salts, frames)
        if not frames or mark == self._last:
            return
        begun = self._last is None or self._last.salts != salts
        self._is_empty = False
        os.pwrite(self._file, mark.encode(), 0)
        if begun:
            os.fsync(self._file)
        self._last = mark

    def clear(self) -> None:
        """Record that the database has everything in the log; before the log is truncated.

        Raises:
            OSError: if the mark cannot be written; then the log must not be truncated.
        """
        if self._file is not None:
            os.pwrite(self._file, bytes(_FORM.size), 0)
            os.fsync(self._file)
        self._last = None
        self._is_empty = True

    def close(self) -> None:
        """Close the mark, after the store's connections; remove it if SQLite has checkpointed and removed the log."""
        if not self._path.with_name(f"{self._path.name}-wal").exists():
            with contextlib.suppress(OSError):
                position_file_of(self._path).unlink()
        for descriptor in (self._file, self._index):
            if descriptor is not None:
                os.close(descriptor)
