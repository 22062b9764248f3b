"""No state file is open in SQLite while a process forks, and threads begin anew in the forked process.

SQLite forbids a connection to be carried into a forked process: there it would hold locks that are not its own, and
could cut the write-ahead log under the process it came from. So the files are closed before a fork, once their
transactions are done, and each side opens them again when it needs them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import Protocol


class Closable(Protocol):
    """Something that is closed, and stays so, while the process forks."""

    def before_fork(self) -> None:
        """Close."""

    def after_fork(self) -> None:
        """Allow it to be opened again."""


class Restarted(Protocol):
    """Something with a thread, which a forked process does not have."""

    def begin_in_child(self) -> None:
        """Begin anew in a process that was forked."""


_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()
_CLOSED: list[Closable] = []
"""What the fork that is under way has closed."""

_RESTARTED: weakref.WeakSet[Restarted] = weakref.WeakSet()

_FORKING = threading.Lock()
"""Held from before a fork until after it: two threads may fork at once."""


def closed_at_forks(one: Closable) -> None:
    """Close this one at every fork as long as it exists."""
    _OPEN.add(one)


def restarted_in_children(one: Restarted) -> None:
    """Begin this one anew in every process that is forked as long as it exists."""
    _RESTARTED.add(one)


def _before() -> None:
    _FORKING.acquire()
    _CLOSED.extend(_OPEN)
    for one in _CLOSED:
        # A file that cannot be closed in order is not a reason not to fork.
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
