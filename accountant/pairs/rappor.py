"""Defines the pairs of one-time RAPPOR (unary encoding): by all that others send, by its blanket, and an attack."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hubbub.accountant.divergence.attacks import both_ways, rappor_attack_points, rappor_points_beside_dummies
from hubbub.accountant.divergence.blankets import Points, rappor_points
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.divergence.whole_law import WholeLaw, rappor_whole_law
from hubbub.accountant.losses.walks import Walk, rappor_attack_walk
from hubbub.accountant.mechanisms import RAPPOR
from hubbub.accountant.pairs.amplification_variable import PAD, Amplification, around
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.curve import CurvedPairs


@dataclass(frozen=True)
class RapporPairs(CurvedPairs[RAPPOR]):
    """Exchanging categories exchanges inputs, so all pairs of inputs are alike (`divergence.blankets`)."""

    exact_blanket: ClassVar[bool] = True

    def described(self) -> str:
        """Return a short description."""
        return f"RAPPOR with {self.mechanism.categories} categories and local ε {self.mechanism.epsilon_local:.4g}"

    def upper_bounds(self) -> tuple[str, ...]:
        """All that others send, or the blanket alone, which stronger clones are never below."""
        return "whole-law", "blanket", "local"

    def attack_bound(self, dummies: int) -> str | None:
        """Everyone else has one value; beside dummies, a uniform one."""
        return "rappor-lower"

    def amplification(self, power: Fraction) -> Amplification:
        """Its values are γ(E − e^ε), γ(1 − Ee^ε), γE(1 − e^ε), γ(1 − e^ε), with the masses of `RAPPOR.kinds`."""
        gamma, ratio = self.mechanism.gamma, self.mechanism.likelihood_ratio
        above, below = around(power)
        squared = gamma * sum(mass * (first - power * second) ** 2 for first, second, mass in self.mechanism.kinds)
        return Amplification.rounded(
            gamma,
            gamma * (1 - above * ratio) * (1 + PAD),
            max(gamma * (ratio - below) * (1 + PAD), Fraction(0)),
            squared * (1 + 4 * PAD) + PAD,
        )

    def curve_points(self) -> Points:
        """Return the four kinds of report."""
        return rappor_points(self.mechanism)

    @property
    def whole_law(self) -> WholeLaw:
        """The others may have one of the victim's two values, or a third."""
        return rappor_whole_law(self.mechanism)

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the four-point sum."""
        return self.curve_points().upper_sum(people, epsilon)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ, the sum's own ends: nothing was cut or merged."""
        return positive_part(self.blanket_sum(reports + dummies, epsilon, missing), precision)

    def attack_sums(self, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
        """Everyone else has a third value; with two categories, one of the victim's; beside dummies a uniform one."""
        if dummies:
            return (rappor_points_beside_dummies(self.mechanism).sum(reports + dummies, epsilon),)
        points = rappor_attack_points(self.mechanism)
        # Exchanging the victim's two values exchanges their bits, and changes no law of others who have a third value.
        return (points.sum(reports, epsilon),) if self.mechanism.categories > 2 else both_ways(points, reports, epsilon)

    def attacking_points(self, part: Part) -> SumPoints:
        """Return the same data set."""
        return (rappor_points_beside_dummies if part.dummies else rappor_attack_points)(self.mechanism)

    def attacking_walk(self, part: Part) -> Walk | None:
        """Everyone else has a third value, and its bit is left out; with two categories there is none."""
        if self.mechanism.categories < 3:
            return None
        return rappor_attack_walk(part.reports, self.mechanism.truthful, self.mechanism.other)
