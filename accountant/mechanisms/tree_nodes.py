"""Defines the reports of the strategy `tree`: each round the longest node that ends with it, sent by one `Node`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact_values import (
    GAMMA_DENOMINATOR,
    Fits,
    check_content,
    is_count,
    is_ratio,
    short_repr,
)
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.longitudinal.tree import Node, units


@dataclass(frozen=True)
class TreeNodes:
    """In the round of period t each person sends the value of the longest node that ends with t (t's lowest set bit).

    Only these nodes make up any [1, t], so a round has one report of a person. A `Node` sends each value, with
    γ = `gamma` / 2³² and b = `side` / 2³²; it has a −1 if there are two `changes` or more. A person pays in *units*: a
    value that differs by one is one unit, −1 against +1 two of them (accounting-tree.md, "Units"). `alone` is one round
    without the others, in which values differ by one or by two; it is never written.
    """

    kind: ClassVar[str] = "tree-nodes"
    members: ClassVar[Mapping[str, Fits]] = {
        "changes": is_count,
        "gamma": is_ratio,
        "periods": is_count,
        "side": is_ratio,
    }
    counts_dummies: ClassVar[bool] = False

    periods: int
    changes: int
    gamma: int
    side: int
    alone: bool = False

    __repr__ = short_repr

    def __post_init__(self) -> None:
        # The horizon and the node check the numbers.
        self.horizon  # noqa: B018
        self.node  # noqa: B018
        if type(self.alone) is not bool:
            raise AccountingError(f"alone is {shown(self.alone)}; give true or false")

    @cached_property
    def horizon(self) -> Horizon:
        """The periods and changes."""
        return Horizon(self.periods, self.changes)

    @cached_property
    def node(self) -> Node:
        """The randomizer of every value. It needs no −1 if a boolean changes only once, as it then never falls."""
        return Node(self.gamma, self.side, signed=self.changes > 1)

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        return {
            "mechanism": self.kind,
            "changes": self.changes,
            "gamma": [self.gamma, GAMMA_DENOMINATOR],
            "periods": self.periods,
            "side": [self.side, GAMMA_DENOMINATOR],
        }

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "TreeNodes":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls(content["periods"], content["changes"], content["gamma"][0], content["side"][0])

    @property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of two values' probabilities of one output: that of 0 and 1, exactly."""
        # −1 against +1 also has (1 − γ + γb)/(γb): one unit's ε covers a difference by two, which pays two units.
        return max(self.node.ratio(0, 1), self.node.ratio(1, 0))

    @property
    def epsilon_local(self) -> float:
        """Local ε of a unit, and of any one value; rounded up."""
        return self.node.single

    @property
    def one_round(self) -> "TreeNodes":
        """Return the law of one round alone."""
        return replace(self, alone=True)

    def paid(self, rounds: int) -> int:
        """Return an upper bound of the units that any so many of the rounds cost a person."""
        return units(self.horizon, rounds)
