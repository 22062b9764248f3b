"""Queue: how many submissions are in work at once, and how long those that came first have been.

A service that takes whatever comes is as slow for everybody as the longest queue makes it, and no device is served
sooner for having waited in it. So where what came first is in work for longer than it should be, what comes now is
refused, with a time to come again. That bounds the time in the queue on machines of any speed, which a number of
submissions does not: a thousand are a second of work here, and a hundredth of one there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FEWEST = 1000
"""Submissions in work that are few, however long they take: ten calls of gateways, or one. A disk that stands still for
a moment refuses nobody then, and callers who wait for their answers find work for the service when it goes on."""


class Queue:
    """Submissions in work: at most `most` at once; and above `FEWEST` no more while the first is older than `seconds`.

    `monotonic` gives seconds. It is for one event loop.
    """

    def __init__(self, most: int, seconds: float = math.inf, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._seconds = seconds
        self._monotonic = monotonic
        self._in_work = 0
        # When calls that are in work were taken, the oldest first.
        self._taken: dict[object, float] = {}

    @property
    def in_work(self) -> int:
        """How many submissions are in work."""
        return self._in_work

    @property
    def room(self) -> int:
        """How many more may be in work now."""
        if self._in_work >= FEWEST and self._monotonic() - next(iter(self._taken.values())) > self._seconds:
            return 0
        return self.most - self._in_work

    @contextmanager
    def working(self, count: int) -> Iterator[None]:
        """Have so many submissions in work meanwhile."""
        call = object()
        self._taken[call] = self._monotonic()
        self._in_work += count
        try:
            yield
        finally:
            self._in_work -= count
            del self._taken[call]
