"""Implements the two other pairs of koskela-2021, corrected: valid, but loose upper bounds on the shuffled batch."""

from dataclasses import dataclass
from math import inf, log, nextafter

from hubbub.accountant.bounds.bound import Quantity, described, uncovered
from hubbub.accountant.bounds.closed_form import any_local
from hubbub.accountant.bounds.sum_bound import SumBound
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum, given_swap_sum, half_clones_sum
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, AnyMechanism, LocalMechanism

EPSILON_AND_DELTA: frozenset[Quantity] = frozenset(("delta", "epsilon"))


@dataclass(frozen=True)
class StrongBound(SumBound):
    """The adversary A_s of koskela-2021, Def. 8: it knows who answered truthfully, of everyone and of the victim.

    Its view contains the shuffled batch, so its δ is a proven upper bound on the batch's δ. An observer of the batch
    does not attain it, and it is above the blanket's. A victim that answers at random is completely hidden, so δ is
    1 − γ times the divergence of the counts (N₁, N₂) for a truthful victim: the divergence of the pair, not of the
    scalars of (5.1). δ stays positive beyond the local ε, although the batch's δ is 0 there. So the search for ε ends
    at the local ε, which then bounds the batch, though not A_s.
    """

    def log_delta(
        self, mechanism: LocalMechanism, reports: int, epsilon: float, dummies: int, precision: float
    ) -> LogBracket:
        """Return the ends of ln δ of A_s itself; δ is positive beyond the local ε too, unless γ is 1."""
        if not isinstance(mechanism, KRR):
            raise uncovered(self.name, mechanism, self.needs)
        if mechanism.gamma == 1:
            return LogBracket(-inf, -inf)
        given = positive_part(self.build(mechanism, reports + dummies, epsilon), precision)
        truthful = log(float(1 - mechanism.gamma))
        # ln(1 − γ) is rounded, so it widens both ends.
        room = 1e-15 * (1 + abs(truthful))
        return LogBracket(given.lower + truthful - room, nextafter(given.upper + truthful + room, inf))

    def guess(self, mechanism: LocalMechanism, people: int, delta: float) -> float:
        """Return roughly the ε at `delta` of a truthful victim."""
        return super().guess(mechanism, people, min(0.5, delta))


def no_rdp(mechanism: LocalMechanism, reports: int, order: float, dummies: int) -> float:
    """Raise OutsideConditions: a bound that is only compared with gives no Rényi divergences."""
    raise OutsideConditions(
        f"this pair gives no Rényi divergence of order {order:g} for {described(mechanism)} with {reports} reports and "
        f"{dummies} dummies; ask for 'stronger-clones' instead"
    )


def _is_krr(mechanism: AnyMechanism) -> bool:
    return isinstance(mechanism, KRR)


def _strong_sum(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    if not isinstance(mechanism, KRR):
        raise OutsideConditions(f"{described(mechanism)} is not kRR; ask for 'best' instead")
    return given_swap_sum(mechanism, reports, epsilon)


STRONG = StrongBound(
    "koskela-strong",
    "koskela-2021, Def. 8 (A_s), joint law of the counts, with the factor 1 − γ",
    "upper",
    "kRR",
    _is_krr,
    _strong_sum,
    no_rdp,
    gives=EPSILON_AND_DELTA,
)

CLONES = SumBound(
    "koskela-clones",
    "koskela-2021, (6.1)",
    "upper",
    "a randomizer with a local ε",
    any_local,
    half_clones_sum,
    no_rdp,
    gives=EPSILON_AND_DELTA,
)
