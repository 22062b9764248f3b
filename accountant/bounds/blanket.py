"""Evaluates the blanket bound exactly, for each mechanism with a known blanket."""

from dataclasses import dataclass
from math import exp, inf

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import (
    EVERYTHING,
    Direction,
    Quantity,
    at_most_without,
    at_most_without_delta,
    checked_beside,
    require,
)
from hubbub.accountant.bounds.sum_bound import probabilities
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import (
    COARSE,
    FINE,
    EpsilonEnds,
    Evaluate,
    find_epsilon,
    gaussian_guess,
    narrowed,
)
from hubbub.accountant.mechanisms import AnyMechanism
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_reports, log_up
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import rdp_upper

_CUT = 1e-5
"""Largest share of δ for the cut tail of a Gaussian."""

_FIRST_CUT = 1e-5
"""P-mass of that tail at the start, while δ is unknown."""


@dataclass(frozen=True)
class BlanketBound:
    """balle-2019, Lemma 5.3: only the others' blanket reports hide the victim.

    KRR: the four-point sum; with dummies, the exact number of blankets B + D, or n + D clients if that gives less.
    RAPPOR: a four-point sum. A finite law: the largest sum over its outputs (`divergence.finite`). Laplace and
    Gaussian: `divergence.blankets` proves that the ends of the interval are the worst answers, and shows how a density
    is put on points from either side. For these, dummies count as clients, which is valid if a dummy is a report of a
    random answer.
    """

    name: str = "blanket"
    source: str = "balle-2019, Lemma 5.3, evaluated exactly"
    direction: Direction = "upper"
    cost: str = "some hundred nodes of one contour integral, for any number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions if only the local ε of the mechanism is known."""
        checked_reports(reports)
        checked_beside(mechanism, dummies)
        require(
            pairs_of(mechanism).has_blanket,
            self.name,
            mechanism,
            "kRR, RAPPOR, a finite law, Laplace or Gaussian noise",
        )

    def log_delta(
        self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int, precision: float, missing: float = 0
    ) -> LogBracket:
        """Return the ends of ln δ; both are -inf from a local ε on, as δ is 0 there.

        `missing` is the P-mass that a Gaussian may lose.
        """
        pairs = pairs_of(mechanism)
        if epsilon >= pairs.ceiling:
            return ZERO
        return pairs.blanket_delta(reports, epsilon, dummies, precision, missing)

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        self.conditions(mechanism, reports, dummies)
        reports, epsilon, dummies = int(reports), checked_epsilon(epsilon), int(dummies)
        if pairs_of(mechanism).exact_blanket and not dummies:
            return probabilities(
                narrowed(lambda precision: self.log_delta(mechanism, reports, epsilon, dummies, precision))
            )
        asked = (mechanism, reports, epsilon, dummies, FINE)
        missing = _FIRST_CUT if pairs_of(mechanism).cuts_tail else 0.0
        # The allowed cut depends on δ, and δ is known only after a cut: cut less until the cut is small enough.
        seen = self.log_delta(*asked, missing)
        while missing > 1e-200 and exp(max(seen.upper, -400.0)) * 10 * _CUT < missing:
            missing = max(missing * 1e-9, 1e-200) if seen.lower == -inf else max(exp(seen.lower) * _CUT, 1e-200)
            seen = self.log_delta(*asked, missing)
        found = probabilities(seen)
        return at_most_without_delta(found, self.delta(mechanism, reports, epsilon)) if dummies else found

    @answering
    def is_above(self, mechanism: AnyMechanism, reports: int, epsilon: float, delta: float) -> bool:
        """Return whether δ at `epsilon` is shown to be above `delta` without dummies; coarsely, if that suffices.

        Where few blankets hide a person, `delta` takes 50 ms to be precise, and a coarse end a hundredth of that.
        """
        self.conditions(mechanism, reports)
        if pairs_of(mechanism).exact_blanket:
            coarse = self.log_delta(mechanism, int(reports), checked_epsilon(epsilon), 0, COARSE)
            if coarse.lower > log_up(checked_delta(delta)):
                return True
        return self.delta(mechanism, reports, epsilon)[0] > delta

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        self.conditions(mechanism, reports, dummies)
        reports, delta, dummies = int(reports), checked_delta(delta), int(dummies)
        pairs = pairs_of(mechanism)
        largest = pairs.largest_epsilon(delta)
        if largest == 0:
            return EpsilonEnds(0.0, 0.0)
        # The tail's mass is added to δ, so it must be a small share of the requested δ.
        missing = delta * _CUT if pairs.cuts_tail else 0.0
        guess = gaussian_guess(pairs.blanket_sum(reports + dummies, 0.0, missing), delta)

        def search(evaluate: Evaluate) -> EpsilonEnds:
            return find_epsilon(evaluate, delta, largest, guess, refine=not dummies and pairs.exact_blanket)

        found = pairs.blanket_epsilon(reports, dummies, missing, delta, search)
        return at_most_without(found, self.epsilon(mechanism, reports, delta)) if dummies else found

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the Rényi divergence of the bound's pair, never below the truth, in nats; see `rdp_upper`."""
        self.conditions(mechanism, reports, dummies)
        return rdp_upper(mechanism, int(reports), order, int(dummies))
