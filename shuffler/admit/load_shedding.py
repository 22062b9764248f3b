"""Limits how many submissions are in work at once, so that each accepted one is done in time.

A service that accepts everything is as slow for everybody as its longest queue, and waiting serves no device sooner. So
a submission that would wait too long is refused, with a time to come again. The expected wait follows from earlier
calls (Little's law): a call that found n submissions in work and took t seconds shows a pace of n / t. A call that
found few shows only a lower bound of the pace, since an idle service does less than it can. Otherwise callers that come
together after a quiet hour would be refused. So the time in the queue is bounded on machines of any speed. A limit in
submissions would not bound it: a thousand are a second of work on one machine, and a hundredth of a second on another.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FEWEST = 500
"""This many submissions in work are always accepted, however long they take. So a disk that stalls for a moment causes
no refusals, and work is waiting when it goes on. Two calls of any size are also accepted."""

WEIGHT = 0.1
"""Weight of the last call in the pace, against all before it."""


class LoadShedder:
    """Submissions in work: `most` at most. Beyond `FEWEST` and two calls, no more than are done in `seconds`.

    `monotonic` returns seconds. An object serves one event loop.
    """

    def __init__(self, most: int, seconds: float = math.inf, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._seconds = seconds
        self._monotonic = monotonic
        self._in_work = 0
        self._calls = 0
        # Submissions a second; infinite until the first call is done.
        self._pace = math.inf

    @property
    def in_work(self) -> int:
        """How many submissions are in work."""
        return self._in_work

    @property
    def overloaded(self) -> bool:
        """Whether a submission that comes now would wait too long."""
        return self._calls > 1 and self._in_work > max(FEWEST, self._pace * self._seconds)

    @property
    def free(self) -> int:
        """How many more may be in work now."""
        return 0 if self.overloaded else self.most - self._in_work

    @contextmanager
    def track(self, count: int) -> Iterator[None]:
        """Count that many submissions as in work within the context."""
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
        """Update the pace from a call of `count` submissions that found `found` in work, its own included."""
        if took <= 0:
            return
        if math.isinf(self._pace):
            self._pace = found / took
        elif found > FEWEST:
            self._pace += WEIGHT * (found / took - self._pace)
        else:
            self._pace = max(self._pace, count / took)
