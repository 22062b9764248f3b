"""The two other pairs of koskela-2021, corrected: both are valid upper bounds on the shuffled batch, but loose."""

from dataclasses import dataclass
from math import inf, log, nextafter

from hubbub.accountant.bounds.bound import Quantity, described, uncovered
from hubbub.accountant.bounds.closed_form import any_local
from hubbub.accountant.bounds.sum_bound import SumBound
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.logs import LogBracket
from hubbub.accountant.divergence.sums import IidSum, given_swap_sum, half_clones_sum
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, AnyMechanism, LocalMechanism

EPSILON_AND_DELTA: frozenset[Quantity] = frozenset(("delta", "epsilon"))


@dataclass(frozen=True)
class StrongBound(SumBound):
    """The adversary A_s of koskela-2021, Def. 8: it knows of everyone, the victim too, who answered truthfully.

    What it sees contains the shuffled batch, so its δ is a proven upper bound on the batch's; it is not what an
    observer of the batch attains, and above the blanket's. A victim that answers at random is hidden altogether, so δ
    is 1 − γ times the divergence of the counts (N₁, N₂) for a truthful one: the pair, not the scalars of (5.1). δ stays
    positive beyond the local ε, where the batch's is 0; so ε is looked for up to the local one, which then bounds the
    batch, if not A_s.
    """

    def log_delta(
        self, mechanism: LocalMechanism, reports: int, epsilon: float, dummies: int, precision: float
    ) -> LogBracket:
        """Ends of ln δ of A_s itself; it is positive beyond the local ε too, unless nobody is ever truthful."""
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
        """About the ε at `delta`, of a truthful victim."""
        return super().guess(mechanism, people, min(0.5, delta))


def _no_rdp(mechanism: LocalMechanism, reports: int, order: float, dummies: int) -> float:
    raise OutsideConditions(
        f"no Rényi divergence of order {order:g} is given for {described(mechanism)} with {reports} reports and "
        f"{dummies} dummies by this pair; ask for 'blanket' or 'clones' instead"
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
    _no_rdp,
    gives=EPSILON_AND_DELTA,
)

CLONES = SumBound(
    "koskela-clones",
    "koskela-2021, (6.1)",
    "upper",
    "any local randomizer",
    any_local,
    half_clones_sum,
    _no_rdp,
    gives=EPSILON_AND_DELTA,
)
