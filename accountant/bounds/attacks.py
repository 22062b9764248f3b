"""Defines attacks in which all others have the same value: no ε below the ε that they reach is valid."""

from dataclasses import dataclass

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import EVERYTHING, Direction, Quantity, check_no_dummies, checked_beside, require
from hubbub.accountant.bounds.sum_bound import probabilities
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import FINE, EpsilonEnds, find_epsilon, gaussian_guess
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_reports
from hubbub.accountant.pairs import MechanismPairs, pairs_of
from hubbub.accountant.pairs.renyi import rdp_lower


@dataclass(frozen=True)
class SameValueAttack:
    """The exact divergence of the data set in which everyone else has the same value (`divergence.attacks`)."""

    name: str
    needs: str
    source: str = "everyone else has one value; balle-2019, proof of Lemma 5.3"
    direction: Direction = "lower"
    cost: str = "one or two contour integrals, for any number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions for another mechanism, and for dummies whose law no answer is known to have."""
        checked_reports(reports)
        require(pairs_of(mechanism).attack_bound(0) == self.name, self.name, mechanism, self.needs)
        if checked_beside(mechanism, dummies) and pairs_of(mechanism).attack_bound(dummies) != self.name:
            raise OutsideConditions(
                f"bound {self.name!r} covers dummies whose law is a row of the law, or the mean of all rows; leave "
                "dummies out, or ask for an upper bound"
            )

    def _attacked(self, mechanism: AnyMechanism, reports: int, dummies: int) -> MechanismPairs[AnyMechanism]:
        self.conditions(mechanism, reports, dummies)
        return pairs_of(mechanism)

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of δ at `epsilon` on that data set: the lower end certifies."""
        attacked = self._attacked(mechanism, reports, dummies)
        asked = int(reports), int(dummies)
        lower, upper = probabilities(_log_delta(attacked, asked, checked_epsilon(epsilon), FINE))
        event = attacked.event_delta(sum(asked), epsilon)
        return max(lower, event), max(upper, event)

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of ε at `delta` on that data set: no ε below `lower` is valid."""
        attacked, wanted = self._attacked(mechanism, reports, dummies), checked_delta(delta)
        largest = attacked.largest_epsilon(wanted)
        if largest == 0:
            return EpsilonEnds(0.0, 0.0)
        asked = int(reports), int(dummies)
        guess = max(gaussian_guess(sums, wanted) for sums in attacked.attack_sums(asked[0], 0.0, asked[1]))

        def evaluate(epsilon: float, precision: float) -> LogBracket:
            return _log_delta(attacked, asked, epsilon, precision)

        found = find_epsilon(evaluate, wanted, largest, guess, refine=False)
        event = attacked.event_epsilon(sum(asked), wanted)
        return EpsilonEnds(max(found.upper, event), max(found.lower, event))

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return a Rényi divergence that an attack reaches, in nats."""
        self.conditions(mechanism, reports, dummies)
        check_no_dummies(self.name, dummies)
        return rdp_lower(mechanism, int(reports), order) or 0.0


def _log_delta(
    attacked: MechanismPairs[AnyMechanism], asked: tuple[int, int], epsilon: float, precision: float
) -> LogBracket:
    reports, dummies = asked
    if epsilon >= attacked.ceiling:
        return ZERO
    found = [positive_part(sums, precision) for sums in attacked.attack_sums(reports, epsilon, dummies)]
    # Each sum is one possible data set, so the worst of them is attained.
    return LogBracket(max(each.lower for each in found), max(each.upper for each in found))
