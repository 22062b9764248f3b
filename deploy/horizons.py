"""Horizons: chooses how a question over time is sent, by the exact error of each strategy over the whole horizon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, exp, inf, log, sqrt
from typing import Any

from hubbub.accountant.certificate.batches import linked_part, local_sum, lone_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import LocalMechanism, one_round, paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Sampled, Strategy, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.pairs import Part
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.question import AUTO, Longitudinal
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector, steady_people

STEPS = 15
"""Halvings of a strength on a logarithmic scale of e^±17: the last one changes an error by a part in a thousand."""

_NO_TREE = "devices do not send a tree's levels yet; `hubbub account longitudinal` says how precise it would be"

Sent = SendingStates | SendingVector | SendingOneChange


@dataclass(frozen=True)
class Goal:
    """What a question over time may cost: `epsilon` and `local` over all rounds, the others in one of them, at `delta`.

    `terms` are the task's, with the minimum that everything is computed at.
    """

    terms: Terms
    epsilon: float
    local: float
    round_epsilon: float
    round_local: float
    delta: float

    @property
    def hiding(self) -> int:
        """The honest people of a round at the minimum."""
        return max(1, honest_reports(self.terms.minimum_reports, self.terms.minimum_reports, self.terms.honest_share))

    def holds(self, mechanism: LocalMechanism, rounds: int) -> bool:
        """Return whether a mechanism keeps within all of it over so many rounds."""
        paid, one = paid_rounds(mechanism, rounds), one_round(mechanism)
        if one.epsilon_local > self.round_local or local_sum([mechanism] * paid) > self.local:
            return False
        if self.reached(mechanism, rounds) > self.epsilon:
            return False
        # One round never costs more than all of them.
        if self.epsilon <= self.round_epsilon:
            return True
        alone = lone_part(self.terms, mechanism, self.hiding)
        return compose_upper([alone], self.delta) <= self.round_epsilon

    def reached(self, mechanism: LocalMechanism, rounds: int) -> float:
        """Return the certified ε of so many rounds together."""
        part = linked_part(self.terms, mechanism, self.hiding)
        paid = paid_rounds(mechanism, rounds)
        return compose_upper([Part(mechanism, part.reports, paid, part.dummies)], self.delta)


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
    wanted = [*_STRENGTHS] if question.strategy == AUTO else [question.strategy]
    try:
        horizon = Horizon(rounds, question.changes)
    except AccountingError as error:
        return tuple(Candidate(name, why_not=str(error)) for name in wanted)
    steady = steady_people(horizon.levels, goal.hiding, question.steady_share, goal.terms.delta)
    found = tuple(_candidate(name, horizon, steady, goal) for name in wanted)
    return (*found, Candidate(Tree.kind, why_not=_NO_TREE)) if question.strategy == AUTO else found


def chosen(found: tuple[Candidate, ...]) -> Candidate:
    """Return the candidate with the least mean error; where none applies, the first, which says why not."""
    return min(found, key=lambda each: each.standard_error_mean)


def _candidate(name: str, horizon: Horizon, steady: int, goal: Goal) -> Candidate:
    build = _STRENGTHS[name]
    try:
        sending = _strongest(lambda strength: build(horizon, steady, strength), horizon.periods, goal)
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


_STRENGTHS: Mapping[str, Callable[[Horizon, int, float], Sent]] = {
    Direct.kind: _direct,
    Vector.kind: _vector,
    Sampled.kind: _sampled,
}
"""Each strategy at a local ε: of one round, or of all where they are one report."""
