"""Defines bounds whose δ is the positive part of an i.i.d. sum, evaluated by the engine of `divergence`."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import (
    EVERYTHING,
    Direction,
    Quantity,
    at_most_without,
    at_most_without_delta,
    checked_beside,
    require,
    with_local_epsilon,
)
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds, find_epsilon, gaussian_guess, narrowed
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.mechanisms import AnyMechanism, LocalMechanism
from hubbub.accountant.numbers import (
    checked_delta,
    checked_epsilon,
    checked_reports,
    exp_down,
    exp_up,
)


@dataclass(frozen=True)
class SumBound:
    """A bound whose δ is the positive part of an i.i.d. sum, for mechanisms that have a local ε.

    Dummies count as further clients: a uniform report is a report of a uniformly random input, and the divergence is
    convex in the law of the others. For an attack everyone else must have such an input (`krr_attack`).
    """

    name: str
    source: str
    direction: Direction
    needs: str
    applies: Callable[[AnyMechanism], bool]
    build: Callable[[LocalMechanism, int, float], IidSum]
    renyi: Callable[[LocalMechanism, int, float, int], float]
    cost: str = "some hundred nodes of one contour integral, for any number of reports"
    proven: bool = True
    gives: frozenset[Quantity] = EVERYTHING

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        checked_reports(reports)
        require(self.applies(mechanism), self.name, mechanism, self.needs)
        checked_beside(mechanism, dummies)

    def log_delta(
        self, mechanism: LocalMechanism, reports: int, epsilon: float, dummies: int, precision: float
    ) -> LogBracket:
        """Return the ends of ln δ; both are -inf from the local ε on, as δ is 0 there."""
        if epsilon >= mechanism.epsilon_local:
            return ZERO
        return positive_part(self.build(mechanism, reports + dummies, epsilon), precision)

    def guess(self, mechanism: LocalMechanism, people: int, delta: float) -> float:
        """Return roughly the ε at `delta`, to start a search."""
        return gaussian_guess(self.build(mechanism, people, 0.0), delta)

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        self.conditions(mechanism, reports, dummies)
        local = with_local_epsilon(mechanism, self.name)
        found = probabilities(
            narrowed(
                lambda precision: self.log_delta(local, int(reports), checked_epsilon(epsilon), int(dummies), precision)
            )
        )
        return at_most_without_delta(found, self.delta(mechanism, reports, epsilon)) if dummies else found

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        self.conditions(mechanism, reports, dummies)
        reports, delta, dummies = int(reports), checked_delta(delta), int(dummies)
        local = with_local_epsilon(mechanism, self.name)
        if local.epsilon_local == 0:
            return EpsilonEnds(0.0, 0.0)
        guess = self.guess(local, reports + dummies, delta)

        def evaluate(epsilon: float, precision: float) -> LogBracket:
            return self.log_delta(local, reports, epsilon, dummies, precision)

        found = find_epsilon(evaluate, delta, local.epsilon_local, guess, refine=not dummies)
        return at_most_without(found, self.epsilon(mechanism, reports, delta)) if dummies else found

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the Rényi divergence of the bound's pair, in nats, rounded to the side of `direction`."""
        self.conditions(mechanism, reports, dummies)
        return self.renyi(with_local_epsilon(mechanism, self.name), int(reports), order, int(dummies))


def probabilities(seen: LogBracket) -> tuple[float, float]:
    """Return (lower, upper) of a probability whose logarithm is in `seen`."""
    return exp_down(seen.lower), 0.0 if seen.upper == -inf else min(1.0, exp_up(seen.upper))
