"""Nodes: the dyadic tree over periods 1, 2, 3, …; node j ≥ 0 of level h is the periods from j·2^h + 1 to (j+1)·2^h.

erlingsson-2019, section 3: what changed in the nodes of [1, t], one a level at most, adds up to the state at t.
"""

from __future__ import annotations


def levels_of(periods: int) -> int:
    """Return how many levels a tree over so many periods has: log₂ of the next power of two, and one."""
    return (periods - 1).bit_length() + 1


def ends(level: int, period: int) -> bool:
    """Whether a node of that level ends with that period."""
    return period % (1 << level) == 0


def start_of(level: int, period: int) -> int:
    """Return the period before the first one of the node that a period is in; 0 for the first node."""
    return (period - 1) >> level << level


def prefix(period: int) -> tuple[tuple[int, int], ...]:
    """Return the nodes that [1, period] is cut into, largest first, each as its level and the period it ends with."""
    found, reached = [], 0
    for level in reversed(range(period.bit_length())):
        if period >> level & 1:
            reached += 1 << level
            found.append((level, reached))
    return tuple(found)
