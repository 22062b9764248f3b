"""Evaluates the bound by all that the others send, where it is known."""

from dataclasses import dataclass
from math import exp

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import EVERYTHING, Direction, Quantity, checked_beside, uncovered
from hubbub.accountant.bounds.sum_bound import probabilities
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds, find_epsilon, gaussian_guess
from hubbub.accountant.divergence.whole_law import Whole
from hubbub.accountant.mechanisms import AnyMechanism
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_reports
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import rdp_upper

NEEDS = "RAPPOR, a small finite law, Laplace noise, or one randomizer common to all"
"""The mechanisms of which it is known."""

_LEAST_LOG = -700.0
"""The least ln δ of which e^ is a usual double."""


@dataclass(frozen=True)
class WholeLawBound:
    """δ ≤ one sum of some hundred terms, whatever the others' values are: all of their reports hide the victim.

    The proof is in `divergence.whole_law`, what is hidden of a report in `divergence.whole_laws`. It is for any data
    set, so a dummy that is a report of a random value counts as a client: δ is convex in the law of the others.
    """

    name: str = "whole-law"
    source: str = "hidden values of the others, each value's whole law"
    direction: Direction = "upper"
    cost: str = "some hundred nodes, for any number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions unless this is known of the mechanism."""
        self._law(mechanism, reports, dummies)

    def _law(self, mechanism: AnyMechanism, reports: int, dummies: int) -> Whole:
        checked_reports(reports)
        checked_beside(mechanism, dummies)
        law = pairs_of(mechanism).whole_law
        if law is None:
            raise uncovered(self.name, mechanism, NEEDS)
        return law

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return ends of the sum; both are 0 from the local ε on, as δ is 0 there."""
        return probabilities(self._log_delta(mechanism, int(reports), checked_epsilon(epsilon), int(dummies)))

    def _log_delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int) -> LogBracket:
        law, people = self._law(mechanism, reports, dummies), reports + dummies
        if epsilon >= pairs_of(mechanism).ceiling:
            return ZERO
        found = law.log_delta(people, epsilon)
        if found.upper < _LEAST_LOG:
            return found
        # What is hidden was chosen for a guess of δ. For δ itself it is what `epsilon` chooses.
        return min(found, law.near(people, exp(found.upper))(epsilon), key=lambda each: each.upper)

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of ε at `delta`."""
        law, wanted = self._law(mechanism, reports, dummies), checked_delta(delta)
        reports, dummies = int(reports), int(dummies)
        largest = pairs_of(mechanism).largest_epsilon(wanted)
        if largest == 0:
            return EpsilonEnds(0.0, 0.0)

        ceiling, near = pairs_of(mechanism).ceiling, law.near(reports + dummies, wanted)

        def evaluate(epsilon: float, _: float) -> LogBracket:
            return ZERO if epsilon >= ceiling else near(epsilon)

        guess = gaussian_guess(law.sum_at_zero(reports + dummies), wanted)
        return find_epsilon(evaluate, wanted, largest, guess, refine=False)

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the Rényi divergence of the pair that composes, never below the truth, in nats; see `rdp_upper`."""
        self.conditions(mechanism, reports, dummies)
        return rdp_upper(mechanism, int(reports), order, int(dummies))
