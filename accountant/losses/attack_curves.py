"""Lays the divergence of one data set on a grid from below, so that an attack on every round composes.

All others of a batch draw from a law ω, and the victim from μ or μ'. The two views P and Q of the batch are a pair, and
their curves, P against Q and Q against P, are sums (`divergence.sums`): each point of them is one contour integral.
The rounds' batches are independent, so the views of T rounds are P^T and Q^T. A test on all of them is an attack, and
its δ is at least that of any pair whose two curves are below (`losses.curves`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import SumPoints
from hubbub.accountant.losses.curves import blanket_curve, grid_below
from hubbub.accountant.losses.grid import LossGrid


@dataclass(frozen=True)
class DataSetCurve:
    """The curve of μ against μ' among people of law ω, by its points (μ/ω, μ'/ω, ω): both ends at once."""

    points: SumPoints

    def variance(self) -> float:
        """Return the variance of one draw at ε = 0."""
        return self.points.variance()

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of an upper end of δ."""
        return _ends(self.points, people, epsilon, precision).upper

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of a lower end of δ."""
        return _ends(self.points, people, epsilon, precision).lower


@lru_cache(maxsize=4096)
def _ends(points: SumPoints, people: int, epsilon: float, precision: float) -> LogBracket:
    """Return both ends, cached: a curve asks for the upper ones first, and then for the lower ones."""
    return positive_part(points.sum(people, epsilon), precision)


def attack_curves_grid(
    points: SumPoints, epsilon_local: float, people: int, log_tail: float, *, finely: bool = True
) -> LossGrid:
    """Return losses below those of a batch of `people` on this data set; P is the law with the heavier tail.

    Without `finely` half as many points are asked, and a composed attack is a few ten-thousandths lower.
    """
    curves = [
        blanket_curve(DataSetCurve(each), epsilon_local, people, log_tail, finely=finely)
        for each in (points, points.exchanged())
    ]
    # Either law may be P. Large losses decide δ, so it is the one that has them.
    back, forth = sorted(curves, key=lambda each: float(each.places[-1]) * each.step)
    return grid_below(forth, back)
