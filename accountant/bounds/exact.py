"""Defines the exactly evaluated bounds: each is the divergence of a pair, summed by the engine of `divergence`.

An `upper` is never below the truth, a `lower` never above it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.attacks import SameValueAttack
from hubbub.accountant.bounds.blanket import BlanketBound
from hubbub.accountant.bounds.bound import (
    EVERYTHING,
    Bound,
    Direction,
    Quantity,
    at_most_without,
    at_most_without_delta,
    uncovered,
    with_local_epsilon,
)
from hubbub.accountant.bounds.closed_form import any_local
from hubbub.accountant.bounds.koskela import CLONES, EPSILON_AND_DELTA, STRONG, no_rdp
from hubbub.accountant.bounds.krr_attack import KRR_ATTACK
from hubbub.accountant.bounds.noise import NOISE, NOISE_ATTACK
from hubbub.accountant.bounds.sum_bound import SumBound
from hubbub.accountant.bounds.whole_law import WholeLawBound
from hubbub.accountant.divergence import two_rr
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.divergence.sums import clones_sum, stronger_clones_sum
from hubbub.accountant.mechanisms import KRR, AnyMechanism, Generic, LocalMechanism, exp_decimal
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports, fraction_up
from hubbub.accountant.pairs import local_pairs, pairs_of
from hubbub.accountant.pairs.renyi import rdp_local, rdp_upper


@dataclass(frozen=True)
class TwoRRBound:
    """k = 2: the worst number of the others' ones, by blocks that cover all (accounting-krr.md, "Two categories")."""

    name: str = "2rr"
    source: str = "blocks of the others' ones, balle-2019 Lemma A.2"
    direction: Direction = "upper"
    cost: str = "some ten thousand blocks, refined only if they could matter"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions unless the mechanism is kRR with two categories."""
        self._binary(mechanism, reports, dummies)

    def _binary(self, mechanism: AnyMechanism, reports: int, dummies: int) -> KRR:
        checked_reports(reports)
        checked_dummies(dummies)
        # The theorem is about kRR on two values alone: for anything else there must be no number, least of all 0.
        if not isinstance(mechanism, KRR) or not pairs_of(mechanism).binary:
            raise uncovered(self.name, mechanism, "kRR with 2 categories")
        return mechanism

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of the largest δ over all inputs of the others."""
        krr = self._binary(mechanism, reports, dummies)
        if checked_epsilon(epsilon) >= krr.epsilon_local:
            return 0.0, 0.0
        found = two_rr.delta_ends(krr, int(reports), checked_epsilon(epsilon), int(dummies))
        return at_most_without_delta(found, self.delta(mechanism, reports, epsilon)) if dummies else found

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of ε at `delta`: `lower` is the ε that the best single number of ones reaches."""
        krr = self._binary(mechanism, reports, dummies)
        if krr.epsilon_local == 0:
            return EpsilonEnds(0.0, 0.0)
        found = two_rr.epsilon_ends(krr, int(reports), checked_delta(delta), int(dummies))
        return at_most_without(found, self.epsilon(mechanism, reports, delta)) if dummies else found

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the Rényi divergence, never below the truth, of the pair that covers every number of ones."""
        self.conditions(mechanism, reports, dummies)
        return rdp_upper(with_local_epsilon(mechanism, self.name), int(reports), order, int(dummies))


@dataclass(frozen=True)
class LocalBound:
    """No amplification: the privacy of one report alone, even if all others collude."""

    name: str = "local"
    source: str = "definition of local differential privacy"
    direction: Direction = "upper"
    cost: str = "none"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions if there is no local ε; check the numbers too."""
        checked_reports(reports)
        checked_dummies(dummies)
        with_local_epsilon(mechanism, self.name)

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (0, δ) of one report alone: δ = (E − e^ε)₊/(E + k − 1), E = e^ε₀; k = 2 for any randomizer."""
        self.conditions(mechanism, reports, dummies)
        epsilon = checked_epsilon(epsilon)
        local = with_local_epsilon(mechanism, self.name)
        symbols = pairs_of(local).symbols
        ratio = local.likelihood_ratio
        # e^ε is rounded down, so that the excess, and so δ, is never too small.
        excess = max(Fraction(0), ratio - Fraction(exp_decimal(epsilon)) * (1 - Fraction(1, 10**60)))
        if epsilon >= local.epsilon_local:
            return 0.0, 0.0
        return 0.0, fraction_up(excess / (ratio + symbols - 1))

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return ε₀ as ε, or 0 if the local δ at 0 is at most `delta`."""
        if self.delta(mechanism, reports, 0.0, dummies)[1] <= checked_delta(delta):
            return EpsilonEnds(0.0, 0.0)
        return EpsilonEnds(with_local_epsilon(mechanism, self.name).epsilon_local, 0.0)

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return min(ε₀, λ·ε₀²/2) of one report alone (Bun and Steinke, 2016, Prop. 3.3)."""
        self.conditions(mechanism, reports, dummies)
        return rdp_local(with_local_epsilon(mechanism, self.name), order)


def _rdp_stronger_clones(mechanism: LocalMechanism, reports: int, order: float, dummies: int) -> float:
    return rdp_upper(Generic(local_pairs(mechanism).common_epsilon), reports, order, dummies)


EXACT: Mapping[str, Bound] = MappingProxyType(
    {
        "whole-law": WholeLawBound(),
        "blanket": BlanketBound(),
        "2rr": TwoRRBound(),
        "stronger-clones": SumBound(
            "stronger-clones",
            "stronger-clone pair for any local randomizer",
            "upper",
            "a randomizer with a local ε",
            any_local,
            stronger_clones_sum,
            _rdp_stronger_clones,
        ),
        "clones": SumBound(
            "clones",
            "feldman-2022, Thm B.1",
            "upper",
            "a randomizer with a local ε",
            any_local,
            clones_sum,
            no_rdp,
            gives=EPSILON_AND_DELTA,
        ),
        "noise": NOISE,
        "krr-lower": KRR_ATTACK,
        "rappor-lower": SameValueAttack("rappor-lower", "RAPPOR"),
        "finite-lower": SameValueAttack("finite-lower", "a finite law"),
        "ends-lower": SameValueAttack("ends-lower", "Laplace or Gaussian noise"),
        "noise-lower": NOISE_ATTACK,
        "koskela-strong": STRONG,
        "koskela-clones": CLONES,
        "local": LocalBound(),
    }
)
"""Every one-round bound by its name; `best` is none of them, but means the tightest proven one."""
