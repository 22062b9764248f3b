"""Defines the interface of a strategy for a boolean that changes over time, and the registry of all strategies."""

from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Protocol

from hubbub.accountant.mechanisms.longitudinal.direct import Direct
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.longitudinal.sampled import Sampled
from hubbub.accountant.mechanisms.longitudinal.tree import Tree
from hubbub.accountant.mechanisms.longitudinal.vector import Vector


class Strategy(Protocol):
    """The interface of every strategy; all its parameters are whole numbers, so its law is exact."""

    kind: ClassVar[str]
    """Its name in tasks and results."""

    @property
    def horizon(self) -> Horizon:
        """The periods, and how often a boolean changes."""

    def epsilon_local(self, period: int | None = None) -> float:
        """Return the local ε of all that a device has sent by the end of `period` (default: the last), rounded up.

        It is valid even if the device's stream depends on published results. Never below the truth.
        """

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return the exact variance of the estimate of f at `period` if `reports` devices took part so far.

        `ones` devices are at 1; `nonzero` values of devices are not 0, over all nodes that make up [1, period]. A
        strategy ignores the arguments that do not affect its error.
        """

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return the largest variance over all streams of the devices, or a little more."""

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return the unbiased estimate of the sum of a node's values, or of f itself if the strategy has no levels.

        `total` is the sum of the values that `reports` devices sent for the node.
        """


AnyStrategy = Sampled | Vector | Tree | Direct

STRATEGIES: Mapping[str, type[AnyStrategy]] = {each.kind: each for each in (Sampled, Vector, Tree, Direct)}
"""Each strategy by its name."""
