"""The longest node that ends with the round, as one `Node` sends every value."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR, Fits, check_content, is_count, is_ratio
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.longitudinal.tree import Node, units


@dataclass(frozen=True)
class TreeNodes:
    """In the round of period t each person sends the value of the node of t's lowest binary one, which ends with t.

    Only these nodes make up any [1, t], so a round has one report of a person. A value is sent as `Node` says, with
    γ = `gamma` / 2³² and b = `side` / 2³²; it has a −1 where there are two `changes` or more. A person pays in
    *units*: a value that differs by one is one unit, −1 against +1 two of them (accounting-tree.md, "Units"). `alone`
    is one round by itself, where values differ by one or by two; it is never written.
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

    def __post_init__(self) -> None:
        # What is wrong with a number is said by the horizon and the node.
        self.horizon  # noqa: B018
        self.node  # noqa: B018
        if type(self.alone) is not bool:
            raise AccountingError(f"alone is {shown(self.alone)}, must be true or false")

    @cached_property
    def horizon(self) -> Horizon:
        """The periods and changes."""
        return Horizon(self.periods, self.changes)

    @cached_property
    def node(self) -> Node:
        """How every value is sent. A boolean that changes once never falls."""
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
        """Read what `content` wrote; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls(content["periods"], content["changes"], content["gamma"][0], content["side"][0])

    @property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of two values' probabilities of anything sent: that of 0 and 1, exactly."""
        # −1 against +1 has (1 − γ + γb)/(γb) too: so a unit's ε covers a difference by two, and two units do amply.
        return max(self.node.ratio(0, 1), self.node.ratio(1, 0))

    @property
    def epsilon_local(self) -> float:
        """Local ε of a unit, and of any one value; rounded up."""
        return self.node.single

    @property
    def one_round(self) -> "TreeNodes":
        """What one round alone shows."""
        return replace(self, alone=True)

    def paid(self, rounds: int) -> int:
        """Return the units that any so many of the rounds cost a person, however they are chosen; never too few."""
        return units(self.horizon, rounds)
