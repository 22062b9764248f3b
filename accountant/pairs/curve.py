"""Implements pairs that are known by their curve (`losses.curves`): of RAPPOR, Laplace noise and finite laws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.curves import Curve, Evaluated, blanket_curve, grid_above, grid_below, symmetric_hull
from hubbub.accountant.losses.grid import LossGrid, grid_atoms
from hubbub.accountant.losses.smaller_curve import Beside, SmallerCurve
from hubbub.accountant.pairs.base import L_co, LocalPairs
from hubbub.accountant.pairs.composition_part import Part


class Blanket(Evaluated, Beside, Protocol):
    """What is known of a blanket's curve."""


@dataclass(frozen=True)
class CurvedPairs(LocalPairs[L_co]):
    """A mechanism whose blanket is put on points, not on the steps of a walk.

    Dummies count as clients, which is valid if a dummy is a report of a random answer, made by the mechanism: not a
    string of fair bits, nor an arbitrary number.
    """

    def upper_bounds(self) -> tuple[str, ...]:
        """All that others send, if that is known; its own blanket; or the stronger clones, by the local ε alone."""
        whole = () if self.whole_law is None else ("whole-law",)
        return *whole, "blanket", "stronger-clones", "local"

    @abstractmethod
    def curve_points(self) -> Blanket:
        """Return the points on which the blanket's curve is evaluated."""

    def evaluated(self) -> Evaluated:
        """Return what has the curve of the pair: the smaller bound at each ε, or the only one."""
        whole = self.whole_law
        return self.curve_points() if whole is None else SmallerCurve(whole, self.curve_points(), self.local_epsilon)

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
        return grid_of(self, part.reports + part.dummies, log_tail)

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve below the pair's."""
        return grid_under(self, part.reports + part.dummies, log_tail)


class Curved(Hashable, Protocol):
    """Pairs that are known by a curve."""

    @property
    def local_epsilon(self) -> float:
        """The ε from which on δ is 0."""

    @property
    def dear(self) -> bool:
        """Whether points of the curve take long, so that the lower grid is laid from those of the upper one."""

    def evaluated(self) -> Evaluated | None:
        """Return what has the curve of the pair."""

    def evaluated_below(self) -> Evaluated | None:
        """Return what has a curve below that of the pair."""


def grid_of(pairs: Curved, people: int, log_tail: float) -> LossGrid:
    """Return losses of a curve above the pair's."""
    return grid_above(_curve(pairs, people, log_tail, finely=False))


def grid_under(pairs: Curved, people: int, log_tail: float) -> LossGrid:
    """Return losses of a curve below the pair's."""
    return grid_below(_curve(pairs, people, log_tail, finely=not pairs.dear))


@lru_cache(maxsize=8)
def _curve(pairs: Curved, people: int, log_tail: float, *, finely: bool) -> Curve:
    """Return the curve of the upper grid, or finely that of the lower one; cached: it takes dozens of integrals."""
    evaluated = pairs.evaluated_below() if finely else pairs.evaluated()
    if evaluated is None:
        raise ValueError(f"{pairs!r} have no curve; ask for their atoms")
    curve = blanket_curve(evaluated, pairs.local_epsilon, people, log_tail, finely=finely)
    return symmetric_hull(curve) if isinstance(evaluated, SmallerCurve) else curve
