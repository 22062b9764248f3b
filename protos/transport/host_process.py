"""Refuses processes in which a caller's threads would never run: green threads, and uWSGI without threads.

There a call would not return even after its timeout, and a recorder would stop its host. So no device is made there,
and no results are read. A program may also patch itself later, as a server's worker does after its fork. So each call
checks again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from hubbub.protos.errors import UsageError

_PATCHED = ("threading", "thread", "socket", "select", "queue")
"""Modules of which green ones make a caller's threads, or its event loop, wait for a loop that they keep waiting."""


def checked_host(program: str = "hubbub submit") -> None:
    """Check that threads of this process run beside each other; `program` does the same in a process of its own.

    Raises:
        UsageError: naming what keeps them from it, and what to do.
    """
    instead = f"use it in a process of its own, such as one that runs `{program}`"
    for library, patched in (("gevent", _by_gevent), ("eventlet", _by_eventlet)):
        found = [name for name in _PATCHED if patched(name)]
        if found:
            raise UsageError(
                f"{library} has replaced {found[0]} in this process, so that calls might never return; do not patch "
                f"it, or {instead}"
            )
    options: Mapping[Any, Any] | None = getattr(sys.modules.get("uwsgi"), "opt", None)
    if options is not None and not {"enable-threads", "threads"} & {_text(name) for name in options}:
        raise UsageError(
            f"uWSGI runs this process without threads, so hubbub's would never run; set enable-threads, or {instead}"
        )


def _by_gevent(name: str) -> bool:
    # What was not imported patches nothing; a device does not import it.
    patched: Callable[[str], bool] | None = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    return patched is not None and patched(name)


def _by_eventlet(name: str) -> bool:
    patched: Callable[[str], bool] | None = getattr(sys.modules.get("eventlet.patcher"), "is_monkey_patched", None)
    return patched is not None and patched(name)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
