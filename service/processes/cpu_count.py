"""How many cores this process may use, which may be fewer than the machine has."""

from __future__ import annotations

import os


def cpu_count() -> int:
    """Return how many cores this process, and what it starts, may run on: at least 1.

    A container or `taskset` may have allowed it some of them; a process for each of the others would be in the way.
    """
    allowed = getattr(os, "sched_getaffinity", None)
    return (len(allowed(0)) if allowed is not None else os.cpu_count()) or 1
