"""The callback that is told how long each piece of a service's work took."""

from __future__ import annotations

from collections.abc import Callable

Observe = Callable[[float], None]
"""Is told how many seconds a piece of work took; called from any thread."""


def unobserved(_seconds: float) -> None:
    """Tell nobody."""
