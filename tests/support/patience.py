"""Waiting without guessing how fast a machine is: programs have as long as a test has, and early calls come again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hubbub.protos.refusals import Reason, Refusal

PATIENCE = 540.0
"""Seconds for whole programs: a little less than pytest gives a test, so that what waits is told apart by name.

It is no claim about speed. A limit that was chosen near what a test takes fails on a machine that does other things.
"""

CALL_SECONDS = PATIENCE / 2
"""Deadline of a test's own call: far from what any call takes, for the same reason."""

AGAIN_SECONDS = 0.02

Answer = TypeVar("Answer")


async def pause() -> None:
    """Pause before a service is asked again: asking without a pause takes the CPU from who is to answer."""
    await asyncio.sleep(AGAIN_SECONDS)


async def when_ready(call: Callable[[], Awaitable[Answer]], early: Reason = Reason.NOT_READY) -> Answer:
    """Call again for as long as it is too early: a service's ports are open before its rounds have their keys."""
    while True:
        try:
            return await call()
        except Refusal as refusal:
            if refusal.reason is not early:
                raise
        await pause()
