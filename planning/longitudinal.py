"""Chooses the strategy of a longitudinal question, by the exact error of each strategy over the whole horizon."""

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
"""Halvings in the search for the local ε, on a logarithmic scale of e^±17.

The last one changes an error by a thousandth.
"""

LOCAL_MOST = 20.0
"""Largest local ε of all signs that the search tries: gaps are 1 long before."""

Sent = SendingStates | SendingVector | SendingOneChange | SendingNodes

Progress = Callable[[str], None]
"""Called with the name of each strategy before it is computed."""


@dataclass(frozen=True)
class StrategyCandidate:
    """A strategy with its least error, its cost over all rounds, and the errors of the count at the minimum.

    `standard_error_mean` is the mean of the count's standard error over all rounds, `standard_error_largest` the
    largest. `standard_error_changing` is the largest if all devices change as often, and as badly timed, as possible.
    If the strategy does not apply, `why_not` is the reason, and there are no numbers.
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
        """Return the candidate as a JSON object."""
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
    """The requirements that every strategy must meet.

    `steady` people of each level answer every round; None if the task does not state it. `changing` is the share of
    devices whose value at a node is not 0. Errors are computed for that share.
    """

    horizon: Horizon
    goal: Goal
    steady: int | None
    changing: float = 0.0

    @classmethod
    def of(
        cls, horizon: Horizon, goal: Goal, steady_share: float | None = None, changing: float = 0.0
    ) -> StrategyTargets:
        """Return the targets for `steady_share`, the share of the honest people who answer every round.

        None means that nothing is stated about it.

        Raises:
            AccountingError: if a share is out of range.
        """
        if not 0 <= real(changing) <= 1:
            raise AccountingError(f"changing is {shown(changing)}, but a share of the devices must be from 0 to 1")
        if steady_share is None:
            return cls(horizon, goal, None, float(changing))
        if not 0 < real(steady_share) <= 1:
            raise AccountingError(
                f"steady_share is {shown(steady_share)}, but a share of the people must be above 0 and at most 1"
            )
        steady = steady_people(horizon.levels, goal.hiding, steady_share, goal.terms.delta)
        return cls(horizon, goal, steady, float(changing))


def candidates(question: Longitudinal, rounds: int, goal: Goal) -> tuple[StrategyCandidate, ...]:
    """Return the cost and the errors of each strategy that the question allows."""
    names = [*SENDINGS] if question.strategy == AUTO else [question.strategy]
    try:
        horizon = Horizon(rounds, question.changes)
    except AccountingError as error:
        return tuple(StrategyCandidate(name, why_not=str(error)) for name in names)
    return compare_strategies(StrategyTargets.of(horizon, goal, question.steady_share), names)


def compare_strategies(
    wanted: StrategyTargets, names: Iterable[str] = SENDINGS, progress: Progress = lambda _: None
) -> tuple[StrategyCandidate, ...]:
    """Return each strategy at its least error within the goal, or with the reason why it does not apply."""
    found = []
    for name in names:
        progress(name)
        found.append(_candidate(name, wanted))
    return tuple(found)


def chosen(found: tuple[StrategyCandidate, ...]) -> StrategyCandidate:
    """Return the candidate with the least mean error; if none applies, the first one, which contains the reason."""
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
        return StrategyCandidate(
            name, why_not=f"no amount of noise keeps within {limits} at {goal.hiding} honest reports"
        )
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
    """Return the strategy with the largest local ε within the goal; None if there is none.

    The search halves a logarithmic scale of ε_local over all rounds.
    """
    goal, rounds = wanted.goal, wanted.horizon.periods
    low, high = log(1e-6), log(min(goal.local, LOCAL_MOST))
    found = build(exp(low))
    if not goal.holds(found.mechanism, rounds):
        return None
    for step in range(STEPS + 1):
        # The largest ε_local first, because often its cap is the only limit that binds.
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
"""For each strategy, the function that finds its least error within a goal: by least noise, or by largest local ε."""
