"""Defines the pairs of kRR of two values, tighter than the blanket's: truthful reports hide the victim too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.losses.largest_curve import two_rr_grid, zeros_grid, zeros_law
from hubbub.accountant.losses.two_rr_family import two_rr_rounds
from hubbub.accountant.losses.walks import Walk
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.krr import KrrPairs


@dataclass(frozen=True)
class TwoRRPairs(KrrPairs):
    """kRR of two values; if the tighter pair does not apply, all results for kRR do."""

    binary: ClassVar[bool] = True

    def upper_bounds(self) -> tuple[str, ...]:
        """The blocks of the others' ones."""
        return "2rr", "local"

    def attack_bound(self, dummies: int) -> str | None:
        """The best single number of ones, with dummies too."""
        return "2rr"

    @property
    def attacked(self) -> None:
        """There is no third value."""

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return the losses of the envelope over every number of ones, if it applies."""
        if not self.grid_is_tighter(part):
            return super().dominating_grid(part, log_tail)
        return two_rr_grid(self.mechanism, part.reports, part.dummies, log_tail)

    def played_grids(self, part: Part, log_tail: float) -> tuple[tuple[LossGrid, int], ...] | None:
        """Return several rounds at once: the sum of one-round envelopes is more than any choice of ones reaches."""
        if part.rounds == 1 or not self.grid_is_tighter(part):
            return None
        return two_rr_rounds(self.mechanism, part.reports, part.dummies, part.rounds, log_tail)

    def grid_is_tighter(self, part: Part) -> bool:
        """Whether the envelope applies. It is not proven for a secret choice of people, and γ = 1 has no curve."""
        return self.mechanism.epsilon_local > 0 and not part.sampled

    def attack_grid(self, part: Part, log_tail: float) -> LossGrid | None:
        """Everyone else has 0; beside dummies, a uniform value."""
        if part.dummies:
            return super().attack_grid(part, log_tail)
        return zeros_grid(self.mechanism, part.reports, log_tail) if self.grid_is_tighter(part) else None

    def attacking_walk(self, part: Part) -> Walk | None:
        """There is no third value for everyone else; beside dummies they have a uniform one."""
        return super().attacking_walk(part) if part.dummies else None

    def zeros_law(self, reports: int, log_tail: float) -> tuple[Array, Array, Array]:
        """Everyone else has 0."""
        return zeros_law(self.mechanism, reports, log_tail)
