"""Defines attacks on one round of kRR with three or more categories, and of an unknown randomizer, which may be kRR.

No ε below the ε that they reach is valid.
"""

from dataclasses import dataclass

from hubbub.accountant.bounds.bound import check_no_dummies, described, with_local_epsilon
from hubbub.accountant.bounds.sum_bound import SumBound
from hubbub.accountant.divergence.data_sets import FEW, data_sets
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.divergence.sums import (
    IidSum,
    attack_sum,
    binary_sum,
    blanket_draws_sum,
    four_outputs_sum,
    own_value_sum,
)
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, AnyMechanism, Generic, LocalMechanism
from hubbub.accountant.numbers import REPORTS_LIMIT
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import rdp_lower

_CROWDED = 1000
"""Expected reports of one wrong value from which on the data set of others with the victim's value is not tried.

The probability that nobody reports that value is then below e^−1000, and the attack is only a Gaussian count with half
the signal.
"""

_REACHED = 0.95
"""If an attack reaches more than this share of the local ε, no other attack is tried."""


@dataclass(frozen=True)
class KrrAttack(SumBound):
    """The worst of some data sets: the others have a third value, or the value that the victim has under P.

    Up to `FEW` reports, some have one and some the other (`divergence.data_sets`); beyond, all have the same value.

    Beside uniform dummies everyone else's answer is uniform. Then so is every report but the victim's, and δ is
    (1/m)·E[(L₁ + … + L_m)₊] over m = n + D uniform reports (`sums.blanket_draws_sum`). A divergence is convex in the
    law of the others, so some data set reveals at least as much as such draws do.
    """

    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of the largest δ at `epsilon` of the data sets tried: the lower end certifies."""
        self.conditions(mechanism, reports, dummies)
        people = int(reports) + int(dummies)
        if people > REPORTS_LIMIT:
            # No attack on so many is computed.
            return 0.0, 1.0
        ends = [each.delta(mechanism, people, epsilon) for each in _tried(mechanism, people, int(dummies))]
        return max(low for low, _ in ends), max(high for _, high in ends)

    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of the largest ε at `delta` of the data sets tried: no ε below `lower` is valid."""
        self.conditions(mechanism, reports, dummies)
        # One search for each, so that the wide bracket of one does not hide the result of another.
        found = EpsilonEnds(0.0, 0.0)
        people = int(reports) + int(dummies)
        if people > REPORTS_LIMIT:
            return EpsilonEnds(with_local_epsilon(mechanism, self.name).epsilon_local, 0.0)
        for tried in _tried(mechanism, people, int(dummies)):
            ends = tried.epsilon(mechanism, people, delta)
            found = EpsilonEnds(max(found.upper, ends.upper), max(found.lower, ends.lower))
            # The attack almost reaches the local ε, and a search that close to it takes seconds.
            if found.lower > _REACHED * with_local_epsilon(mechanism, self.name).epsilon_local:
                break
        return found


@dataclass(frozen=True)
class _ColumnCounts(SumBound):
    """The worst of the data sets whose divergence is summed count by count."""

    def log_delta(
        self,
        mechanism: LocalMechanism,
        reports: int,
        epsilon: float,
        dummies: int,  # noqa: ARG002 - always 0: `conditions` checks that
        precision: float,  # noqa: ARG002 - always precise
    ) -> LogBracket:
        """Return the ends of ln δ; both are -inf from the local ε on, as δ is 0 there."""
        if epsilon >= mechanism.epsilon_local:
            return ZERO
        return data_sets(_attacked(mechanism), reports).log_delta(epsilon)


def _tried(mechanism: AnyMechanism, reports: int, dummies: int) -> tuple[SumBound, ...]:
    # A dummy of an unknown randomizer is its report of any answer: that of everyone else, as one more client.
    if dummies and not isinstance(mechanism, Generic):
        return (_UNIFORM,)
    if not isinstance(mechanism, Generic):
        return _tried_on_krr(mechanism, reports)
    # An unknown randomizer may be another than kRR on three values: binary response, or one with four outputs.
    unknown = (_BINARY, _FOUR) if mechanism.likelihood_ratio < 2 else (_BINARY,)
    return (*unknown, *_tried_on_krr(mechanism, reports))


def _tried_on_krr(mechanism: AnyMechanism, reports: int) -> tuple[SumBound, ...]:
    if reports <= FEW:
        return (_COUNTED,)
    return (_THIRD,) if reports * _attacked(mechanism).other > _CROWDED else (_THIRD, _OWN)


def _is_attacked(mechanism: AnyMechanism) -> bool:
    return pairs_of(mechanism).attacked is not None


def _attacked(mechanism: AnyMechanism) -> KRR:
    krr = pairs_of(mechanism).attacked
    if krr is None:
        raise OutsideConditions(f"{described(mechanism)} has no third value for the others; ask for 'best' instead")
    return krr


def _third(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    return attack_sum(_attacked(mechanism), reports, epsilon)


def _own(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    return own_value_sum(_attacked(mechanism), reports, epsilon)


def _uniform(mechanism: LocalMechanism, reports: int, epsilon: float) -> IidSum:
    return blanket_draws_sum(_attacked(mechanism), reports, epsilon)


def _rdp(mechanism: LocalMechanism, reports: int, order: float, dummies: int) -> float:
    check_no_dummies(_NAME, dummies)
    return rdp_lower(mechanism, reports, order) or 0.0


_NAME = "krr-lower"
_SOURCE = "feldman-2022, Thm 5.3, or others with the victim's value"
_NEEDS = "kRR with 3 or more categories"

_COUNTED = _ColumnCounts(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _third, _rdp)
_THIRD = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _third, _rdp)
_BINARY = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, binary_sum, _rdp)
_FOUR = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, four_outputs_sum, _rdp)
_OWN = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _own, _rdp)
_UNIFORM = SumBound(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _uniform, _rdp)

KRR_ATTACK = KrrAttack(_NAME, _SOURCE, "lower", _NEEDS, _is_attacked, _third, _rdp)
