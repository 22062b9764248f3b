"""Chooses how a question over time is sent, by the exact error of each strategy over the whole horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from math import exp, inf, log, sqrt
from typing import Any

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Sampled, Strategy, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.accountant.numbers import real
from hubbub.planning.longitudinal_goals import Goal, least_binary, least_nodes
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.question import AUTO, Longitudinal
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector, steady_people
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.longitudinal.strategy import STEADY_MISSING
from hubbub.queries.longitudinal.tree import SendingNodes

STEPS = 15
"""Halvings of a strength on a logarithmic scale of e^±17: the last one changes an error by a part in a thousand."""

LOCAL_MOST = 20.0
"""Largest local ε of all signs that is looked at: gaps are 1 long before."""

Sent = SendingStates | SendingVector | SendingOneChange | SendingNodes

Progress = Callable[[str], None]
"""Is told which strategy is looked at."""


@dataclass(frozen=True)
class StrategyCandidate:
    """A strategy at its best strength, what it costs over all rounds, and the errors of the count at the minimum.

    The errors are the mean over all rounds of the count's standard error, the largest, and the largest if every
    device had changed as often and as badly timed as can be. Where it does not apply, `why_not` says why, and there
    are no numbers.
    """

    name: str
    sending: Sent | None = None
    why_not: str | None = None
    epsilon_local: float | None = None
    epsilon_upper: float | None = None
    standard_error_mean: float = inf
    standard_error_largest: float = inf
    standard_error_changing: float = inf

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
            "standard_error_changing": self.standard_error_changing if applies else None,
        }


@dataclass(frozen=True)
class StrategyTargets:
    """What is asked of every strategy.

    `steady` people of each level answer every round; None where nobody states it. `changing` is the share of devices
    of which a node's value is not 0: errors are stated for it.
    """

    horizon: Horizon
    goal: Goal
    steady: int | None
    changing: float = 0.0

    @classmethod
    def of(
        cls, horizon: Horizon, goal: Goal, steady_share: float | None = None, changing: float = 0.0
    ) -> StrategyTargets:
        """Count who is steady, of the share of the honest people who answer every round; None states nothing.

        Raises:
            AccountingError: where a share is out of range.
        """
        if not 0 <= real(changing) <= 1:
            raise AccountingError(f"changing is {shown(changing)}, must be from 0 to 1; it is a share of the devices")
        if steady_share is None:
            return cls(horizon, goal, None, float(changing))
        if not 0 < real(steady_share) <= 1:
            raise AccountingError(f"steady_share is {shown(steady_share)}, must be above 0 and at most 1: a share")
        steady = steady_people(horizon.levels, goal.hiding, steady_share, goal.terms.delta)
        return cls(horizon, goal, steady, float(changing))


def candidates(question: Longitudinal, rounds: int, goal: Goal) -> tuple[StrategyCandidate, ...]:
    """Return what each strategy that the question allows would cost and how precise it would be."""
    names = [*SENDINGS] if question.strategy == AUTO else [question.strategy]
    try:
        horizon = Horizon(rounds, question.changes)
    except AccountingError as error:
        return tuple(StrategyCandidate(name, why_not=str(error)) for name in names)
    return compare_strategies(StrategyTargets.of(horizon, goal, question.steady_share), names)


def compare_strategies(
    wanted: StrategyTargets, names: Iterable[str] = SENDINGS, progress: Progress = lambda _: None
) -> tuple[StrategyCandidate, ...]:
    """Return each of the strategies at the least error within the goal, or why it does not apply."""
    found = []
    for name in names:
        progress(name)
        found.append(_candidate(name, wanted))
    return tuple(found)


def chosen(found: tuple[StrategyCandidate, ...]) -> StrategyCandidate:
    """Return the candidate with the least mean error; where none applies, the first, which says why not."""
    return min(found, key=lambda each: each.standard_error_mean)


def _candidate(name: str, wanted: StrategyTargets) -> StrategyCandidate:
    if wanted.steady is None and SENDINGS[name].counts_on_steady:
        return StrategyCandidate(name, why_not=f"it {STEADY_MISSING}")
    try:
        sending = _STRONGEST[name](wanted)
    except AccountingError as error:
        return StrategyCandidate(name, why_not=str(error))
    if sending is None:
        goal = wanted.goal
        limits = f"epsilon {goal.epsilon:g} and epsilon_local {goal.local:g} over {wanted.horizon.periods} rounds"
        return StrategyCandidate(name, why_not=f"no strength is within {limits} at {goal.hiding} honest reports")
    return _measured(name, sending, wanted)


def _measured(name: str, sending: Sent, wanted: StrategyTargets) -> StrategyCandidate:
    strategy: Strategy = sending.strategy
    rounds, goal = wanted.horizon.periods, wanted.goal
    reports, periods = goal.terms.minimum_reports, range(1, rounds + 1)
    changing = [round(wanted.changing * reports) * len(wanted.horizon.cover(period)) for period in periods]
    errors = [sqrt(strategy.variance(*each)) for each in zip(periods, repeat(reports), repeat(0), changing)]
    return StrategyCandidate(
        name,
        sending,
        None,
        goal.local_of(sending.mechanism, rounds),
        goal.reached(sending.mechanism, rounds),
        sum(errors) / rounds,
        max(errors),
        max(sqrt(strategy.largest_variance(period, reports)) for period in periods),
    )


def _strongest(build: Callable[[float], Sent], wanted: StrategyTargets) -> Sent | None:
    """Return what tells most within the goal, by halving on a logarithmic scale of ε_local over all rounds."""
    goal, rounds = wanted.goal, wanted.horizon.periods
    low, high = log(1e-6), log(min(goal.local, LOCAL_MOST))
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


def _direct(wanted: StrategyTargets) -> SendingStates | None:
    found = least_binary(wanted.horizon, wanted.goal)
    return None if found is None else SendingStates(2, int(found.gamma * DENOMINATOR), wanted.horizon)


def _tree(wanted: StrategyTargets) -> SendingNodes | None:
    found = least_nodes(wanted.horizon, wanted.goal, wanted.changing)
    return None if found is None else SendingNodes(found)


def _vector(wanted: StrategyTargets) -> Sent | None:
    steady = wanted.steady or 1
    return _strongest(lambda local: SendingVector(Vector.best(wanted.horizon, local), steady), wanted)


def _sampled(wanted: StrategyTargets) -> Sent | None:
    steady = wanted.steady or 1
    return _strongest(lambda local: SendingOneChange(Sampled(wanted.horizon, weight_of(local)), steady), wanted)


_STRONGEST: Mapping[str, Callable[[StrategyTargets], Sent | None]] = {
    Direct.kind: _direct,
    Vector.kind: _vector,
    Sampled.kind: _sampled,
    Tree.kind: _tree,
}
"""Each strategy with the least error within a goal: by the least noise, or by the largest local ε."""
