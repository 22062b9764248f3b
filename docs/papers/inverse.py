"""The largest local ε at which it still promises a given central (ε, δ)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hubbub.accountant.bounds.bound import Bound
from hubbub.accountant.errors import OutsideConditions

GROWTH = 1.15
"""Steps in which the local ε is raised until the bound no longer holds."""

LEAST_SHARE = 0.01
"""The first local ε tried, as a share of the central one."""

MOST = 30.0
"""The largest local ε tried."""

PRECISION = 1e-7
"""Relative distance between the local ε that is returned, where the bound holds, and one where it fails."""


def largest_local_epsilon(
    bound: Bound, mechanism_at: Callable[[float], Any], reports: int, epsilon: float, delta: float
) -> float:
    """Return a local ε at which `bound` was checked to promise (`epsilon`, `delta`), and just above which it does not.

    It is the end of the range that begins at 1 % of `epsilon`; a bound that held again further up is not looked for.

    Raises:
        OutsideConditions: the bound promises this at no local ε that was tried.
    """

    def holds(local: float) -> bool:
        try:
            mechanism = mechanism_at(local)
            if "delta" in bound.gives:
                return bound.delta(mechanism, reports, epsilon)[1] <= delta
            return bound.epsilon(mechanism, reports, delta).upper <= epsilon
        except OutsideConditions:
            return False

    low = LEAST_SHARE * epsilon
    if not holds(low):
        raise OutsideConditions(
            f"bound {bound.name!r} promises ε = {epsilon:g} at δ = {delta:g} at no local ε, with {reports} reports"
        )
    high = GROWTH * low
    while high < MOST and holds(high):
        low, high = high, GROWTH * high
    # The bound was checked at `low` throughout, so `low` is returned: the side that does not promise too much.
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
