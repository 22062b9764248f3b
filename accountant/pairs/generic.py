"""Bounds a randomizer of which only the local ε is known, or one for each place of the batch, by stronger clones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hubbub.accountant.divergence.sums import SumPoints, binary_points, four_outputs_points
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.walks import Walk, attack_walk, blanket_walk, contracted_atoms, spread_atoms
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs.amplification_variable import Amplification, around
from hubbub.accountant.pairs.base import LocalPairs
from hubbub.accountant.pairs.composition_part import Part

FEW = 30
"""Up to so many reports four outputs usually reveal more over rounds than binary response, by up to a sixth of ε.

Near this number either may be ahead by a tenth. Both are attacks, so any choice is valid.
"""


@dataclass(frozen=True)
class GenericPairs(LocalPairs[Generic]):
    """Known by its local ε alone, so the results for the worst such randomizer apply."""

    has_blanket: ClassVar[bool] = False

    def described(self) -> str:
        """Return a short description."""
        return f"an unknown randomizer of local ε {self.mechanism.epsilon_local:.4g}"

    def upper_bounds(self) -> tuple[str, ...]:
        """Stronger clones."""
        return ("stronger-clones", "local")

    def attack_bound(self, dummies: int) -> str | None:
        """It may be kRR on three values, so any bound on it must cover the attack on kRR.

        A dummy is its report of any random answer: that of everyone else, so dummies count as clients.
        """
        return "krr-lower"

    @property
    def attacked(self) -> KRR:
        """The kRR on three values of the same local ε."""
        return KRR.from_local_epsilon(3, self.mechanism.epsilon_local)

    def amplification(self, power: Fraction) -> Amplification:
        """Return it by balle-2019, Lemmas 5.2 and 5.4, as its authors do: γ = e^−ε₀ counts blankets, γ = 1 elsewhere.

        The true γ is in [1/E, 1], E = e^ε₀, and a range at γ = 1 is valid at any γ while it contains 0 (ε < 2ε₀). If ε₀
        is small, the second moment at γ = 1, E(e^{2ε} + 1) − 2e^ε/E², is not the largest that Lemma 5.4 gives over
        those γ. It is an upper bound nevertheless. With s = μ/ω and s' = μ'/ω in [γ, γE], both of mean 1:
        E[s²] ≤ γ + γE − γ²E ≤ E, from (s − γ)(γE − s) ≥ 0 and since the middle is at most (1+E)²/(4E); and
        E[ss'] ≥ 2γ − γ² ≥ (2E − 1)/E² ≥ 1/E², from (s − γ)(s' − γ) ≥ 0.

        A formula made of these bounds Lemma 5.3's expectation for every common randomizer, kRR on two values among
        them. For that one the expectation is the divergence of the stronger-clone pair, so the formula covers places,
        too (accounting-clones.md, "Other bounds for places").
        """
        ratio = self.mechanism.likelihood_ratio
        above, below = around(power)
        squared = ratio * (above**2 + 1) - 2 * below / ratio**2
        return Amplification.rounded(
            1 / ratio, 1 / ratio - above * ratio, max(ratio - below / ratio, Fraction(0)), squared
        )

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of the stronger-clone pair."""
        yield from spread_atoms(self._walk(part), log_tail)

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield merged atoms of the same pair."""
        yield from contracted_atoms(self._walk(part), log_tail)

    def _walk(self, part: Part) -> Walk:
        # Dummies count as clients (docs/explanation/accounting-crowds.md): each must be a report of some random input.
        ratio, people = self.mechanism.likelihood_ratio, part.reports + part.dummies
        return blanket_walk(people, 2, 2 / (ratio + 1))

    def attacking_points(self, part: Part) -> SumPoints | None:
        """For E < 2 binary response reveals more than kRR on three values, and among few people four outputs do."""
        if not 1 < self.mechanism.likelihood_ratio < 2:
            return None
        return (four_outputs_points if part.reports + part.dummies <= FEW else binary_points)(self.mechanism)

    def attacking_walk(self, part: Part) -> Walk | None:
        """Everyone else has a third value (feldman-2022, Thm 5.3)."""
        return attack_walk(part.reports + part.dummies, 3, self.attacked.gamma)
