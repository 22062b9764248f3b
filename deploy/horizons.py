"""Horizons: chooses how a question over time is sent, by the exact error of each strategy over the whole horizon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, exp, inf, log, sqrt
from typing import Any

from hubbub.accountant.certificate.batches import local_sum
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Sampled, Strategy, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.deploy.goals import Goal, least_noise
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.question import AUTO, Longitudinal
from hubbub.queries.longitudinal.sending import STEADY_MISSING
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector, steady_people
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.longitudinal.tree import SendingNodes

STEPS = 15
"""Halvings of a strength on a logarithmic scale of e^±17: the last one changes an error by a part in a thousand."""

Sent = SendingStates | SendingVector | SendingOneChange | SendingNodes


@dataclass(frozen=True)
class Candidate:
    """A strategy at its best strength, what it costs over all rounds, and the errors of the count at the minimum.

    Where it does not apply, `why_not` says why, and there are no numbers.
    """

    name: str
    sending: Sent | None = None
    why_not: str | None = None
    epsilon_local: float | None = None
    epsilon_upper: float | None = None
    standard_error_mean: float = inf
    standard_error_largest: float = inf

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        applies = self.sending is not None
        return {
            "strategy": self.name,
            "applies": applies,
            "why_not": self.why_not,
            "epsilon_local": self.epsilon_local,
            "epsilon_upper": self.epsilon_upper,
            "standard_error_mean": self.standard_error_mean if applies else None,
            "standard_error_largest": self.standard_error_largest if applies else None,
        }


def candidates(question: Longitudinal, rounds: int, goal: Goal) -> tuple[Candidate, ...]:
    """Return what each strategy that the question allows would cost and how precise it would be."""
    wanted = [*_STRONGEST] if question.strategy == AUTO else [question.strategy]
    try:
        horizon = Horizon(rounds, question.changes)
    except AccountingError as error:
        return tuple(Candidate(name, why_not=str(error)) for name in wanted)
    share = question.steady_share
    steady = None if share is None else steady_people(horizon.levels, goal.hiding, share, goal.terms.delta)
    return tuple(_candidate(name, horizon, steady, goal) for name in wanted)


def chosen(found: tuple[Candidate, ...]) -> Candidate:
    """Return the candidate with the least mean error; where none applies, the first, which says why not."""
    return min(found, key=lambda each: each.standard_error_mean)


def _candidate(name: str, horizon: Horizon, steady: int | None, goal: Goal) -> Candidate:
    if steady is None and SENDINGS[name].counts_on_steady:
        return Candidate(name, why_not=f"it {STEADY_MISSING}")
    try:
        # Who counts on nobody does not look at the number.
        sending = _STRONGEST[name](horizon, steady or 1, goal)
    except AccountingError as error:
        return Candidate(name, why_not=str(error))
    if sending is None:
        limits = f"epsilon {goal.epsilon:g} and epsilon_local {goal.local:g} over {horizon.periods} rounds"
        return Candidate(name, why_not=f"no strength is within {limits} at {goal.hiding} honest reports")
    return _measured(name, sending, goal)


def _measured(name: str, sending: Sent, goal: Goal) -> Candidate:
    strategy: Strategy = sending.strategy
    periods, mechanism = strategy.horizon.periods, sending.mechanism
    errors = [sqrt(strategy.variance(period, goal.terms.minimum_reports)) for period in range(1, periods + 1)]
    return Candidate(
        name,
        sending,
        None,
        local_sum([mechanism] * paid_rounds(mechanism, periods)),
        goal.reached(mechanism, periods),
        sum(errors) / periods,
        max(errors),
    )


def _halved(build: Callable[[Horizon, int, float], Sent]) -> Callable[[Horizon, int, Goal], Sent | None]:
    return lambda horizon, steady, goal: _strongest(
        lambda strength: build(horizon, steady, strength), horizon.periods, goal
    )


def _strongest(build: Callable[[float], Sent], rounds: int, goal: Goal) -> Sent | None:
    """Return what tells most within the goal, by halving on a logarithmic scale of ε_local a round or over all."""
    low, high = log(1e-6), log(min(goal.local, 20.0))
    found = build(exp(low))
    if not goal.holds(found.mechanism, rounds):
        return None
    for step in range(STEPS + 1):
        # The largest one first: a cap on the local ε is often what binds.
        middle = high if step == 0 else (low + high) / 2
        tried = build(exp(middle))
        if goal.holds(tried.mechanism, rounds):
            low, found = middle, tried
            if step == 0:
                break
        else:
            high = middle
    return found


def _direct(horizon: Horizon, steady: int, epsilon: float) -> SendingStates:  # noqa: ARG001 - all who come hide
    # e^ε₀ = 1 + 2(1 − γ)/γ, so γ = 2/(e^ε₀ + 1); rounded up, to more privacy.
    gamma = min(DENOMINATOR - 1, ceil(2 * DENOMINATOR / (exp(epsilon) + 1)))
    return SendingStates(2, gamma, horizon)


def _vector(horizon: Horizon, steady: int, epsilon: float) -> SendingVector:
    return SendingVector(Vector.best(horizon, epsilon), steady)


def _sampled(horizon: Horizon, steady: int, epsilon: float) -> SendingOneChange:
    return SendingOneChange(Sampled(horizon, weight_of(epsilon)), steady)


def _tree(horizon: Horizon, steady: int, goal: Goal) -> SendingNodes | None:  # noqa: ARG001 - all who come hide
    mechanism = least_noise(horizon, goal)
    return None if mechanism is None else SendingNodes(mechanism)


_STRONGEST: Mapping[str, Callable[[Horizon, int, Goal], Sent | None]] = {
    Direct.kind: _halved(_direct),
    Vector.kind: _halved(_vector),
    Sampled.kind: _halved(_sampled),
    Tree.kind: _tree,
}
"""Each strategy with the least error within a goal: most by halving a local ε, of one round or of all."""
