"""Defines the paper's own strategy, `sampled`: one change at one level.

It is erlingsson-2019, Alg. 1 and 2, with errata 3 and 11.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.longitudinal.signs import check_weight, most_signs, signs_variance


@dataclass(frozen=True)
class Sampled:
    """Each device draws a level h* and a number κ* in [k], uniformly, and keeps its κ*-th change only.

    At the end of every node of the level it sends a sign. In the node of the kept change it is the change's sign with
    probability E/(1 + E), E = `weight` / 2³², else the other; in all other nodes it is a fair coin. The device sends at
    every such time, also if nothing changed, as silence would reveal that (erratum 3). The coin's odds are E, not √E as
    printed: with a fair coin elsewhere the whole sequence is ln E-LDP (erratum 11).
    """

    kind: ClassVar[str] = "sampled"

    horizon: Horizon
    weight: int

    def __post_init__(self) -> None:
        check_weight(self.weight)

    @property
    def odds(self) -> Fraction:
        """E, the odds of a true sign."""
        return Fraction(self.weight, GAMMA_DENOMINATOR)

    @property
    def truthful(self) -> Fraction:
        """The probability E/(1 + E) of a true sign."""
        return Fraction(self.weight, self.weight + GAMMA_DENOMINATOR)

    @property
    def gap(self) -> Fraction:
        """Mean of a true change's sign times the change: (E − 1)/(E + 1), which is 1/c_ε."""
        return 2 * self.truthful - 1

    @cached_property
    def scale(self) -> Fraction:
        """The factor of a sum of signs: k·(⌊log₂ d⌋ + 1)/gap (erratum 3)."""
        return self.horizon.changes * self.horizon.levels / self.gap

    def epsilon_local(self, period: int | None = None) -> float:
        """Return ln max (1 + gap·a/k)/(1 − gap·b/k), (a, b) = `most_signs` at the finest level, or exchanged.

        Averaged over κ*, the density of signs y relative to fair coins is 1 + (gap/k)·Σ y_j·z_j over the nodes j.
        """
        return log_above(max(self._ratio(*ends) for ends in _both(most_signs(self.horizon, 0, period))))

    @property
    def epsilon_sign(self) -> float:
        """Local ε of one sign alone, rounded up."""
        return log_above(self._ratio(1, 1))

    def _ratio(self, agreeing: int, contradicting: int) -> Fraction:
        share = self.gap / self.horizon.changes
        return (1 + share * agreeing) / (1 - share * contradicting)

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return n·m·(levels)·k²/gap² − f, with m the number of nodes in [1, period]."""
        del nonzero
        return signs_variance(self.horizon, self.scale, period, reports, ones)

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return the variance for streams that are always 0."""
        return self.variance(period, reports)

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return `scale` times the sum of the signs."""
        del level, reports
        return self.scale * total


def _both(ends: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    return ends, (ends[1], ends[0])
