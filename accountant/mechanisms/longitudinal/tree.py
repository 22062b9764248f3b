"""Defines the strategy `tree`: every device sends a node of the dyadic tree each round. Its promise is central."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.numbers import fraction_up

Law = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class Node:
    """The randomizer of a node's value: the truth, but with probability γ = `gamma` / 2³² a draw from the blanket.

    The blanket gives +1, and also −1 if `signed`, with probability b = `side` / 2³² each, else 0. A boolean that
    changes once never falls, so it needs no −1.
    """

    gamma: int
    side: int
    signed: bool = True

    def __post_init__(self) -> None:
        most = GAMMA_DENOMINATOR - 1
        if type(self.gamma) is not int or not 1 <= self.gamma <= most:
            raise AccountingError(f"gamma is {shown(self.gamma)}; give a whole number from 1 to {most} over 2**32")
        most = (GAMMA_DENOMINATOR - 1) // (2 if self.signed else 1)
        if type(self.side) is not int or not 1 <= self.side <= most:
            raise AccountingError(f"side is {shown(self.side)}; give a whole number from 1 to {most} over 2**32")

    @property
    def blanket(self) -> Fraction:
        """The probability γ of a draw from the blanket."""
        return Fraction(self.gamma, GAMMA_DENOMINATOR)

    @property
    def edge(self) -> Fraction:
        """The probability b of each value but 0 in the blanket."""
        return Fraction(self.side, GAMMA_DENOMINATOR)

    @property
    def values(self) -> tuple[int, ...]:
        """The possible values of a node, which are also the values that are sent."""
        return (-1, 0, 1) if self.signed else (0, 1)

    @cached_property
    def law(self) -> Law:
        """Exact probabilities: a row for each of `values`, a column for each of them as it is sent."""
        gamma, edge = self.blanket, self.edge
        shares = [edge if sent else 1 - (len(self.values) - 1) * edge for sent in self.values]
        return tuple(
            tuple(
                gamma * share + (1 - gamma if sent == value else 0)
                for sent, share in zip(self.values, shares, strict=True)
            )
            for value in self.values
        )

    def ratio(self, value: int, other: int) -> Fraction:
        """Return the largest ratio of the two values' probabilities of one output."""
        rows = self.law[self.values.index(value)], self.law[self.values.index(other)]
        return max(top / bottom for top, bottom in zip(*rows, strict=True))

    @cached_property
    def single(self) -> float:
        """Local ε of values that differ by one, rounded up."""
        return log_above(max(self.ratio(0, 1), self.ratio(1, 0)))

    @property
    def bias(self) -> Fraction:
        """Mean of the sent value if the true value is 0."""
        return Fraction(0) if self.signed else self.blanket * self.edge

    def variance(self, reports: int, nonzero: int) -> Fraction:
        """Return the variance of the estimated sum of `reports` values, of which `nonzero` are not 0."""
        gamma, sides = self.blanket, len(self.values) - 1
        zeros = gamma * self.edge * sides - self.bias**2
        more = gamma * (1 - gamma) * (1 if self.signed else 1 - 2 * self.edge)
        return (reports * zeros + nonzero * more) / (1 - gamma) ** 2


@dataclass(frozen=True)
class Tree:
    """In the round of period t every device sends by `node` the value of the longest node that ends with t, also if 0.

    Its length is t's lowest set bit. Only these nodes make up any [1, t], so no others are sent.
    """

    kind: ClassVar[str] = "tree"

    horizon: Horizon
    node: Node

    def __post_init__(self) -> None:
        if self.horizon.changes > 1 and not self.node.signed:
            raise AccountingError(
                f"node has no -1, but {self.horizon.changes} changes can make a boolean fall; make it signed"
            )

    def epsilon_local(self, period: int | None = None) -> float:
        """Return the local ε of a value, times the `units` so far. Never below the truth."""
        # −1 against +1 costs no more than 0 against 1, but counts as two units.
        return fraction_up(units(self.horizon, self.horizon.until(period)) * Fraction(self.node.single))

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return the sum over the nodes of [1, period]."""
        del ones
        return len(self.horizon.cover(period)) * self.node.variance(reports, 0) + self.node.variance(0, nonzero)

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return the variance if each device's values are not 0 in min(k, m) of the m nodes."""
        changed = min(self.horizon.changes, len(self.horizon.cover(period)))
        return self.variance(period, reports, 0, changed * reports)

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return (N₊ − N₋ − n·bias)/(1 − γ)."""
        del level
        return (total - reports * self.node.bias) / (1 - self.node.blanket)


def units(horizon: Horizon, rounds: int) -> int:
    """Return an upper bound of the units by which two streams differ in any so many of the rounds.

    Values that differ by one are one unit, −1 against +1 two. At a level with N of the sent nodes, two streams of k
    changes differ by x + 2w ≤ 2k units, x nodes by one, w by two, and x + w ≤ N. The level's first node cannot differ
    by two, since a boolean at 0 does not fall. If k = 1 no node differs by two.
    """
    # Every other node of a level is sent: those that are not the second half of a longer one.
    counts = [(horizon.nodes(level) + 1) // 2 for level in range(horizon.levels)]
    if horizon.changes == 1:
        return min(rounds, sum(min(2, count) for count in counts))
    return min(2 * rounds, sum(min(2 * horizon.changes, 2 * count - 1) for count in counts))
