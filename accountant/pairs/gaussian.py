"""One round only, since without a local ε nothing bounds what a cut tail is worth over many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hubbub.accountant.divergence.attacks import GAUSSIAN_TAIL, noise_attack_sums
from hubbub.accountant.divergence.blankets import gaussian_points
from hubbub.accountant.divergence.gaussian import gaussian_delta, gaussian_epsilon
from hubbub.accountant.divergence.logs import LogBracket
from hubbub.accountant.divergence.noise_cells import CELLS, gaussian_cells
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.mechanisms import Gaussian
from hubbub.accountant.numbers import log_up
from hubbub.accountant.pairs.base import MechanismPairs
from hubbub.accountant.pairs.noise import laid_out_delta


@dataclass(frozen=True)
class GaussianPairs(MechanismPairs[Gaussian]):
    """Ratios of its densities are unbounded: there is no local ε, and of all bounds the blanket alone covers it."""

    cuts_tail: ClassVar[bool] = True

    def described(self) -> str:
        """Return it in a few words."""
        return f"Gaussian noise of {self.mechanism.sigma:.4g} widths of the interval"

    def largest_epsilon(self, delta: float) -> float:
        """Return the ε of one report alone at `delta`."""
        return gaussian_epsilon(self.mechanism, delta)

    def upper_bounds(self) -> tuple[str, ...]:
        """The blanket, as no other bound holds without a local ε."""
        return ("blanket",)

    def attack_bound(self, dummies: int) -> str | None:
        """Everyone else holds one end of the interval."""
        return None if dummies else "ends-lower"

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the sum over points laid from above."""
        return gaussian_points(self.mechanism, missing, CELLS).upper_sum(people, epsilon)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ, from either laying on points, with the mass that was cut; or of one report alone.

        A report alone is the batch before it is shuffled with others that do not depend on it: its δ covers any batch.
        """
        points = gaussian_points(self.mechanism, missing, CELLS)
        laid = laid_out_delta(points, reports + dummies, epsilon, precision)
        alone = gaussian_delta(self.mechanism, epsilon)
        if alone == 0 or log_up(alone) >= laid.upper:
            return laid
        return LogBracket(min(laid.lower, log_up(alone)), log_up(alone))

    def attack_sums(self, reports: int, epsilon: float) -> tuple[IidSum, ...]:
        """Everyone else holds one end, the victim the same one or the other."""
        return noise_attack_sums(gaussian_cells(self.mechanism, GAUSSIAN_TAIL, CELLS), reports, epsilon)
