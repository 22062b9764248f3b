"""Bounds one round of Gaussian noise. Many rounds are not bounded: without a local ε a cut tail has no bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hubbub.accountant.divergence.attacks import GAUSSIAN_TAIL, both_ways, noise_attack_points
from hubbub.accountant.divergence.blankets import gaussian_points
from hubbub.accountant.divergence.gaussian import exceeding_delta, exceeding_epsilon, gaussian_delta, gaussian_epsilon
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.noise_cells import CELLS, gaussian_cells
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.mechanisms import Gaussian
from hubbub.accountant.numbers import log_up
from hubbub.accountant.pairs.additive_noise import laid_out_delta
from hubbub.accountant.pairs.base import MechanismPairs


@dataclass(frozen=True)
class GaussianPairs(MechanismPairs[Gaussian]):
    """Ratios of its densities are unbounded, so there is no local ε, and only the blanket bound covers it."""

    cuts_tail: ClassVar[bool] = True

    def described(self) -> str:
        """Return a short description."""
        return f"Gaussian noise of {self.mechanism.sigma:.4g} widths of the interval"

    def largest_epsilon(self, delta: float) -> float:
        """Return the ε of one report alone at `delta`."""
        return gaussian_epsilon(self.mechanism, delta)

    def upper_bounds(self) -> tuple[str, ...]:
        """The blanket, as all other bounds need a local ε."""
        return ("blanket",)

    def attack_bound(self, dummies: int) -> str | None:
        """Everyone else has one end of the interval."""
        return "ends-lower"

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the sum over points that bound the blanket from above."""
        return gaussian_points(self.mechanism, missing, CELLS).upper_sum(people, epsilon)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ, from points above and below, with the cut mass; or of one report alone.

        A batch is made of one report by shuffling it with others that do not depend on it, so its δ covers any batch.
        """
        points = gaussian_points(self.mechanism, missing, CELLS)
        laid = laid_out_delta(points, reports + dummies, epsilon, precision)
        alone = gaussian_delta(self.mechanism, epsilon)
        if alone == 0 or log_up(alone) >= laid.upper:
            return laid
        return LogBracket(min(laid.lower, log_up(alone)), log_up(alone))

    def attack_sums(self, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
        """Everyone else has one end, the victim the same or the other; so may the answers of dummies be."""
        points = noise_attack_points(gaussian_cells(self.mechanism, GAUSSIAN_TAIL, CELLS))
        return both_ways(points, reports + dummies, epsilon)

    def event_delta(self, reports: int, epsilon: float) -> float:
        """Some report is far out: where few reports are, cells see little."""
        return exceeding_delta(self.mechanism, reports, epsilon)

    def event_epsilon(self, reports: int, delta: float) -> float:
        """The same, for ε."""
        return exceeding_epsilon(self.mechanism, reports, delta)
