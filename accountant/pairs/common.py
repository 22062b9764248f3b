"""Bounds one unknown randomizer that all people share: by all that others send, or by stronger clones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import stronger_clones_sum
from hubbub.accountant.divergence.whole_laws import HIDES, WholeLaws, any_whole_law
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import LossGrid, grid_atoms
from hubbub.accountant.losses.smaller_curve import SmallerCurve
from hubbub.accountant.mechanisms import Common
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.curve import grid_of, grid_under
from hubbub.accountant.pairs.generic import GenericPairs


@dataclass(frozen=True)
class StrongerClones:
    """The divergence of the stronger-clone pair, at single places of its curve."""

    mechanism: Common

    def ends(self, people: int, epsilon: float, precision: float) -> LogBracket:
        """Return its ends."""
        return positive_part(stronger_clones_sum(self.mechanism, people, epsilon), precision)


@dataclass(frozen=True)
class CommonPairs(GenericPairs):
    """The same results as if places could choose, and one more."""

    mechanism: Common

    def described(self) -> str:
        """Return a short description."""
        return f"an unknown randomizer that all share, of local ε {self.mechanism.epsilon_local:.4g}"

    def upper_bounds(self) -> tuple[str, ...]:
        """All that others send, or stronger clones."""
        return ("stronger-clones", "local") if self.whole_law is None else ("whole-law", "stronger-clones", "local")

    @property
    def whole_law(self) -> WholeLaws | None:
        """The others have one of five randomizers."""
        return any_whole_law(self.mechanism.likelihood_ratio) if self.mechanism.epsilon_local else None

    @property
    def dear(self) -> bool:
        """Points of the curve take a millisecond."""
        return False

    def evaluated(self) -> SmallerCurve | None:
        """Return the smaller of the two bounds at each ε."""
        if self.whole_law is None:
            return None
        return SmallerCurve(self.whole_law, StrongerClones(self.mechanism), self.local_epsilon)

    def evaluated_below(self) -> SmallerCurve | None:
        """Return the same."""
        return self.evaluated()

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the grid itself, or atoms of the stronger-clone pair."""
        if self._is_curved(part):
            yield grid_atoms(self.dominating_grid(part, log_tail))
        else:
            yield from super().dominating_atoms(part, log_tail)

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the lower grid itself, or merged atoms of the stronger-clone pair."""
        if self._is_curved(part):
            yield grid_atoms(self.dominated_grid(part, log_tail))
        else:
            yield from super().dominated_atoms(part, log_tail)

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve above the smaller bound's, if that is below stronger clones anywhere that counts."""
        if not self._is_curved(part):
            return super().dominating_grid(part, log_tail)
        return grid_of(self, part.reports + part.dummies, log_tail)

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve below that."""
        if not self._is_curved(part):
            return super().dominated_grid(part, log_tail)
        return grid_under(self, part.reports + part.dummies, log_tail)

    def _is_curved(self, part: Part) -> bool:
        whole = self.whole_law
        return whole is not None and whole.most * (part.reports + part.dummies) > HIDES
