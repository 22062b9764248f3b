"""Alarm: waiting for a moment of a clock that may be set, or handed in by a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LONGEST_WAIT = 60.0
"""Seconds after which the clock is looked at again: the machine's time may have been set meanwhile."""


class Alarm:
    """Waits for moments of `clock` (seconds since 1970)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Have everyone who waits look again."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def until(self, moment: float, done: Callable[[], bool] = lambda: False) -> None:
        """Return when the clock has reached `moment`, or `done` is true after a `wake`."""
        while not done() and (left := moment - self._clock()) > 0:
            try:
                async with asyncio.timeout(min(left, LONGEST_WAIT)):
                    await self._woken.wait()
            except TimeoutError:
                continue
