"""Defines the callback that receives the duration of each piece of a service's work."""

from __future__ import annotations

from collections.abc import Callable

Observe = Callable[[float], None]
"""Receives the seconds of a piece of work; called from any thread."""


def unobserved(_seconds: float) -> None:
    """Ignore the duration."""
