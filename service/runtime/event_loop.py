"""The event loop that a service runs in, the standard library's or uvloop's."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Literal, TypeVar

from hubbub.service.settings import SettingsError

EventLoop = Literal["asyncio", "uvloop"]
"""What runs a service: asyncio as Python has it, or uvloop, whose TLS and sockets are C."""

T = TypeVar("T")


def run(work: Callable[[], Coroutine[object, object, T]], kind: EventLoop) -> T:
    """Return what a service's coroutine, made by `work`, returns, in an event loop of that kind.

    Raises:
        SettingsError: if uvloop is asked for and is not installed; nothing was begun.
    """
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if kind == "uvloop":
        if importlib.util.find_spec("uvloop") is None:
            raise SettingsError("event_loop is \"uvloop\", which is not installed: pip install 'hubbub[uvloop]'")
        factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work())
