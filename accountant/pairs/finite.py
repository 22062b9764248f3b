"""Defines the pairs of a finite law: its blanket, and the neighbors whose sum over its outputs is the largest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.finite import FinitePoints, finite_points
from hubbub.accountant.divergence.finite_attack import (
    dummy_is_answered,
    finite_attack_sums,
    most_revealing,
    points_beside_dummies,
)
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.divergence.whole_laws import WholeLaws, finite_whole_laws
from hubbub.accountant.losses.walks import Walk
from hubbub.accountant.mechanisms import Finite
from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.numbers import log_down
from hubbub.accountant.pairs.amplification_variable import Amplification, around
from hubbub.accountant.pairs.base import Search
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.curve import CurvedPairs

MANY_PAIRS = 12
"""From more pairs of neighbors on, the lower grid is laid from the points of the upper one: half as many are asked."""


@dataclass(frozen=True)
class FinitePairs(CurvedPairs[Finite]):
    """All results that follow from the matrix; if the law is kRR's, `KRR` has tighter or faster pairs.

    Attributes:
        by_blanket: whether only the blanket counts. A tree's nodes need that: their two pairs are compared by it.
    """

    mechanism: Finite
    by_blanket: bool = False

    exact_blanket: ClassVar[bool] = True

    def described(self) -> str:
        """Return a short description."""
        law, local = self.mechanism.law, self.mechanism.epsilon_local
        return f"a law of {len(law)} inputs and {len(law[0])} outputs and local ε {local:.4g}"

    @property
    def common_epsilon(self) -> float:
        """The local ε between any two inputs: the others may have any, neighbors of the victim's or not."""
        return log_above(self.mechanism.likelihood_ratio)

    def attack_bound(self, dummies: int) -> str | None:
        """Everyone else has one value, or one of two; beside dummies, what gives a dummy's law, if that is known."""
        return "finite-lower" if not dummies or dummy_is_answered(self.mechanism) else None

    def amplification(self, power: Fraction) -> Amplification:
        """Over all neighbors and outputs, L = γ·Y: the extremes and the largest second moment."""
        gamma, (above, below) = self.mechanism.gamma, around(power)
        pairs = self.curve_points().pairs
        everywhere = {(at.first, at.second) for points in pairs for at in points}
        squared = max(sum(at.mass * (at.first - power * at.second) ** 2 for at in points) for points in pairs)
        pad = above - power
        return Amplification.rounded(
            gamma,
            gamma * min(first - above * second for first, second in everywhere),
            max(gamma * max(first - below * second for first, second in everywhere), Fraction(0)),
            gamma * (squared + 4 * pad * (1 + self.mechanism.likelihood_ratio) ** 2 * above),
        )

    def curve_points(self) -> FinitePoints:
        """Return the points of every two neighbors."""
        return finite_points(self.mechanism)

    @property
    def whole_law(self) -> WholeLaws | None:
        """Everything that the inputs of a small law send."""
        return None if self.by_blanket else finite_whole_laws(self.mechanism)

    @property
    def dear(self) -> bool:
        """Of many pairs of neighbors several are asked at each point of the curve."""
        return len(self.curve_points().coded) > MANY_PAIRS

    @property
    def attacked_finely(self) -> bool:
        """Always: an attack is on one pair."""
        return True

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the sum of the neighbors that vary most."""
        points = self.curve_points()
        return points.sum_at(points.widest(), people, epsilon)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln of the largest δ: nothing was cut or merged."""
        return self.curve_points().ends(reports + dummies, epsilon, precision)

    def blanket_epsilon(self, reports: int, dummies: int, missing: float, delta: float, search: Search) -> EpsilonEnds:
        """Return the largest ends of all neighbors: by one search, and a check of the other neighbors at its result.

        δ falls in ε: if it is small enough at some ε, it is small enough at any larger ε.
        """
        points, people, found = self.curve_points(), reports + dummies, None
        for place in points.likely_first(people, delta):
            if found is not None and points.at_most(place, people, found.upper, log_down(delta)):
                continue
            seen = search(partial(self._delta_of, place, people))
            found = seen if found is None else EpsilonEnds(max(found.upper, seen.upper), max(found.lower, seen.lower))
        return found or EpsilonEnds(0.0, 0.0)

    def _delta_of(self, place: int, people: int, epsilon: float, precision: float) -> LogBracket:
        if epsilon >= self.ceiling:
            return ZERO
        return positive_part(self.curve_points().sum_at(place, people, epsilon), precision)

    def attack_sums(self, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
        """Return the sum of the most revealing data set of those tried, or of that of a dummy's law."""
        return finite_attack_sums(self.mechanism, reports, epsilon, dummies)

    def attacking_points(self, part: Part) -> SumPoints | None:
        """Return the same data set."""
        if self.attack_bound(part.dummies) is None:
            return None
        return points_beside_dummies(self.mechanism) if part.dummies else most_revealing(self.mechanism, part.reports)

    def attacking_walk(self, part: Part) -> Walk | None:
        """Return None: a report has more values than a walk has steps."""
        return None
