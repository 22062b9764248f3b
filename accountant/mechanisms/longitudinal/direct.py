"""Defines the strategy `direct`: binary randomized response of the boolean itself, anew in every period."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from hubbub.accountant.mechanisms.krr import KRR
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon
from hubbub.accountant.numbers import fraction_up


@dataclass(frozen=True)
class Direct:
    """In every period each device sends its boolean by kRR of two values with γ = `gamma` / 2³².

    Nothing is lost if a device misses a period. A person's cost adds up over all d periods, locally and centrally, even
    if there are few changes.
    """

    kind: ClassVar[str] = "direct"

    horizon: Horizon
    gamma: int

    def __post_init__(self) -> None:
        # Making it checks γ: 0, which is no privacy, and values above 1 are refused.
        KRR.from_numerator(2, self.gamma)

    @cached_property
    def mechanism(self) -> KRR:
        """The law of one report."""
        return KRR.from_numerator(2, self.gamma)

    def epsilon_local(self, period: int | None = None) -> float:
        """Return t·ε₀: two devices whose booleans are always 0 and always 1 reach it."""
        return fraction_up(self.horizon.until(period) * Fraction(self.mechanism.epsilon_local))

    def variance(self, period: int, reports: int, ones: int = 0, nonzero: int = 0) -> Fraction:
        """Return n·(γ/2)(1 − γ/2)/(1 − γ)², the same for all booleans."""
        del period, ones, nonzero
        other = self.mechanism.other
        return reports * other * (1 - other) / (1 - self.mechanism.gamma) ** 2

    def largest_variance(self, period: int, reports: int) -> Fraction:
        """Return the variance for streams that are always 0."""
        return self.variance(period, reports)

    def estimate(self, level: int, total: int, reports: int) -> Fraction:
        """Return (N₁ − nγ/2)/(1 − γ), an estimate of f itself."""
        del level
        return (total - reports * self.mechanism.other) / (1 - self.mechanism.gamma)
