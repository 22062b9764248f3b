"""Defines the pairs of Laplace noise: the ends of the interval are the worst answers (`divergence.blankets`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.divergence.attacks import both_ways, noise_attack_points
from hubbub.accountant.divergence.blankets import Points, laplace_points
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.noise_cells import CELLS, laplace_cells
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.divergence.whole_laplace import LEAST_LOCAL, MOST_LOCAL, laplace_whole_laws
from hubbub.accountant.divergence.whole_laws import WholeLaws
from hubbub.accountant.losses.attack_curves import DataSetCurve
from hubbub.accountant.losses.curves import Evaluated
from hubbub.accountant.losses.walks import Walk, sides_walk
from hubbub.accountant.mechanisms import Laplace
from hubbub.accountant.mechanisms.exact import grown_exp
from hubbub.accountant.pairs.additive_noise import laid_out_delta
from hubbub.accountant.pairs.amplification_variable import Amplification, around
from hubbub.accountant.pairs.base import ABOVE
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.curve import CurvedPairs

CURVE_CELLS = 32
"""Cells below 1/2 on which a curve is evaluated: they add a relative 5e-4 to the variance."""


@dataclass(frozen=True)
class LaplacePairs(CurvedPairs[Laplace]):
    """Its blanket is a Laplace law around the middle of the interval."""

    def described(self) -> str:
        """Return a short description."""
        return f"Laplace noise of local ε {self.mechanism.epsilon_local:.4g}"

    def attack_bound(self, dummies: int) -> str | None:
        """Everyone else has one end of the interval."""
        return "ends-lower"

    def amplification(self, power: Fraction) -> Amplification:
        """Return it by balle-2019, Lemmas 5.1 and 5.8. With s = e^(ε₀/2) rounded up, every term is on its safe side.

        The lemma's second moment is that of the ends of the interval. Its proof writes E[μμ'/ω²] ≤ 2/s − 1/s², but
        needs ≥. No other two answers have a larger moment, since the ends are largest in the convex order
        (`divergence.blankets`) and L² is convex in L.
        """
        half = grown_exp(self.mechanism.epsilon_local / 2)
        above, below = around(power)
        squared = (above**2 + 1) / 3 * (2 * half + 1 / half**2) - 2 * below * (2 / half - 1 / half**2)
        return Amplification.rounded(1 / half, 1 / half - above * half, max(half - below / half, Fraction(0)), squared)

    @property
    def whole_law(self) -> WholeLaws | None:
        """Everything that people with any answers send, if doubles resolve it."""
        local = self.mechanism.epsilon_local
        return laplace_whole_laws(local) if LEAST_LOCAL <= local <= MOST_LOCAL else None

    @property
    def dear(self) -> bool:
        """A point of the curve of all that others send takes twenty milliseconds."""
        return self.whole_law is not None

    def evaluated_below(self) -> Evaluated:
        """Return the curve of the joined cells, which is that of a pair: both ends of a point are one integral."""
        return DataSetCurve(self.curve_points().below) if self.whole_law is None else self.evaluated()

    def curve_points(self) -> Points:
        """Return fewer points than for one round, as a curve needs many evaluations."""
        return laplace_points(self.mechanism, CURVE_CELLS)

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the sum over points that bound the blanket from above; nothing is cut."""
        return laplace_points(self.mechanism, CELLS).upper_sum(people, epsilon)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ, from points above and points below."""
        return laid_out_delta(laplace_points(self.mechanism, CELLS), reports + dummies, epsilon, precision)

    def attack_sums(self, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
        """Everyone else has one end, the victim the same or the other; so may the answers of dummies be."""
        return both_ways(noise_attack_points(laplace_cells(self.mechanism, CELLS)), reports + dummies, epsilon)

    def attacking_points(self, part: Part) -> SumPoints:
        """Return the same data set in fewer cells, as a curve needs many evaluations."""
        return noise_attack_points(laplace_cells(self.mechanism, CURVE_CELLS))

    def attacking_walk(self, part: Part) -> Walk | None:
        """Everyone else has 1/2; the attack sees on which side of it reports are."""
        return sides_walk(part.reports, min(Fraction(1), self.mechanism.gamma * ABOVE))
