"""Logs that a test sets up for itself, in a process whose logs others may have set up before."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import structlog

from hubbub.service.observability import logs


@contextlib.contextmanager
def own_logs() -> Iterator[None]:
    """Begin as a process does where nothing set logs up, and leave them as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    # A service that another test began may have lost lines that are not told yet.
    root.handlers[:] = [each for each in handlers if each not in logs._handlers()]
    try:
        yield
    finally:
        logs.flush()
        root.handlers[:], root.level = handlers, level
        structlog.reset_defaults()
