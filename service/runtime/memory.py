"""Measures the memory of the process, decides if calls are refused, and returns free memory to the system."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 0.05
"""How old a measurement of the memory may be; a new one takes some microseconds."""

TRIM_SECONDS = 5.0
"""Pause between two returns of memory to the system."""

LONGEST_PAUSE_SECONDS = 640.0
"""The longest such pause, after returns that had no effect."""

TRIM_BYTES = 8 * 1024 * 1024
"""The least amount of memory that is worth a return: of calls and rounds the C library keeps a MiB or two a minute."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return how many bytes of memory this process uses; 0 if the system has no /proc."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class MemoryWatch:
    """Compares the memory of the process with a limit of `most` bytes; 0 for no limit."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._looked, self._found = -math.inf, 0

    def held(self) -> int:
        """Return how many bytes the process uses, as last measured."""
        if (now := self._clock()) - self._looked >= LOOK_SECONDS:
            self._looked, self._found = now, resident()
        return self._found

    def full(self) -> bool:
        """Return whether the process exceeds its limit, as last measured."""
        return bool(self._most) and self.held() > self._most


class MemoryTrim:
    """Returns free memory to the system; the C library keeps it, so the effect of a flood would last forever."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, held: Callable[[], int] = resident) -> None:
        self._clock, self._held = clock, held
        self._last, self._pause = clock(), TRIM_SECONDS
        self._least = self._left = held()

    def give_back(self, full: bool = False) -> bool:
        """Return memory if there may be much of it, and not too often; return whether it tried. Takes milliseconds.

        While the service is `full`, and refuses calls, the pause is the shortest: a return that was once in vain may
        help now.
        """
        held, now = self._held(), self._clock()
        self._least = min(self._least, held)
        if held >= self._left + TRIM_BYTES:
            self._pause = TRIM_SECONDS
        if full:
            self._pause = TRIM_SECONDS
        elif held < self._least + TRIM_BYTES:
            return False
        if now - self._last < self._pause:
            return False
        trim = _malloc_trim()
        if trim is not None:
            trim(0)
        self._last, self._left = now, self._held()
        # The remaining memory is in use, or becomes free later: try again, but less and less often.
        helped = held - self._left >= TRIM_BYTES
        self._pause = TRIM_SECONDS if helped else min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        return True


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """The C library's function, if it has one (glibc)."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
