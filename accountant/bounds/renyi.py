"""Converts Rényi divergences to ε, interpolates between whole orders, and composes by adding.

girgis-2021: Lemma 2.1 (Canonne, Kamath and Steinke, 2020, Prop. 12), Lemma 2.2, and (7).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, exp, expm1, floor, inf, log, log1p, sqrt

from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.pairs.renyi import ORDER_LIMIT

ERROR = 1e-13
"""Relative room for the few double operations of a conversion."""

LOG_ORDERS = (log(1e-3), log(ORDER_LIMIT - 1))
"""Range of ln(λ − 1) that is searched."""

TRIED = 40
"""Orders tried before the best is refined."""

REFINED = 36
"""Steps of the golden section around the best."""


def converted(rho: float, order: float, delta: float) -> float:
    """Return ε ≥ 0, rounded up, such that (ε, `delta`) is valid if the divergence of `order` is at most `rho`.

    ε = ρ + ln(1 − 1/λ) + (ln(1/δ) − ln λ)/(λ − 1); if it is negative, (0, δ) is valid.
    """
    parts = (rho, log1p(-1 / order), -log(delta) / (order - 1), -log(order) / (order - 1))
    # The room is relative to each term, not to their sum, as the terms may cancel.
    return max(0.0, sum(parts) + ERROR * sum(map(abs, parts)))


def epsilon_from_rdp(rho: Callable[[float], float], delta: float) -> float:
    """Return the smallest ε found over orders; inf if `rho` is outside its conditions at every order tried.

    Every order gives a valid ε, so the search can only miss the best one.
    """

    def at(position: float) -> float:
        order = min(1 + exp(position), ORDER_LIMIT)
        try:
            return converted(rho(order), order, delta)
        except OutsideConditions:
            return inf

    low, high = LOG_ORDERS
    step = (high - low) / TRIED
    best = min((at(low + step * place), low + step * place) for place in range(TRIED + 1))
    return min(best[0], _golden(at, best[1] - step, best[1] + step))


def _golden(value: Callable[[float], float], low: float, high: float) -> float:
    ratio = (sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    # The function may have several minima. Any order gives a valid ε, so the least of all tried is returned.
    best = min(at_left, at_right)
    for _ in range(REFINED):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
        best = min(best, at_left, at_right)
    return best


def interpolated(rho: Callable[[float], float], order: float) -> float:
    """Return the bound of a real `order` > 1 from those of whole orders ≥ 2, rounded up (girgis-2021, (7)).

    (λ−1)·D_λ is convex in λ (van Erven and Harremoës, 2014, Cor. 2) and 0 at λ = 1, so it is at most the chord between
    ⌊λ⌋ and ⌈λ⌉, with weight ⌈λ⌉ − λ on ⌊λ⌋.
    """
    below, above = floor(order), ceil(order)
    if below == above:
        return rho(float(order))
    weight = above - order
    lower = (below - 1) * rho(float(below)) if below > 1 else 0.0
    return (weight * lower + (1 - weight) * (above - 1) * rho(float(above))) / (order - 1) * (1 + ERROR)


def log_sum(first: float, second: float) -> float:
    """Return ln(e^first + e^second)."""
    high, low = max(first, second), min(first, second)
    return high + log1p(exp(low - high)) if low > -inf else high


def divergence(inside: float, order: float) -> float:
    """Return ln(1 + e^inside)/(λ − 1), rounded up: the divergence of a moment that exceeds 1 by e^inside."""
    value = inside + log1p(exp(-inside)) if inside > 0 else log1p(exp(inside))
    return value / (order - 1) * (1 + 1e-14)


def advanced(epsilon: float, rounds: int, slack: float) -> float:
    """Return ε of `rounds` adaptive rounds of (ε, δ₁), at Tδ₁ + `slack`, rounded up (Kairouz, Oh, Viswanath, Thm 3.4).

    T·ε·(e^ε − 1)/(e^ε + 1) + ε·√(2T·ln(1/slack)): except for δ₁ a round is at worst binary randomized response of ε.
    So the losses are in [−ε, ε] with at most that mean, and Hoeffding's inequality bounds their sum.
    """
    mean = rounds * epsilon * expm1(epsilon) / (exp(epsilon) + 1) if epsilon < 700 else inf
    return (mean + epsilon * sqrt(-2 * rounds * log(slack))) * (1 + ERROR)
