"""Bounds that are evaluated exactly: each is the divergence of a pair, summed by the engine of `divergence`.

Every `upper` is never below the truth, every `lower` never above.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from types import MappingProxyType

from hubbub.accountant.bounds.bound import EVERYTHING, Bound, Direction, Quantity, require
from hubbub.accountant.divergence import two_rr
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.dummies import diluted_blanket
from hubbub.accountant.divergence.logs import ZERO, LogBracket
from hubbub.accountant.divergence.search import FINE, EpsilonEnds, find_epsilon, gaussian_guess
from hubbub.accountant.divergence.sums import IidSum, attack_sum, blanket_sum, clones_sum, stronger_clones_sum
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, Generic, Mechanism, exp_decimal
from hubbub.accountant.numbers import (
    checked_delta,
    checked_dummies,
    checked_epsilon,
    checked_reports,
    exp_down,
    exp_up,
    fraction_up,
)
from hubbub.accountant.rdp import rdp_local, rdp_lower, rdp_upper


def _is_krr(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, KRR)


def _is_common(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, KRR) or not mechanism.mixed


def _is_attacked(mechanism: Mechanism) -> bool:
    return isinstance(mechanism, Generic) or mechanism.categories >= 3


@dataclass(frozen=True)
class SumBound:
    """A bound whose δ is the positive part of an i.i.d. sum.

    Dummies are counted as further clients: a uniform report is a report of a uniformly random input, and the
    divergence is convex in the law of the others. The attack has no such reading and takes none.
    """

    name: str
    source: str
    direction: Direction
    needs: str
    applies: Callable[[Mechanism], bool]
    build: Callable[[Mechanism, int, float], IidSum]
    renyi: Callable[[Mechanism, int, float, int], float]
    cost: str = "some thousand nodes of one contour integral, whatever the number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: Mechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions where the theorem does not apply."""
        checked_reports(reports)
        require(self.applies(mechanism), self.name, mechanism, self.needs)
        if checked_dummies(dummies) and self.direction == "lower":
            raise OutsideConditions(f"bound {self.name!r} knows no dummies, got {dummies}; leave them out")

    def log_delta(
        self, mechanism: Mechanism, reports: int, epsilon: float, dummies: int, precision: float
    ) -> LogBracket:
        """Ends of ln δ; both are -inf from the local ε on, where δ is 0."""
        if epsilon >= mechanism.epsilon_local:
            return ZERO
        return positive_part(self.build(mechanism, reports + dummies, epsilon), precision)

    def delta(self, mechanism: Mechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(lower, upper) of the bound's δ at `epsilon`."""
        self.conditions(mechanism, reports, dummies)
        reports, epsilon, dummies = int(reports), checked_epsilon(epsilon), int(dummies)
        seen = self.log_delta(mechanism, reports, epsilon, dummies, FINE)
        return exp_down(seen.lower), 0.0 if seen.upper == -inf else min(1.0, exp_up(seen.upper))

    def epsilon(self, mechanism: Mechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Ends of the bound's ε at `delta`; `upper` is checked to hold."""
        self.conditions(mechanism, reports, dummies)
        reports, delta, dummies = int(reports), checked_delta(delta), int(dummies)
        if mechanism.epsilon_local == 0:
            return EpsilonEnds(0.0, 0.0)
        guess = gaussian_guess(self.build(mechanism, reports + dummies, 0.0), delta)

        def evaluate(epsilon: float, precision: float) -> LogBracket:
            return self.log_delta(mechanism, reports, epsilon, dummies, precision)

        return find_epsilon(evaluate, delta, mechanism.epsilon_local, guess, refine=not dummies)

    def rdp(self, mechanism: Mechanism, reports: int, order: float, dummies: int = 0) -> float:
        """The Rényi divergence of the bound's pair, in nats, on the side of `direction`."""
        self.conditions(mechanism, reports, dummies)
        return self.renyi(mechanism, int(reports), order, int(dummies))


@dataclass(frozen=True)
class TwoRRBound:
    """k = 2: the worst number of ones among the others, covered by blocks (math.md §2, "k = 2")."""

    name: str = "2rr"
    source: str = "math.md: blocks of the others' ones, balle-2019 Lemma A.2"
    direction: Direction = "upper"
    cost: str = "some ten thousand blocks, refined only where they could matter"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: Mechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions unless the mechanism is kRR with two categories."""
        checked_reports(reports)
        checked_dummies(dummies)
        covered = isinstance(mechanism, KRR) and mechanism.categories == 2
        require(covered, self.name, mechanism, "kRR with 2 categories")

    def delta(self, mechanism: Mechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(lower, upper) of the largest δ over all inputs of the others."""
        self.conditions(mechanism, reports, dummies)
        if not isinstance(mechanism, KRR) or checked_epsilon(epsilon) >= mechanism.epsilon_local:
            return 0.0, 0.0
        return two_rr.delta_ends(mechanism, int(reports), checked_epsilon(epsilon), int(dummies))

    def epsilon(self, mechanism: Mechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Ends of ε at `delta`: `lower` is what the best single number of ones reaches."""
        self.conditions(mechanism, reports, dummies)
        if not isinstance(mechanism, KRR) or mechanism.epsilon_local == 0:
            return EpsilonEnds(0.0, 0.0)
        return two_rr.epsilon_ends(mechanism, int(reports), checked_delta(delta), int(dummies))

    def rdp(self, mechanism: Mechanism, reports: int, order: float, dummies: int = 0) -> float:
        """The Rényi divergence, never below the truth, of the pair that covers every number of ones."""
        self.conditions(mechanism, reports, dummies)
        return rdp_upper(mechanism, int(reports), order, int(dummies))


@dataclass(frozen=True)
class LocalBound:
    """No amplification: what one report alone reveals, whoever colludes."""

    name: str = "local"
    source: str = "definition of local differential privacy"
    direction: Direction = "upper"
    cost: str = "none"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: Mechanism, reports: int, dummies: int = 0) -> None:  # noqa: ARG002
        """Hold for every mechanism; the numbers are checked."""
        checked_reports(reports)
        checked_dummies(dummies)

    def delta(self, mechanism: Mechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(0, δ) with δ = (E − e^ε)₊/(E + k − 1), E = e^ε₀: of one report, not amplified; k = 2 for any randomizer."""
        self.conditions(mechanism, reports, dummies)
        epsilon = checked_epsilon(epsilon)
        categories = mechanism.categories if isinstance(mechanism, KRR) else 2
        ratio = mechanism.likelihood_ratio
        excess = max(Fraction(0), ratio - Fraction(exp_decimal(epsilon)) * (1 - Fraction(1, 10**60)))
        if epsilon >= mechanism.epsilon_local:
            return 0.0, 0.0
        return 0.0, fraction_up(excess / (ratio + categories - 1))

    def epsilon(self, mechanism: Mechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """ε is ε₀, or 0 where the local δ at 0 is at most `delta`."""
        if self.delta(mechanism, reports, 0.0, dummies)[1] <= checked_delta(delta):
            return EpsilonEnds(0.0, 0.0)
        return EpsilonEnds(mechanism.epsilon_local, 0.0)

    def rdp(self, mechanism: Mechanism, reports: int, order: float, dummies: int = 0) -> float:
        """min(ε₀, λ·ε₀²/2), of one report alone (Bun and Steinke, 2016, Prop. 3.3)."""
        self.conditions(mechanism, reports, dummies)
        return rdp_local(mechanism, order)


@dataclass(frozen=True)
class BlanketBound(SumBound):
    """The blanket of kRR: with dummies, the exact number of blankets B + D, or n + D clients where that is less."""

    def log_delta(
        self, mechanism: Mechanism, reports: int, epsilon: float, dummies: int, precision: float
    ) -> LogBracket:
        """Ends of ln δ; both are -inf from the local ε on, where δ is 0."""
        counted = super().log_delta(mechanism, reports, epsilon, dummies, precision)
        if not dummies or not isinstance(mechanism, KRR) or counted.upper == -inf:
            return counted
        diluted = diluted_blanket(mechanism, reports, epsilon, dummies, precision)
        upper = min(diluted.upper, counted.upper)
        return LogBracket(min(diluted.lower, upper), upper)


def _krr_sum(mechanism: Mechanism, reports: int, epsilon: float) -> IidSum:
    if not isinstance(mechanism, KRR):
        raise OutsideConditions(f"the blanket sum does not cover {mechanism!r}: it needs kRR; ask for 'best' instead")
    return blanket_sum(mechanism, reports, epsilon)


def _rdp_stronger_clones(mechanism: Mechanism, reports: int, order: float, dummies: int) -> float:
    return rdp_upper(Generic(mechanism.epsilon_local), reports, order, dummies)


def _rdp_clones(mechanism: Mechanism, reports: int, order: float, dummies: int) -> float:
    return rdp_upper(Generic(mechanism.epsilon_local, mixed=True), reports, order, dummies)


def _rdp_attack(mechanism: Mechanism, reports: int, order: float, dummies: int) -> float:
    return rdp_lower(mechanism, reports, order, dummies) or 0.0


EXACT: Mapping[str, Bound] = MappingProxyType(
    {
        "blanket": BlanketBound(
            "blanket", "balle-2019, Lemma 5.3, evaluated exactly", "upper", "kRR", _is_krr, _krr_sum, rdp_upper
        ),
        "2rr": TwoRRBound(),
        "stronger-clones": SumBound(
            "stronger-clones",
            "math.md: stronger-clone pair for one common randomizer",
            "upper",
            "one randomizer common to the batch",
            _is_common,
            stronger_clones_sum,
            _rdp_stronger_clones,
        ),
        "clones": SumBound(
            "clones", "feldman-2022, Thm B.1", "upper", "any local randomizer", lambda _: True, clones_sum, _rdp_clones
        ),
        "krr-lower": SumBound(
            "krr-lower",
            "feldman-2022, Thm 5.3",
            "lower",
            "kRR with 3 or more categories",
            _is_attacked,
            attack_sum,
            _rdp_attack,
        ),
        "local": LocalBound(),
    }
)
"""Every one-round bound by its name; `best` is not one of them but the tightest that is proven."""
