"""Finds the encoding with the least error; sizes are compared by a quick function."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

Error = Callable[[int, float], float]
"""Returns the error of a size; or any number above the second one, the least error so far, if the error is above it."""


def best_size(error: Error, sizes: range) -> int:
    """Return the size of the least error, which falls, then rises along the sizes, with ripples at the minimum."""
    return sizes[_least_error(lambda place, most: error(sizes[place], most), len(sizes))]


def _least_error(error: Error, places: int) -> int:
    """Return the place in range(places) with the least error, which falls, then rises, with ripples at the minimum."""
    if places == 1:
        return 0
    known: dict[int, float] = {}

    def at(place: int) -> float:
        # The least error so far is that of the best place so far, and the only one that others are compared with.
        if place not in known:
            known[place] = error(place, min(known.values(), default=inf))
        return known[place]

    best, step, last = 0, 1, places - 1
    while best + step <= last and at(best) > at(best + step):
        best, step = best + step, max(1, (best + step + 1) // 2)
    while step > 1:
        step = max(1, step // 2)
        near = [best + i * step for i in (-2, -1, 0, 1, 2) if 0 <= best + i * step <= last]
        best = min(near, key=at)
    return min(range(max(0, best - 2), min(last, best + 2) + 1), key=at)
