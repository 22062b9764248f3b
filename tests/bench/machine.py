"""What processes take of the machine's cores, and what other programs took meanwhile; from /proc, so on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Mapping
from pathlib import Path

_PROC = Path("/proc")
_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""

_BUSY = (0, 1, 2, 5, 6, 7)
"""Columns of proc(5)'s `cpu` but for idle and waiting: user, nice, system, irq, softirq, steal by other machines."""


def adopt() -> None:
    """Become the parent of servers that leave the process that started them, such as PostgreSQL: they are ours, too."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)


class OtherPrograms:
    """What other programs took of the cores since this was made."""

    def __init__(self) -> None:
        self._before = _seconds()

    def share(self) -> float:
        """Return what they took as a share of all cores; 0 if the system does not say."""
        wall, busy, own = (now - before for now, before in zip(_seconds(), self._before, strict=True))
        # Ticks of two clocks: the difference of little work may be below 0.
        return max(0.0, busy - own) / (wall * (os.cpu_count() or 1)) if busy else 0.0


def _seconds() -> tuple[float, float, float]:
    """Seconds of the clock, of all cores while they were busy, and of the cores for this program."""
    try:
        columns = (_PROC / "stat").read_text().split(maxsplit=11)[1:]
    except OSError:
        return time.monotonic(), 0.0, 0.0
    own = with_children(os.getpid(), processes())
    return time.monotonic(), sum(int(columns[place]) for place in _BUSY) / _ticks(), own


def processes() -> dict[int, tuple[int, float]]:
    """Every process: its parent, and the seconds that it and those of its children that ended took (proc(5))."""
    found = {}
    for path in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # What is in brackets may hold anything.
            fields = path.read_text().rpartition(")")[2].split()
            found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / _ticks()
    return found


def with_children(pid: int, found: Mapping[int, tuple[int, float]]) -> float:
    """Seconds that a process took, and all its children."""
    children = [child for child, (parent, _) in found.items() if parent == pid]
    return found.get(pid, (0, 0.0))[1] + sum(with_children(child, found) for child in children)


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")
