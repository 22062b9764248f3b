"""What the process holds, a limit above which calls are refused, and the way back to the system."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 0.05
"""How old what is known of the memory may be; a look takes some microseconds."""

TRIM_SECONDS = 5.0
"""Pause between two times that memory is given back."""

LONGEST_PAUSE_SECONDS = 640.0
"""The same where nothing comes of it."""

TRIM_BYTES = 32 * 1024 * 1024
"""What is worth it."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return how many bytes of memory this process holds; 0 where the system does not say (it has no /proc)."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


class MemoryWatch:
    """What the process holds, and whether that is more than `most` bytes; 0 for as many as it likes."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._looked, self._found = -math.inf, 0

    def held(self) -> int:
        """Return how many bytes it holds, as of the last look."""
        if (now := self._clock()) - self._looked >= LOOK_SECONDS:
            self._looked, self._found = now, resident()
        return self._found

    def full(self) -> bool:
        """Return whether it holds more than it may, as of the last look."""
        return bool(self._most) and self.held() > self._most


class MemoryTrim:
    """Gives free memory back to the system: the C library keeps it, and a flood would be seen for ever."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, held: Callable[[], int] = resident) -> None:
        self._clock, self._held = clock, held
        self._last, self._pause = clock(), TRIM_SECONDS
        self._least = self._left = held()

    def give_back(self, full: bool = False) -> bool:
        """Do so where there may be much, and not too often; return whether it was done. Takes some milliseconds.

        While the service is `full`, and refuses calls, it is tried as often as may be: what it once did in vain may
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
        # What stays is in use, or will be free later: it is looked at again, but less and less often.
        helped = held - self._left >= TRIM_BYTES
        self._pause = TRIM_SECONDS if helped else min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        return True


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """The C library's function, where it has one (glibc)."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
