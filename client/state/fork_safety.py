"""Closes state files while a process forks, and restarts threads in the forked process.

SQLite forbids the use of a connection in a forked process: there it would own locks of its parent, and could truncate
the write-ahead log that the parent writes. So the files are closed before a fork, after their transactions end, and
each process opens them again when it needs them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import Protocol


class Closable(Protocol):
    """An object that is closed while the process forks."""

    def before_fork(self) -> None:
        """Close."""

    def after_fork(self) -> None:
        """Allow it to be opened again."""


class Restarted(Protocol):
    """An object with a thread, which does not exist in a forked process."""

    def begin_in_child(self) -> None:
        """Start again in a process that was forked."""


_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()
_CLOSED: list[Closable] = []
"""The objects that the current fork has closed."""

_RESTARTED: weakref.WeakSet[Restarted] = weakref.WeakSet()

_FORKING = threading.Lock()
"""Locked from before a fork until after it: two threads may fork at once."""


def closed_at_forks(one: Closable) -> None:
    """Close this object at every fork as long as it exists."""
    _OPEN.add(one)


def restarted_in_children(one: Restarted) -> None:
    """Restart this object in every process that is forked as long as it exists."""
    _RESTARTED.add(one)


def _before() -> None:
    _FORKING.acquire()
    _CLOSED.extend(_OPEN)
    for one in _CLOSED:
        # If a file cannot be closed properly, the fork goes on.
        with contextlib.suppress(Exception):
            one.before_fork()


def _after() -> None:
    for one in _CLOSED:
        one.after_fork()
    _CLOSED.clear()
    _FORKING.release()


def _after_in_child() -> None:
    _after()
    for one in list(_RESTARTED):
        one.begin_in_child()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
