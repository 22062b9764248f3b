"""What the papers' closed forms give for the same questions. For comparison only: nothing here certifies."""

from __future__ import annotations

from math import ceil, comb, exp, expm1, floor, inf, lgamma, log, log1p, sqrt


def stronger_clones_closed(epsilon_local: float, reports: int, delta: float) -> float:
    """feldman-2022, Thm 3.2, for ε₀ ≤ ln(n/(8 ln(2/δ)) − 1); the local ε elsewhere."""
    if epsilon_local > log(max(reports / (8 * log(2 / delta)) - 1, 1e-300)):
        return epsilon_local
    root = 4 * sqrt(2 * log(4 / delta)) / sqrt((exp(epsilon_local) + 1) * reports)
    return log1p(expm1(epsilon_local) * (root + 4 / reports))


def clones_closed(epsilon_local: float, reports: int, delta: float) -> float:
    """The clones' closed form, for ε₀ ≤ ln(n/(16 ln(2/δ))); the local ε elsewhere."""
    if epsilon_local > log(reports / (16 * log(2 / delta))):
        return epsilon_local
    ratio = exp(epsilon_local)
    root = 8 * sqrt(ratio * log(4 / delta)) / sqrt(reports)
    return log1p((ratio - 1) / (ratio + 1) * (root + 8 * ratio / reports))


def renyi_composed(epsilon_local: float, reports: int, rounds: int, delta: float, largest: int = 200) -> float:
    """girgis-2021, (5) with the binomial (λ choose 2) and all inside the logarithm; composed; ε by its Lemma 2.1."""
    best = inf
    for order in range(2, largest + 1):
        renyi = log1p(_excess_moment(epsilon_local, reports, order)) / (order - 1)
        turned = (log(1 / delta) + (order - 1) * log1p(-1 / order) - log(order)) / (order - 1)
        best = min(best, rounds * renyi + turned)
    return best


def _excess_moment(epsilon_local: float, reports: int, order: int) -> float:
    ratio = exp(epsilon_local)
    users = floor((reports - 1) / (2 * ratio)) + 1
    base = (ratio**2 - 1) ** 2 / (2 * ratio**2 * users)
    higher = sum(exp(log(comb(order, i)) + log(i) + lgamma(i / 2) + i / 2 * log(base)) for i in range(3, order + 1))
    tail = exp(max(epsilon_local * order - (reports - 1) / (8 * ratio), -700.0))
    return comb(order, 2) * (ratio - 1) ** 2 / (users * ratio) + higher + tail


def sum_by_theorem(epsilon: float, delta: float, reports: int) -> tuple[int, float]:
    """Levels and γ of balle-2019, Thm 4.1 with Thm 3.1's γ: k = (n/c)^{1/3}, γ = c(k+1)/n, c = 14 ln(2/δ)/ε²."""
    constant = max(14 * log(2 / delta) / epsilon**2, 27 / epsilon)
    levels = ceil((reports / constant) ** (1 / 3))
    return levels, constant * (levels + 1) / (reports - 1)
