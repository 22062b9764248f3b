"""How many submissions are in work at once, so that what is taken is done in time.

A service that takes whatever comes is as slow for everybody as the longest queue makes it, and no device is served
sooner for having waited in it. So what would wait too long is refused, with a time to come again. How long it would
wait follows from the calls before it (Little's law): one that found so many submissions in work, and took so long,
tells how many are done in a second. One that found few tells only that it is at least its own: what a service does
that has little to do is less than what it can, and whoever comes at once after a quiet hour must not be refused for
that. That bounds the time in the queue on machines of any speed, which a number of
submissions does not: a thousand are a second of work here, and a hundredth of one there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FEWEST = 500
"""Submissions in work that are few, however long they take: a disk that stands still for a moment refuses nobody then,
and callers who wait for their answers find work for the service when it goes on. So do two calls, of any size."""

WEIGHT = 0.1
"""How much the last call counts in the pace, against all before it."""


class LoadShedder:
    """Submissions in work: `most` at most, and beyond `FEWEST`, and two calls, no more than are done in `seconds`.

    `monotonic` gives seconds. It is for one event loop.
    """

    def __init__(self, most: int, seconds: float = math.inf, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._seconds = seconds
        self._monotonic = monotonic
        self._in_work = 0
        self._calls = 0
        # Submissions a second; endless before the first call tells it.
        self._pace = math.inf

    @property
    def in_work(self) -> int:
        """How many submissions are in work."""
        return self._in_work

    @property
    def overloaded(self) -> bool:
        """Whether so many are in work that what comes now would wait too long."""
        return self._calls > 1 and self._in_work > max(FEWEST, self._pace * self._seconds)

    @property
    def free(self) -> int:
        """How many more may be in work now."""
        return 0 if self.overloaded else self.most - self._in_work

    @contextmanager
    def track(self, count: int) -> Iterator[None]:
        """Have so many submissions in work meanwhile."""
        self._in_work += count
        self._calls += 1
        found, begun = self._in_work, self._monotonic()
        try:
            yield
        finally:
            self._in_work -= count
            self._calls -= 1
            self._learn(count, found, self._monotonic() - begun)

    def _learn(self, count: int, found: int, took: float) -> None:
        """Take a call of so many submissions for what it tells, which found so many in work, itself among them."""
        if took <= 0:
            return
        if math.isinf(self._pace):
            self._pace = found / took
        elif found > FEWEST:
            self._pace += WEIGHT * (found / took - self._pace)
        else:
            self._pace = max(self._pace, count / took)
