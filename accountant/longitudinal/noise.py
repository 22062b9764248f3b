"""Where a search for the least noise begins, and how a tree's node shares its noise out. Nothing here certifies."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, log, sqrt

from hubbub.accountant.mechanisms import TreeNodes
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.longitudinal import Horizon

GAMMA_MOST = 0.1
"""Largest γ that is chosen while b is small: beyond a tenth less than a hundredth is gained, and changes cost more."""

SIDE_MOST = 0.03
"""Largest b that is chosen while γ can still rise: below it 0 hides nearly as well as if b were nothing."""

GAMMA_LEAST = 1e-6
"""Smallest γ that is looked at."""

STEPS = 200
"""Places at which γ is looked at, evenly in its logarithm."""


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return μ at which a Gaussian of that distance has δ at ε (Balle and Wang, 2018, Thm 8): about right for many."""

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
    # 1 − 1/√(1 + 4v), written so that no digits cancel where v is small.
    root = sqrt(1 + 4 * variance)
    return min(max(int(4 * variance / (root * (root + 1)) * GAMMA_DENOMINATOR) + 1, 1), GAMMA_DENOMINATOR - 1)


@dataclass(frozen=True)
class NodeNoise:
    """How γ and b of a tree's node follow from one scale s = γb/(1 − γ)²; a value's variance is about 2s.

    What a change by one costs falls as 1/s. b is at most `side_most` while γ can still rise: a small one hides zeros
    cheaply, the uniform blanket's has the least local ε. γ is `GAMMA_MOST` until b is that; where a share `changing` of
    the people change within a node, which adds γ/(1 − γ) each, it weighs that against what a smaller γ costs.
    """

    horizon: Horizon
    side_most: float
    changing: float = 0.0

    @classmethod
    def shapes(cls, horizon: Horizon, changing: float = 0.0) -> tuple[NodeNoise, NodeNoise]:
        """Return the one that hides zeros cheaply, and the one with the least local ε."""
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


def _root(ratio: float) -> float:
    """Return γ with (1 − γ)²·ratio = γ, written so that no digits cancel."""
    return 2 * ratio / (2 * ratio + 1 + sqrt(1 + 4 * ratio))


def _numerator(probability: float) -> int:
    return min(max(int(probability * GAMMA_DENOMINATOR), 1), GAMMA_DENOMINATOR - 1)
