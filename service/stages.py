"""Stages: how long the work of a service takes, told to whoever is handed in."""

from __future__ import annotations

from collections.abc import Callable

Observe = Callable[[float], None]
"""Is told how many seconds a piece of work took; called from any thread."""


def unobserved(_seconds: float) -> None:
    """Tell nobody."""
