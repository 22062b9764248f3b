"""Blocking work beside an event loop, and programs without an event loop that call what needs one."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from hubbub.protos.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")

_OWN_LOOP: ContextVar[bool] = ContextVar("_ALONE", default=False)
"""Whether the event loop serves this client alone, so that it may block."""


def in_thread(work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a function or method that blocks one to await: it runs in a thread, so that the event loop goes on.

    Where nobody else uses the loop it runs in place.
    """

    @functools.wraps(work)
    async def awaited(*args: P.args, **options: P.kwargs) -> T:
        # At the end of a program no thread can be started any more, but what was recorded is still to be stored.
        if _OWN_LOOP.get():
            return work(*args, **options)
        return await asyncio.to_thread(work, *args, **options)

    return awaited


def run_sync(work: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Do work in an event loop of its own; `name` is the function that a program without one called.

    Raises:
        UsageError: where an event loop runs already; nothing was done.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_in_own_loop(work))
    raise UsageError(
        f"{name}_blocking() was called inside a running event loop, which it would block; await {name}() instead"
    )


async def _in_own_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    _OWN_LOOP.set(True)
    return await work()
