"""Repeats a look and shows it, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

REFRESH_SECONDS = 2.0
"""Pause between two looks."""

T = TypeVar("T")


async def watched(look: Callable[[], Awaitable[T]], show: Callable[[T], None], every: float = REFRESH_SECONDS) -> None:
    """Look and show again and again, with a pause of `every` seconds; return after Ctrl-C or SIGTERM."""
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    stopped = asyncio.create_task(enough.wait())
    try:
        while True:
            # A look may take as long as a call's deadline, so Ctrl-C does not wait for it.
            looking = asyncio.ensure_future(look())
            await asyncio.wait({looking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                return
            show(looking.result())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(stopped), every)
                return
    finally:
        stopped.cancel()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
