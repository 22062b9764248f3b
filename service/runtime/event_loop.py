"""Runs a service in an event loop, of the standard library or of uvloop."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Literal, TypeVar

from hubbub.accountant.errors import needs_extra
from hubbub.service.settings import SettingsError

EventLoop = Literal["asyncio", "uvloop"]
"""The event loop of a service: Python's asyncio, or uvloop, whose TLS and sockets are written in C."""

T = TypeVar("T")


def run(work: Callable[[], Coroutine[object, object, T]], kind: EventLoop) -> T:
    """Run a service's coroutine, made by `work`, in an event loop of that kind, and return its result.

    Raises:
        SettingsError: if settings name uvloop and it is not installed; nothing was started.
    """
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if kind == "uvloop":
        if importlib.util.find_spec("uvloop") is None:
            raise SettingsError(needs_extra('event_loop = "uvloop"', "uvloop", "uvloop"))
        factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work())
