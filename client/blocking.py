"""Runs blocking work outside an event loop, and coroutines in programs without an event loop."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from hubbub.protos.errors import UsageError
from hubbub.protos.transport.host_process import checked_host

P = ParamSpec("P")
T = TypeVar("T")

_OWN_LOOP: ContextVar[bool] = ContextVar("_ALONE", default=False)
"""Whether the event loop serves this client alone, so that it may block."""


def in_thread(work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Turn a blocking function or method into an awaitable one: it runs in a thread, so that the event loop goes on.

    If nothing else uses the loop, it runs without a thread. If threads of this process would wait for ever, it raises a
    UsageError instead.
    """

    @functools.wraps(work)
    async def awaited(*args: P.args, **options: P.kwargs) -> T:
        # The process may have been patched since the client was made. Looked up here, as each submission comes by.
        if "gevent.monkey" in sys.modules or "eventlet.patcher" in sys.modules or "uwsgi" in sys.modules:
            checked_host()
        # At the end of a program no thread can be started, but recorded answers must still be stored.
        if _OWN_LOOP.get():
            return work(*args, **options)
        checked_loop()
        return await asyncio.to_thread(work, *args, **options)

    return awaited


def checked_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that runs this.

    Raises:
        UsageError: if it is not asyncio's, such as trio's.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise UsageError(
            "no event loop of asyncio runs this, as in trio; call the function whose name ends in _blocking, in a "
            "thread, such as by trio.to_thread.run_sync"
        ) from error


def run_sync(work: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Do work in a new event loop; `name` is the function that the program called, without `_blocking`.

    Raises:
        UsageError: if an event loop runs already, also trio's, or threads of this process would wait for ever; nothing
            was done.
    """
    checked_host()
    if _in_trio():
        raise UsageError(
            f"{name}_blocking() was called inside trio's event loop, which it would block; run it in a thread, such as "
            "by trio.to_thread.run_sync"
        )
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_in_own_loop(work))
    raise UsageError(
        f"{name}_blocking() was called inside a running event loop, which it would block; await {name}() instead"
    )


def _in_trio() -> bool:
    # What was not imported runs nothing; a device does not import it.
    running = getattr(getattr(sys.modules.get("trio"), "lowlevel", None), "in_trio_run", None)
    return running is not None and bool(running())


async def _in_own_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    _OWN_LOOP.set(True)
    return await work()
