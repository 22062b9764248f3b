"""Implements pairs that are known by their curve (`losses.curves`): of RAPPOR, Laplace noise and finite laws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.curves import Curve, Evaluated, blanket_curve, grid_above, grid_below, symmetric_hull
from hubbub.accountant.losses.grid import LossGrid, grid_atoms
from hubbub.accountant.losses.smaller_curve import SmallerCurve
from hubbub.accountant.pairs.base import L_co, LocalPairs
from hubbub.accountant.pairs.composition_part import Part


@dataclass(frozen=True)
class CurvedPairs(LocalPairs[L_co]):
    """A mechanism whose blanket is put on points, not on the steps of a walk.

    Dummies count as clients, which is valid if a dummy is a report of a random answer, made by the mechanism: not a
    string of fair bits, nor an arbitrary number.
    """

    def upper_bounds(self) -> tuple[str, ...]:
        """Its own blanket, or the stronger clones, which use only the local ε."""
        return "blanket", "stronger-clones", "local"

    @abstractmethod
    def curve_points(self) -> Evaluated:
        """Return the points on which the curve is evaluated."""

    def evaluated(self) -> Evaluated:
        """Return what has the curve of the pair: the points, if the blanket's is the smallest known."""
        return self.curve_points()

    def evaluated_below(self) -> Evaluated:
        """Return what has a curve below that of the pair, from which the lower grid is laid."""
        return self.evaluated()

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the grid itself: a curve has no other atoms."""
        yield grid_atoms(self.dominating_grid(part, log_tail))

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the lower grid itself."""
        yield grid_atoms(self.dominated_grid(part, log_tail))

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve above the pair's."""
        return grid_above(_curve(self, part.reports + part.dummies, log_tail, finely=False))

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve below the pair's."""
        return grid_below(_curve(self, part.reports + part.dummies, log_tail, finely=True))


@lru_cache(maxsize=8)
def _curve(pairs: CurvedPairs[L_co], people: int, log_tail: float, *, finely: bool) -> Curve:
    """Return the curve of the upper grid, or finely that of the lower one; cached: it takes dozens of integrals."""
    evaluated = pairs.evaluated_below() if finely else pairs.evaluated()
    curve = blanket_curve(evaluated, pairs.local_epsilon, people, log_tail, finely=finely)
    return symmetric_hull(curve) if isinstance(evaluated, SmallerCurve) else curve
