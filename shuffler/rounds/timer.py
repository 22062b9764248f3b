"""Alarm: waiting for a moment of a clock that may be set, or handed in by a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

LONGEST_WAIT = 60.0
"""Seconds after which the clock is looked at again: the machine's time may have been set meanwhile."""


async def never() -> bool:
    """Have nothing but the clock end a wait."""
    return False


class Alarm:
    """Waits for moments of `clock` (seconds since 1970)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Have everyone who waits look again."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def until(self, moment: float, done: Callable[[], Awaitable[bool]] = never) -> None:
        """Return when the clock has reached `moment`, or `done` is true, which is asked after each `wake`."""
        while True:
            # Taken before it is asked: a wake while `done` is still looking is not missed.
            woken = self._woken
            if await done() or (left := moment - self._clock()) <= 0:
                return
            try:
                async with asyncio.timeout(min(left, LONGEST_WAIT)):
                    await woken.wait()
            except TimeoutError:
                continue
