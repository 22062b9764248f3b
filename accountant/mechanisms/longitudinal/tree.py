"""`tree`: every node of the dyadic tree, from every device. A central promise."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.written import GAMMA_DENOMINATOR
from hubbub.accountant.numbers import fraction_up

Law = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class Node:
    """How a node's value is sent: the truth, but with probability γ = `gamma` / 2³² a value drawn from the blanket.

    The blanket gives +1, and also −1 where `signed`, with probability b = `side` / 2³² each, else 0. A boolean that
    changes once never falls, so it needs no −1.
    """

    gamma: int
    side: int
    signed: bool = True

    def __post_init__(self) -> None:
        most = GAMMA_DENOMINATOR - 1
        if type(self.gamma) is not int or not 1 <= self.gamma <= most:
            raise AccountingError(f"gamma is {shown(self.gamma)}, must be a whole number from 1 to {most} over 2**32")
        most = (GAMMA_DENOMINATOR - 1) // (2 if self.signed else 1)
        if type(self.side) is not int or not 1 <= self.side <= most:
            raise AccountingError(f"side is {shown(self.side)}, must be a whole number from 1 to {most} over 2**32")

    @property
    def blanket(self) -> Fraction:
        """The probability γ of a value drawn from the blanket."""
        return Fraction(self.gamma, GAMMA_DENOMINATOR)

    @property
    def edge(self) -> Fraction:
        """The probability b of each value but 0 in the blanket."""
        return Fraction(self.side, GAMMA_DENOMINATOR)

    @property
    def values(self) -> tuple[int, ...]:
        """What a node's value can be, and what is sent of it."""
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
        """Return the largest ratio of the two values' probabilities, of anything sent."""
        rows = self.law[self.values.index(value)], self.law[self.values.index(other)]
        return max(top / bottom for top, bottom in zip(*rows, strict=True))

    @cached_property
    def single(self) -> float:
        """Local ε of values that differ by one, rounded up."""
        return log_above(max(self.ratio(0, 1), self.ratio(1, 0)))

    @cached_property
    def double(self) -> float:
        """Local ε of −1 against +1, rounded up; that of `single` where there is no −1."""
        return log_above(self.ratio(1, -1)) if self.signed else self.single

    @property
    def bias(self) -> Fraction:
        """Mean of what is sent where the value is 0."""
        return Fraction(0) if self.signed else self.blanket * self.edge

    def variance(self, reports: int, nonzero: int) -> Fraction:
        """Return the variance of the estimated sum of `reports` values, of which `nonzero` are not 0."""
        gamma, sides = self.blanket, len(self.values) - 1
        zeros = gamma * self.edge * sides - self.bias**2
        more = gamma * (1 - gamma) * (1 if self.signed else 1 - 2 * self.edge)
        return (reports * zeros + nonzero * more) / (1 - gamma) ** 2


@dataclass(frozen=True)
class Tree:
    """At the end of each node every device sends the node's value, 0 too, as the level's `Node` says.

    `nodes` has one for each level, the finest first.
    """

    kind: ClassVar[str] = "tree"

    horizon: Horizon
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        if len(self.nodes) != self.horizon.levels:
            raise AccountingError(
                f"nodes are {len(self.nodes)}, must be {self.horizon.levels}: one for each level of "
                f"{self.horizon.periods} periods"
            )
        if self.horizon.changes > 1 and not all(node.signed for node in self.nodes):
            raise AccountingError(
                f"nodes have no -1, but {self.horizon.changes} changes can make a boolean fall; make them signed"
            )

    def epsilon_local(self, period: int | None = None) -> float:
        """Return the sum over levels of what streams can differ by; see `Level`. Never below the truth."""
        levels = range(self.horizon.levels)
        return fraction_up(sum((self._local(level, period) for level in levels), Fraction(0)))

    def _local(self, level: int, period: int | None) -> Fraction:
        node, slots = self.nodes[level], differences(self.horizon, level, period)
        single, double = Fraction(node.single), Fraction(node.double)
        return slots.singles * single + slots.anything * max(single, double) + slots.pairs * max(2 * single, double)

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return the sum over the nodes of [1, period]."""
        del ones
        nodes = (self.nodes[level] for level, _ in self.horizon.cover(period))
        return sum((node.variance(reports, nonzero) for node in nodes), Fraction(0))

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return it where each device's values are not 0 in the min(k, m) of the m nodes where that counts most."""
        nodes = (self.nodes[level] for level, _ in self.horizon.cover(period))
        rises = sorted((node.variance(0, reports) for node in nodes), reverse=True)
        return self.variance(period, reports) + sum(rises[: self.horizon.changes])

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return (N₊ − N₋ − n·bias)/(1 − γ)."""
        node = self.nodes[level]
        return (total - reports * node.bias) / (1 - node.blanket)


@dataclass(frozen=True)
class Differences:
    """What two streams can differ by at one level.

    Attributes:
        singles: nodes whose values differ by one.
        anything: nodes whose values differ by one or two.
        pairs: twice over, a node whose values differ by two, or two nodes whose values differ by one.
    """

    singles: int
    anything: int
    pairs: int


def differences(horizon: Horizon, level: int, period: int | None = None) -> Differences:
    """Return what covers every way in which two streams of at most k changes can differ at `level`, N nodes so far.

    A value that is not 0 is a change of its stream at least, so the differences' sizes add up to at most 2k. The first
    node cannot differ by two, since a boolean that starts at 0 cannot fall in it; nor can any where k = 1.
    """
    nodes, changes = horizon.nodes(level, period), horizon.changes
    if nodes == 0:
        return Differences(0, 0, 0)
    if changes == 1:
        return Differences(min(2, nodes), 0, 0)
    if nodes <= changes:
        return Differences(1, nodes - 1, 0)
    if nodes < 2 * changes:
        return Differences(0, 2 * changes - nodes, nodes - changes)
    return Differences(0, 0, changes)
