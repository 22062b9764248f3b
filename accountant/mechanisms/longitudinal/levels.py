"""Bounds how many people have a person's level: missing a round shows it, and then only these hide the person."""

from math import floor, inf, log
from typing import Final

LEVEL_SHARE: Final = 1e-3
"""The chance of fewer devices than `level_people` returns, as a share of δ."""


def level_people(levels: int, people: int, delta: float) -> int:
    """Return a lower bound of how many of `people` have a given device's level, the device included.

    The bound fails with a chance of at most δ·`LEVEL_SHARE`. Levels are drawn uniformly, so B(n − 1, p) others have the
    same level, p = 1/levels. Chernoff's bound: P(B ≤ s) ≤ e^{−(n−1)·KL(s/(n−1) ‖ p)} for s below the mean. The smallest
    number that is not so unlikely is returned.
    """
    if levels == 1 or people <= 1:
        return max(1, people)
    others, log_tail = people - 1, -log(delta * LEVEL_SHARE)
    rare, usual = -1, floor(others / levels)
    while usual - rare > 1:
        middle = (rare + usual) // 2
        if _log_chance(middle, others, levels) <= -log_tail * (1 + 1e-9):
            rare = middle
        else:
            usual = middle
    return 1 + usual


def _log_chance(count: int, others: int, levels: int) -> float:
    """Return ln of Chernoff's bound on at most `count` of `others`, below their mean."""
    share = count / others
    at_zero = others * log(1 - 1 / levels)
    if count == 0:
        return at_zero
    if share >= 1:
        return inf
    return -others * (share * log(share * levels) + (1 - share) * log((1 - share) / (1 - 1 / levels)))
