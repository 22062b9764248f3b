"""Attacks on one round of kRR with three or more categories: no valid ε is below what they reach."""

from dataclasses import dataclass

from hubbub.accountant.bounds.bound import described, with_local_epsilon
from hubbub.accountant.bounds.sum_bound import SumBound
from hubbub.accountant.divergence.data_sets import FEW, data_sets
from hubbub.accountant.divergence.logs import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.divergence.sums import IidSum, attack_sum, own_value_sum
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, AnyMechanism, LocalMechanism
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import rdp_lower

_CROWDED = 1000
"""Expected reports of one wrong value from which on the others' holding the victim's value is not tried.

That value is then missed with a probability below e^−1000, and what is left is a Gaussian count with half the signal.
"""

_REACHED = 0.95
"""Part of the local ε that an attack reaches above which no other is tried."""


@dataclass(frozen=True)
class KrrAttack(SumBound):
    """The worst of some data sets: the others hold a third value, or the one that the victim holds under P.

    Up to `FEW` reports some hold the one and some the other (`divergence.data_sets`); beyond, all hold the same.
    """

    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(lower, upper) of the largest δ at `epsilon` of a data set tried: the lower end certifies."""
        self.conditions(mechanism, reports, dummies)
        ends = [each.delta(mechanism, reports, epsilon, dummies) for each in _tried(mechanism, int(reports))]
        return max(low for low, _ in ends), max(high for _, high in ends)

    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Ends of the largest ε at `delta` of a data set tried: no valid ε is below `lower`."""
        self.conditions(mechanism, reports, dummies)
        # One search for each: where the bracket of one is wide, it must not hide what another shows.
        found = EpsilonEnds(0.0, 0.0)
        for tried in _tried(mechanism, int(reports)):
            ends = tried.epsilon(mechanism, reports, delta, dummies)
            found = EpsilonEnds(max(found.upper, ends.upper), max(found.lower, ends.lower))
            # All but the local ε is reached, and a search so close to it takes seconds.
            if found.lower > _REACHED * with_local_epsilon(mechanism, self.name).epsilon_local:
                break
        return found


@dataclass(frozen=True)
class _ColumnCounts(SumBound):
    """The worst of the data sets that are summed count by count."""

    def log_delta(
        self,
        mechanism: LocalMechanism,
        reports: int,
        epsilon: float,
        dummies: int,  # noqa: ARG002 - none: `conditions` has seen to it
        precision: float,  # noqa: ARG002 - always precise
    ) -> LogBracket:
        """Ends of ln δ; both are -inf from the local ε on, where δ is 0."""
        if epsilon >= mechanism.epsilon_local:
            return ZERO
        return data_sets(_attacked(mechanism), reports).log_delta(epsilon)


def _tried(mechanism: AnyMechanism, reports: int) -> tuple[SumBound, ...]:
    if reports <= FEW:
        return (_COUNTED,)
    return (_THIRD,) if reports * _attacked(mechanism).other > _CROWDED else (_THIRD, _OWN)


def _is_attacked(mechanism: AnyMechanism) -> bool:
    return pairs_of(mechanism).attacked is not None


def _attacked(mechanism: AnyMechanism) -> KRR:
    krr = pairs_of(mechanism).attacked
    if krr is None:
        raise OutsideConditions(f"{described(mechanism)} has no third value to hold; ask for 'best' instead")
    return krr


def _third(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    return attack_sum(_attacked(mechanism), reports, epsilon)


def _own(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    return own_value_sum(_attacked(mechanism), reports, epsilon)


def _rdp(mechanism: LocalMechanism, reports: int, order: float, dummies: int) -> float:
    return rdp_lower(mechanism, reports, order, dummies) or 0.0


_NAME = "krr-lower"
_SOURCE = "feldman-2022, Thm 5.3, or others with the victim's value"
_NEEDS = "kRR with 3 or more categories"

_COUNTED = _ColumnCounts(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _third, _rdp)
_THIRD = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _third, _rdp)
_OWN = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _own, _rdp)

KRR_ATTACK = KrrAttack(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _third, _rdp)
