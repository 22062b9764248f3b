"""The blanket bound, evaluated exactly for each mechanism that has a blanket of its own."""

from dataclasses import dataclass
from math import exp, inf, log

from hubbub.accountant.bounds.bound import EVERYTHING, Direction, Quantity, require, with_local_epsilon
from hubbub.accountant.bounds.sum_bound import probabilities
from hubbub.accountant.divergence.blankets import Blanketed, blanket_points
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.dummies import diluted_blanket
from hubbub.accountant.divergence.gaussian import gaussian_epsilon
from hubbub.accountant.divergence.logs import ZERO, LogBracket
from hubbub.accountant.divergence.search import COARSE, FINE, EpsilonEnds, find_epsilon, gaussian_guess
from hubbub.accountant.divergence.sums import IidSum, blanket_sum
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, AnyMechanism, Gaussian, Generic
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports, fraction_up
from hubbub.accountant.rdp import rdp_upper

_CUT = 1e-5
"""Part of δ that the cut tail of a Gaussian may be."""

_FIRST_CUT = 1e-5
"""P-mass of that tail before anything is known of δ."""


@dataclass(frozen=True)
class BlanketBound:
    """balle-2019, Lemma 5.3: the others' blanket reports are all that hides the victim.

    KRR: the four-point sum, with dummies the exact number of blankets B + D, or n + D clients where that is less.
    RAPPOR: a four-point sum. Laplace and Gaussian: `divergence.blankets` says why the ends of the interval are the
    worst answers, and how a density is laid on points from either side. There dummies count as clients, which is right
    where a dummy is a report of a random answer.
    """

    name: str = "blanket"
    source: str = "balle-2019, Lemma 5.3, evaluated exactly"
    direction: Direction = "upper"
    cost: str = "some thousand nodes of one contour integral, whatever the number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions where the mechanism is not known, only its local ε."""
        checked_reports(reports)
        checked_dummies(dummies)
        require(not isinstance(mechanism, Generic), self.name, mechanism, "kRR, RAPPOR, Laplace or Gaussian noise")

    def log_delta(
        self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int, precision: float, missing: float = 0
    ) -> LogBracket:
        """Ends of ln δ; both are -inf from a local ε on, where δ is 0. `missing` is P-mass a Gaussian may lose."""
        if isinstance(mechanism, Generic) or epsilon >= ceiling(mechanism):
            return ZERO
        if not isinstance(mechanism, KRR):
            return _laid_out(mechanism, reports + dummies, epsilon, precision, missing)
        counted = positive_part(blanket_sum(mechanism, reports + dummies, epsilon), precision)
        if not dummies or counted.upper == -inf:
            return counted
        diluted = diluted_blanket(mechanism, reports, epsilon, dummies, precision)
        upper = min(diluted.upper, counted.upper)
        return LogBracket(min(diluted.lower, upper), upper)

    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """(lower, upper) of the bound's δ at `epsilon`."""
        self.conditions(mechanism, reports, dummies)
        asked = (mechanism, int(reports), checked_epsilon(epsilon), int(dummies), FINE)
        missing = _FIRST_CUT if isinstance(mechanism, Gaussian) else 0.0
        seen = self.log_delta(*asked, missing)
        while missing > 1e-200 and exp(max(seen.upper, -400.0)) * 10 * _CUT < missing:
            missing = max(missing * 1e-9, 1e-200) if seen.lower == -inf else max(exp(seen.lower) * _CUT, 1e-200)
            seen = self.log_delta(*asked, missing)
        return probabilities(seen)

    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Ends of the bound's ε at `delta`; `upper` is checked to hold."""
        self.conditions(mechanism, reports, dummies)
        reports, delta, dummies = int(reports), checked_delta(delta), int(dummies)
        gaussian = isinstance(mechanism, Gaussian)
        largest = gaussian_epsilon(mechanism, delta) if isinstance(mechanism, Gaussian) else ceiling(mechanism)
        if largest == 0:
            return EpsilonEnds(0.0, 0.0)
        missing = delta * _CUT if gaussian else 0.0
        guess = gaussian_guess(_sum(mechanism, reports + dummies, 0.0, missing), delta)

        def evaluate(epsilon: float, precision: float) -> LogBracket:
            return self.log_delta(mechanism, reports, epsilon, dummies, precision, missing)

        return find_epsilon(evaluate, delta, largest, guess, refine=not dummies and isinstance(mechanism, KRR | RAPPOR))

    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """The Rényi divergence of the bound's pair, never below the truth, in nats."""
        self.conditions(mechanism, reports, dummies)
        return rdp_upper(with_local_epsilon(mechanism, self.name), int(reports), order, int(dummies))


def ceiling(mechanism: AnyMechanism) -> float:
    """The local ε, infinite where there is none."""
    return inf if isinstance(mechanism, Gaussian) else mechanism.epsilon_local


def _sum(mechanism: AnyMechanism, people: int, epsilon: float, missing: float) -> IidSum:
    if isinstance(mechanism, Generic):
        raise OutsideConditions(f"{mechanism!r} has no blanket of its own; ask for 'best' instead")
    if isinstance(mechanism, KRR):
        return blanket_sum(mechanism, people, epsilon)
    return blanket_points(mechanism, missing).upper_sum(people, epsilon)


def _laid_out(mechanism: Blanketed, people: int, epsilon: float, precision: float, missing: float) -> LogBracket:
    """Ends of ln δ where the blanket was laid on points; what was cut is added above. Coarsely, the upper end alone."""
    points = blanket_points(mechanism, missing)
    above = positive_part(points.upper_sum(people, epsilon), precision)
    if isinstance(mechanism, RAPPOR):
        return above
    below = ZERO if precision >= COARSE else positive_part(points.lower_sum(people, epsilon), precision)
    total = exp(max(above.upper, -700.0)) + fraction_up(points.missing)
    upper = log(total) + 1e-15 * (1 + abs(log(total)))
    return LogBracket(min(below.lower, upper), upper)
