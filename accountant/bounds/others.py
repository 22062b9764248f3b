"""Attacks on mechanisms other than kRR: no valid ε is below what they reach."""

from collections.abc import Callable
from dataclasses import dataclass

from hubbub.accountant.bounds.blanket import ceiling
from hubbub.accountant.bounds.bound import EVERYTHING, Direction, Quantity, require, with_local_epsilon
from hubbub.accountant.bounds.sum_bound import probabilities
from hubbub.accountant.divergence.attacks import attack_sums
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.gaussian import gaussian_epsilon
from hubbub.accountant.divergence.logs import ZERO, LogBracket
from hubbub.accountant.divergence.search import FINE, EpsilonEnds, find_epsilon, gaussian_guess
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import RAPPOR, AnyMechanism, Gaussian, Laplace
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports
from hubbub.accountant.rdp import rdp_lower

Attacked = RAPPOR | Laplace | Gaussian


@dataclass(frozen=True)
class OthersBound:
    """Everyone else holds the same value (`divergence.attacks`): the exact divergence of that data set."""

    name: str
    needs: str
    applies: Callable[[AnyMechanism], bool]
    source: str = "everyone else holds one value; balle-2019, proof of Lemma 5.3"
    direction: Direction = "lower"
    cost: str = "one or two contour integrals, whatever the number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions for another mechanism, and for dummies, which hide people here too."""
        checked_reports(reports)
        require(self.applies(mechanism), self.name, mechanism, self.needs)
        if checked_dummies(dummies):
            raise OutsideConditions(f"bound {self.name!r} knows no dummies, got {dummies}; leave them out")

    def _attacked(self, mechanism: AnyMechanism, reports: int, dummies: int) -> Attacked:
        self.conditions(mechanism, reports, dummies)
        if not isinstance(mechanism, Attacked):
            raise OutsideConditions(f"bound {self.name!r} needs {self.needs}, got {mechanism!r}")
        return mechanism

    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(lower, upper) of δ at `epsilon` on that data set: the lower end certifies."""
        attacked = self._attacked(mechanism, reports, dummies)
        return probabilities(_log_delta(attacked, int(reports), checked_epsilon(epsilon), FINE))

    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Ends of ε at `delta` on that data set: no valid ε is below `lower`."""
        attacked, wanted = self._attacked(mechanism, reports, dummies), checked_delta(delta)
        largest = gaussian_epsilon(attacked, wanted) if isinstance(attacked, Gaussian) else attacked.epsilon_local
        if largest == 0:
            return EpsilonEnds(0.0, 0.0)
        guess = max(gaussian_guess(sums, wanted) for sums in attack_sums(attacked, int(reports), 0.0))

        def evaluate(epsilon: float, precision: float) -> LogBracket:
            return _log_delta(attacked, int(reports), epsilon, precision)

        return find_epsilon(evaluate, wanted, largest, guess, refine=False)

    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """A Rényi divergence that an attack reaches, in nats."""
        self.conditions(mechanism, reports, dummies)
        return rdp_lower(with_local_epsilon(mechanism, self.name), int(reports), order, int(dummies)) or 0.0


def _log_delta(mechanism: Attacked, reports: int, epsilon: float, precision: float) -> LogBracket:
    if epsilon >= ceiling(mechanism):
        return ZERO
    found = [positive_part(sums, precision) for sums in attack_sums(mechanism, reports, epsilon)]
    return LogBracket(max(each.lower for each in found), max(each.upper for each in found))
