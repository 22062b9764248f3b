"""What disk.c saw, and what a disk holds after a power cut: nothing that was not synced, or any part of it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

SOURCE = Path(__file__).with_name("disk.c")
SECTOR = 512
"""A disk writes whole sectors of so many bytes; a longer write may be torn between them."""

_HEADER = struct.Struct("=c3xIQQQ")


def build(folder: Path) -> Path:
    """Compile disk.c; where that cannot be, the test is skipped."""
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None or sys.platform != "linux":
        pytest.skip("tracing what a program writes needs Linux and a C compiler")
    library = folder / "disk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl", "-pthread"], check=True)
    return library


def environment(library: Path, folder: Path, log: Path, **more: str) -> dict[str, str]:
    """What a program is started with whose writes below `folder` are to be seen. `more` are disk.c's other settings."""
    return {**os.environ, "LD_PRELOAD": str(library), "DISK_FOLDER": str(folder), "DISK_LOG": str(log), **more}


@dataclass(frozen=True)
class Event:
    """Something that was done: to a file ("C"reate, "W"rite, "T"runcate, "S"ync, "U"nlink, "R"ename), or a se"N"d.

    `data` is what was written, or the new name.
    """

    kind: str
    path: str
    offset: int
    data: bytes
    moment: float


def events(log: Path) -> Iterator[Event]:
    """Read a log; its last entry may be cut short by a kill."""
    content, place = log.read_bytes(), 0
    while place + _HEADER.size <= len(content):
        kind, path_bytes, offset, count, nanoseconds = _HEADER.unpack_from(content, place)
        place += _HEADER.size
        path = content[place : place + path_bytes].decode()
        place += path_bytes
        data = content[place : place + count] if kind in b"WR" else b""
        place += len(data)
        yield Event(kind.decode(), path, offset, data, nanoseconds / 1e9)


@dataclass
class _File:
    """A file as programs see it, as the disk surely has it, and the writes in between (data of None: truncated)."""

    seen: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list)


@dataclass
class Platter:
    """A disk without a battery. A name is on it only when its folder was synced, as POSIX has it."""

    names: dict[str, _File] = field(default_factory=dict)
    synced_names: dict[str, _File] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Do what was done."""
        if event.kind == "U":
            self.names.pop(event.path, None)
        elif event.kind == "R":
            self.names[event.data.decode()] = self.names.pop(event.path)
        elif event.kind == "C":
            self.names[event.path] = _File()
        elif event.kind in "WT" and event.path in self.names:
            _change(self.names[event.path].seen, event.offset, event.data if event.kind == "W" else None)
            self.names[event.path].waiting.append((event.offset, event.data if event.kind == "W" else None))
        elif event.kind == "S" and event.path in self.names:
            file = self.names[event.path]
            file.synced = bytes(file.seen)
            file.waiting.clear()
        elif event.kind == "S":
            self._sync_folder(event.path)

    def _sync_folder(self, folder: str) -> None:
        kept = {name: file for name, file in self.synced_names.items() if os.path.dirname(name) != folder}  # noqa: PTH120
        here = {name: file for name, file in self.names.items() if os.path.dirname(name) == folder}  # noqa: PTH120
        self.synced_names = kept | here

    def after_power_cut(self, folder: str, random: Random | None = None) -> dict[str, bytes]:
        """The files in a folder, by name. With `random`, any part of what was not synced is there too."""
        found = {}
        for name, file in self.synced_names.items():
            if os.path.dirname(name) == folder:  # noqa: PTH120
                content = bytearray(file.synced)
                for offset, data in file.waiting if random is not None else ():
                    _maybe(content, offset, data, random or Random())
                found[os.path.basename(name)] = bytes(content)  # noqa: PTH119
        return found


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def _maybe(content: bytearray, offset: int, data: bytes | None, random: Random) -> None:
    """Do a write in whole, in part, or not at all."""
    if data is None or len(data) <= SECTOR:
        if random.random() < 0.5:
            _change(content, offset, data)
        return
    for start in range(0, len(data), SECTOR):
        if random.random() < 0.5:
            _change(content, offset + start, data[start : start + SECTOR])
