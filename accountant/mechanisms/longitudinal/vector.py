"""Defines the strategy `vector`: all changes at one level, through one vector of coins.

Its promise is local, for any number of periods.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.mechanisms.longitudinal.signs import check_weight, most_signs, signs_variance, weight_of


@dataclass(frozen=True)
class Vector:
    """Each device draws once a uniform level and a vector v of k signs.

    v has weight E = `weight` / 2³² if at most `minuses` (r) of its signs are −1, else 1. The i-th node of the level
    whose value is not 0, of sign s, sends s·v_i; nodes of value 0 send fair coins. accounting-longitudinal.md proves
    that the whole sequence is ln E-LDP.
    """

    kind: ClassVar[str] = "vector"

    horizon: Horizon
    weight: int
    minuses: int

    def __post_init__(self) -> None:
        check_weight(self.weight)
        most = self.horizon.changes - 1
        if type(self.minuses) is not int or not 0 <= self.minuses <= most:
            raise AccountingError(
                f"minuses is {shown(self.minuses)}; give a whole number from 0 to {most}, best below half the changes"
            )

    @classmethod
    def best(cls, horizon: Horizon, epsilon_local: float) -> "Vector":
        """Return the strategy of local privacy `epsilon_local` with the largest `gap`."""
        weight = weight_of(epsilon_local)
        return max((cls(horizon, weight, r) for r in range((horizon.changes + 1) // 2)), key=lambda each: each.gap)

    @property
    def odds(self) -> Fraction:
        """E, the weight of a vector with few −1 relative to any other."""
        return Fraction(self.weight, GAMMA_DENOMINATOR)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Whole weights of the vectors with 0, 1, …, k signs −1, summed over their places."""
        k = self.horizon.changes
        return tuple(
            comb(k, count) * (self.weight if count <= self.minuses else GAMMA_DENOMINATOR) for count in range(k + 1)
        )

    @cached_property
    def gap(self) -> Fraction:
        """Mean of one sign of v."""
        k = self.horizon.changes
        return Fraction(sum(w * (k - 2 * count) for count, w in enumerate(self.weights)), k * sum(self.weights))

    @cached_property
    def scale(self) -> Fraction:
        """The factor of a sum of signs: (⌊log₂ d⌋ + 1)/gap."""
        return self.horizon.levels / self.gap

    def density(self, agreeing: int, contradicting: int) -> Fraction:
        """Return the density of so many +1 and so many −1 as the first signs of v, relative to fair coins."""
        seen = agreeing + contradicting
        rest = self.horizon.changes - seen
        found = sum(
            comb(rest, more) * (self.weight if contradicting + more <= self.minuses else GAMMA_DENOMINATOR)
            for more in range(rest + 1)
        )
        return Fraction(found << seen, sum(self.weights))

    def epsilon_local(self, period: int | None = None) -> float:
        """Return ln of the largest ratio of densities: ln E once k + 1 periods are over, less before.

        The density grows with the number of +1 of v that are seen, and falls with the number of −1. `most_signs` gives
        how many can be seen; that is the most at the finest level.
        """
        one, other = most_signs(self.horizon, 0, period)
        ratios = (self.density(a, 0) / self.density(0, b) for a, b in ((one, other), (other, one)))
        return log_above(max(ratios))

    @property
    def epsilon_sign(self) -> float:
        """Local ε of one sign alone, rounded up."""
        return log_above((1 + self.gap) / (1 - self.gap))

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return n·m·levels/gap² − f, with m the number of nodes in [1, period]."""
        del nonzero
        return signs_variance(self.horizon, self.scale, period, reports, ones)

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return the variance for streams that are always 0."""
        return self.variance(period, reports)

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return `scale` times the sum of the signs."""
        del level, reports
        return self.scale * total
