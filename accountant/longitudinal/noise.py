"""Starts the search for the least noise, and divides a tree node's noise between γ and b. Nothing here certifies."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, log, sqrt

from hubbub.accountant.mechanisms import TreeNodes
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.longitudinal import Horizon

GAMMA_MOST = 0.1
"""Largest γ that is chosen while b is small: above 0.1 the gain is under a hundredth, and changes cost more."""

SIDE_MOST = 0.03
"""Largest b that is chosen while γ can still rise: below it 0 hides nearly as well as if b were 0."""

GAMMA_LEAST = 1e-6
"""Smallest γ that is tried."""

STEPS = 200
"""How many values of γ are tried, evenly spaced in ln γ."""


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return μ such that two Gaussians at that distance have δ at ε (Balle and Wang, 2018, Thm 8).

    For many reports this is about right.
    """

    def reached(mu: float) -> float:
        return _normal(mu / 2 - epsilon / mu) - exp(epsilon) * _normal(-mu / 2 - epsilon / mu)

    low, high = 1e-12, 100.0
    for _ in range(100):
        middle = sqrt(low * high)
        low, high = (middle, high) if reached(middle) < delta else (low, middle)
    return low


def _normal(x: float) -> float:
    return erfc(-x / sqrt(2)) / 2


def binary_numerator(variance: float) -> int:
    """Return w of the kRR of two values whose estimate has that variance a report: p(1 − p)/(1 − 2p)², p = w/2³³."""
    # 1 − 1/√(1 + 4v), in a form in which no digits cancel if v is small.
    root = sqrt(1 + 4 * variance)
    return min(max(int(4 * variance / (root * (root + 1)) * GAMMA_DENOMINATOR) + 1, 1), GAMMA_DENOMINATOR - 1)


@dataclass(frozen=True)
class NodeNoise:
    """The rule that gives γ and b of a tree's node from one scale s = γb/(1 − γ)²; a value's variance is about 2s.

    The cost of a change by one falls as 1/s. b is at most `side_most` while γ can still rise: a small b hides zeros
    cheaply, and the b of the uniform blanket has the least local ε. γ is `GAMMA_MOST` until b reaches that limit. If a
    share `changing` of the people change within a node, each adds γ/(1 − γ); γ then balances this against the cost of a
    smaller γ.
    """

    horizon: Horizon
    side_most: float
    changing: float = 0.0

    @classmethod
    def shapes(cls, horizon: Horizon, changing: float = 0.0) -> tuple[NodeNoise, NodeNoise]:
        """Return the rule that hides zeros cheaply, and the rule with the least local ε."""
        uniform = 1 / 3 if horizon.changes > 1 else 1 / 2
        return cls(horizon, SIDE_MOST, changing), cls(horizon, uniform, changing)

    def at(self, scale: float) -> TreeNodes:
        """Return the nodes of the scale s."""
        gamma = max(self._gamma(scale), _root(scale / self.side_most))
        side = min(self.side_most, scale * (1 - gamma) ** 2 / gamma)
        return TreeNodes(self.horizon.periods, self.horizon.changes, _numerator(gamma), _numerator(side))

    def _gamma(self, scale: float) -> float:
        most = max(GAMMA_MOST, _root(scale / self.side_most))
        if self.changing <= 0:
            return most

        def loss(gamma: float) -> float:
            return gamma * self.changing / (1 - gamma) + 2 * scale**2 * (1 - gamma) ** 2 / gamma

        octaves = log(most / GAMMA_LEAST)
        return min((most * exp(-octaves * step / STEPS) for step in range(STEPS + 1)), key=loss)


def open_nodes(horizon: Horizon, scale: float) -> TreeNodes:
    """Return the nodes of the least local ε of the scale s = γb/(1 − γ)²: their blanket is uniform.

    Beside noise of the shuffler a person needs no blanket, so what counts is the local ε and the variance of a value.
    """
    side = 1 / 3 if horizon.changes > 1 else 1 / 2
    return TreeNodes(horizon.periods, horizon.changes, _numerator(_root(scale / side)), _numerator(side))


def _root(ratio: float) -> float:
    """Return γ with (1 − γ)²·ratio = γ, computed so that no digits cancel."""
    return 2 * ratio / (2 * ratio + 1 + sqrt(1 + 4 * ratio))


def _numerator(probability: float) -> int:
    return min(max(int(probability * GAMMA_DENOMINATOR), 1), GAMMA_DENOMINATOR - 1)
