"""Where a search for the least noise begins, and how a tree's noise is shared by its levels. Nothing here certifies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import erfc, exp, inf, log, log2, sqrt

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms.longitudinal import Horizon, Node, Tree
from hubbub.accountant.mechanisms.longitudinal.tree import differences
from hubbub.accountant.mechanisms.written import GAMMA_DENOMINATOR

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
class TreeNoise:
    """How γ and b of each level follow from one scale σ.

    With s = γb/(1 − γ)², a report's variance is about 2s (s without −1), and a node that differs by one costs
    about (1/s + (1 − γ)²/(γω₀))/n in μ². To spend a given sum of the costs so that the mean error over all periods is
    least, s is in proportion to √(T/w): T nodes differ, and the node is used in a share w of all periods. What is left
    of γ weighs its part of the cost against the noise of values that are not 0, γ/(1 − γ) each.
    b is at most `side_most` while γ can still rise: a third where it is the local ε that has to be small.
    """

    horizon: Horizon
    changing: float
    side_most: float = SIDE_MOST

    @property
    def signed(self) -> bool:
        """Whether a boolean can fall."""
        return self.horizon.changes > 1

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """T of each level, in nodes that differ by one; one that differs by two counts twice."""
        slots = (differences(self.horizon, level) for level in range(self.horizon.levels))
        return tuple(float(each.singles + 2 * each.anything + 2 * each.pairs) for each in slots)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """W of each level."""
        periods = self.horizon.periods
        covers = [self.horizon.cover(period) for period in range(1, periods + 1)]
        return tuple(
            sum(any(h == level for h, _ in cover) for cover in covers) / periods for level in range(self.horizon.levels)
        )

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """√(T/w) of each level, to the nearest quarter of an octave: few different nodes are quick to compose."""
        return tuple(
            exp(log(2) * float(round(2 * log2(t / w))) / 4) for t, w in zip(self.costs, self.shares, strict=True)
        )

    def tree(self, scale: float) -> Tree:
        """Return the tree whose level has s = scale·√(T/w)."""
        return Tree(self.horizon, tuple(self._node(scale, weight) for weight in self.weights))

    def _node(self, scale: float, weight: float) -> Node:
        s, largest = scale * weight, 1 / 3 if self.signed else 1 / 2
        # b = s(1 − γ)²/γ may not be above that of the uniform blanket: from this γ on it is not.
        gamma = max(self._gamma(s), _root(s / largest))
        side = min(s * (1 - gamma) ** 2 / gamma, largest)
        most = (GAMMA_DENOMINATOR - 1) // (2 if self.signed else 1)
        return Node(
            min(max(int(gamma * GAMMA_DENOMINATOR), 1), GAMMA_DENOMINATOR - 1),
            min(max(int(side * GAMMA_DENOMINATOR), 1), most),
            self.signed,
        )

    def _gamma(self, s: float) -> float:
        """Return γ that weighs what it costs against what it adds where values are not 0."""
        most = max(GAMMA_MOST, _root(s / self.side_most))
        if self.changing <= 0:
            return most

        def loss(gamma: float) -> float:
            return gamma * self.changing / (1 - gamma) + 2 * s**2 * (1 - gamma) ** 2 / gamma

        octaves = log(most / GAMMA_LEAST)
        return min((most * exp(-octaves * step / STEPS) for step in range(STEPS + 1)), key=loss)

    def scale_for(self, mu: float, reports: int) -> float:
        """Return the scale at which a Gaussian of the same cost is at distance `mu`."""
        low, high = 1e-15, 1e15
        for _ in range(60):
            middle = sqrt(low * high)
            low, high = (low, middle) if self._cost(middle, reports) <= mu**2 else (middle, high)
        return high

    def _cost(self, scale: float, reports: int) -> float:
        return sum(t * _node_cost(node, reports) for t, node in zip(self.costs, self.tree(scale).nodes, strict=True))

    def least_scale(self, cap: float) -> float:
        """Return a scale at which the local ε of the horizon is at most `cap`, nearly the least."""
        if cap == inf:
            return 0.0
        low, high = 1e-15, 1e15
        if self.tree(high).epsilon_local() > cap:
            raise AccountingError(
                f"epsilon_local cap is {cap:g}, too small for a tree over {self.horizon.periods} periods; raise it, or "
                "choose vector"
            )
        while high > low * 1.001:
            middle = sqrt(low * high)
            low, high = (low, middle) if self.tree(middle).epsilon_local() <= cap else (middle, high)
        return high


def _root(ratio: float) -> float:
    """Return γ with (1 − γ)²·ratio = γ."""
    return 1 - 2 / (1 + sqrt(1 + 4 * ratio)) if ratio > 0 else 0.0


def _node_cost(node: Node, reports: int) -> float:
    gamma, edge = float(node.blanket), float(node.edge)
    zeros = 1 - edge * (len(node.values) - 1)
    return (1 - gamma) ** 2 / (reports * gamma) * (1 / zeros + 1 / edge)
