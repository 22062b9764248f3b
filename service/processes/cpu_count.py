"""Counts the cores that this process may use, which may be fewer than the machine has."""

from __future__ import annotations

import os


def cpu_count() -> int:
    """Return how many cores this process and its children may run on: at least 1.

    A container or `taskset` may allow only some cores; more processes than allowed cores would slow each other down.
    """
    allowed = getattr(os, "sched_getaffinity", None)
    return (len(allowed(0)) if allowed is not None else os.cpu_count()) or 1
