"""Finds kRR's least γ: a guess from coarse evaluations of its divergence, refined by Newton's method.

Nothing here certifies: `calibration.search` checks the result with the bound itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, exp, inf, log

from hubbub.accountant.calibration.design import NOISE_LEVELS, Target, is_within
from hubbub.accountant.divergence import two_rr
from hubbub.accountant.divergence.binomial_shift import shift_at
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.dummies import diluted_blanket, diluted_guess
from hubbub.accountant.divergence.search import COARSE, FINE
from hubbub.accountant.divergence.sums import blanket_sum
from hubbub.accountant.errors import UnmetTarget
from hubbub.accountant.mechanisms import KRR


def quick(categories: int, target: Target, beaten: Callable[[int], bool]) -> int:
    """Return a w near the least that meets the target, from coarse evaluations; at most that of the local bound.

    It is above each w that the search finds too small. If one of these is `beaten`, that one is returned: the search
    need not go on.
    """
    high = _local_numerator(categories, min(target.epsilon, target.cap))
    floor = _local_numerator(categories, target.cap)
    if high >= NOISE_LEVELS:
        raise _impossible(categories, target)
    low, goal = floor, log(target.delta)
    if low >= high or beaten(low):
        return low
    at_low, at_high = _log_delta(categories, low, target, COARSE) - goal, -inf
    if at_low <= 0:
        return low
    for _ in range(60):
        if high - low <= 1 or high - low <= 1e-6 * low:
            break
        middle = _between(low, high, at_low, at_high)
        value = _log_delta(categories, middle, target, COARSE) - goal
        if value > 0:
            low, at_low = middle, value
            if beaten(low):
                return low
        else:
            high, at_high = middle, value
        if -1e-3 < value <= 0:
            break
    return high


def refined(categories: int, numerator: int, target: Target) -> int:
    """Return the coarse w, moved by Newton's method in ln w to the one at which the fine value meets the target.

    It never exceeds the w whose local ε is the target's, which meets the target with any number of people. With few
    reports δ falls so steeply just below that w that a step, or its small margin, could pass it.
    """
    floor = _local_numerator(categories, target.cap)
    local = _local_numerator(categories, min(target.epsilon, target.cap))
    for _ in range(2):
        below = max(1, numerator - max(1, numerator // 256))
        here, there = (_log_delta(categories, w, target, FINE) for w in (numerator, below))
        if here == -inf or not there > here:
            return numerator
        slope = (there - here) / log(numerator / below)
        # A little above the root: more γ is more privacy, and the bound itself checks the result.
        moved = numerator * exp(min((here - log(target.delta)) / slope, 30.0)) * (1 + 4e-6)
        numerator = min(max(ceil(moved), floor, 1), local, NOISE_LEVELS - 1)
    return numerator


@lru_cache(maxsize=64)
def _local_numerator(categories: int, epsilon_local: float) -> int:
    """Return the least w whose mechanism is `epsilon_local`-LDP."""
    gamma = KRR.from_local_epsilon(categories, min(epsilon_local, 40.0)).gamma
    numerator = -(-gamma.numerator * NOISE_LEVELS // gamma.denominator)
    while numerator < NOISE_LEVELS and not is_within(KRR.from_numerator(categories, numerator), epsilon_local):
        numerator += 1
    return numerator


def _between(low: int, high: int, at_low: float, at_high: float) -> int:
    """Return the secant's point in ln w, or the geometric middle; strictly between both ends."""
    share = at_low / (at_low - at_high) if at_high > -inf else 0.5
    share = min(max(share, 0.02), 0.98)
    middle = int(exp(log(low) + share * (log(high) - log(low))))
    return min(max(middle, low + 1), high - 1)


# Cached, as the sizes that are compared, and the families, have paths in common with what is refined at last.
@lru_cache(maxsize=1024)
def _log_delta(categories: int, numerator: int, target: Target, precision: float) -> float:
    """Return ln δ at the target's ε and w = `numerator`: it only guides the search, the bound itself decides."""
    mechanism = KRR.from_numerator(categories, numerator)
    if is_within(mechanism, target.epsilon):
        return -inf
    if categories > 2 and target.dummies and precision >= COARSE:
        return diluted_guess(mechanism, target.hiding, target.epsilon, target.dummies)
    if categories > 2 and target.dummies:
        return diluted_blanket(mechanism, target.hiding, target.epsilon, target.dummies, precision).upper
    if categories > 2:
        return positive_part(blanket_sum(mechanism, target.hiding, target.epsilon), precision).upper
    shift = shift_at(mechanism, target.epsilon, target.dummies)
    return -inf if shift is None else two_rr.best_attack(shift, target.hiding).upper


def _impossible(categories: int, target: Target) -> UnmetTarget:
    return UnmetTarget(
        f"epsilon {target.epsilon:g} at delta {target.delta:g} cannot be met by {target.hiding} reports over "
        f"{categories} symbols; collect more reports or allow a larger epsilon"
    )
