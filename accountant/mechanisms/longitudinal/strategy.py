"""How devices tell of a boolean that changes over time, and the registry of all of them."""

from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Protocol

from hubbub.accountant.mechanisms.longitudinal.direct import Direct
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.longitudinal.sampled import Sampled
from hubbub.accountant.mechanisms.longitudinal.tree import Tree
from hubbub.accountant.mechanisms.longitudinal.vector import Vector


class Strategy(Protocol):
    """What every strategy says of itself; all its parameters are whole numbers, so its law is exact."""

    kind: ClassVar[str]
    """The word for it in tasks and results."""

    @property
    def horizon(self) -> Horizon:
        """The periods, and how often a boolean changes."""

    def epsilon_local(self, period: int | None = None) -> float:
        """Return the local ε of all that a device has sent when `period` ends (the last one), rounded up.

        It holds however the device's stream reacts to what was published. Never below the truth.
        """

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return the variance of the estimate of f at `period`, exactly, where `reports` devices took part so far.

        `ones` devices are at 1; `nonzero` values of devices are not 0, over all nodes that make up [1, period]. What a
        strategy's error does not depend on it ignores.
        """

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return the largest variance over all streams of the devices, or a little more."""

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return the unbiased estimate of the sum of a node's values, or of f itself where `level` is of no matter.

        `total` is the sum of what `reports` devices sent for it.
        """


AnyStrategy = Sampled | Vector | Tree | Direct

STRATEGIES: Mapping[str, type[AnyStrategy]] = {each.kind: each for each in (Sampled, Vector, Tree, Direct)}
"""Each strategy by its word."""
