"""Exact worst-case errors of the unbiased estimators, which calibration minimises (docs/accounting.md)."""

from math import inf

from hubbub.accountant.mechanisms import KRR


def histogram_mse(mechanism: KRR, reports: int, dummies: int = 0) -> float:
    """Largest variance of one category's estimated count, over all inputs of the `reports` clients.

    ĉ = (N − nγ/k)/(1−γ) has variance (c·q(1−q) + (n−c)·r(1−r))/(1−γ)², q = 1−γ+γ/k, r = γ/k, linear in the true
    count c: the larger of c = 0 and c = n. Each dummy, uniform on all k, adds (1/k)(1−1/k)/(1−γ)². Infinite where
    γ = 1.
    """
    if mechanism.gamma == 1:
        return inf
    right, wrong = float(mechanism.truthful), float(mechanism.other)
    variance = max(right * float(1 - mechanism.truthful), wrong * (1 - wrong))
    dummy = (1 - 1 / mechanism.categories) / mechanism.categories
    return (reports * variance + dummies * dummy) / float(1 - mechanism.gamma) ** 2


def sum_mse(mechanism: KRR, levels: int, reports: int, *, optional: bool = False, dummies: int = 0) -> float:
    """Largest variance of the estimated sum over inputs in [0, 1]ⁿ (or no answer, where `optional`).

    One debiased report has (1−γ)²·variance (1−γ)(x² + f(1−f)/L²) + γ·g₂ − ((1−γ)x + γ·g₁)², f = frac(xL), L levels,
    g₁ and g₂ the first two moments of a uniform symbol's value. In f it is a concave parabola, for fixed f a convex
    one in the cell: the maximum lies in an end cell, at its vertex, or at "no answer". Infinite where γ = 1.
    """
    if mechanism.gamma == 1:
        return inf
    gamma, rest = float(mechanism.gamma), float(1 - mechanism.gamma)
    first = (levels + 1) / 2 / mechanism.categories
    second = (levels + 1) * (2 * levels + 1) / (6 * levels) / mechanism.categories
    cells = [_largest_in_cell(start, levels, gamma, rest, first) for start in (0, levels - 1)]
    silent = [-((gamma * first) ** 2)] if optional else []
    variance = max(cells + silent) + gamma * second
    dummy = second - first**2
    return (reports * variance + dummies * dummy) / rest**2


def _largest_in_cell(start: int, levels: int, gamma: float, rest: float, first: float) -> float:
    """Maximum over f in [0, 1] of rest·(x² + f(1−f)/L²) − (rest·x + γ·first)², x = (start + f)/L."""

    def value(f: float) -> float:
        x = (start + f) / levels
        return rest * (x * x + f * (1 - f) / levels**2) - (rest * x + gamma * first) ** 2

    rise = rest * (2 * start + 1) / levels**2 - 2 * rest * (rest * start / levels + gamma * first) / levels
    vertex = min(max(rise * levels**2 / (2 * rest**2), 0.0), 1.0)
    return max(value(0.0), value(vertex), value(1.0))
