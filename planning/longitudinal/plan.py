"""Chooses the strategy of a longitudinal question, by the exact error of each strategy over the whole horizon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from math import exp, inf, log, sqrt
from typing import Any, get_args

from hubbub.accountant.calibration.design import Noise
from hubbub.accountant.calibration.noise import NOISE_WORTH
from hubbub.accountant.errors import AccountingError, UnmetTarget, shown
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Sampled, Strategy, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.accountant.mechanisms.noise_law import ChainNoise, NoiseLaw
from hubbub.accountant.numbers import real
from hubbub.planning.longitudinal.goals import (
    Goal,
    binary_beside_noise,
    least_binary,
    least_nodes,
    nodes_beside_noise,
)
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.question import AUTO, Longitudinal
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector, steady_people
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.longitudinal.strategy import COUNTS_ON_STEADY
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.randomizers.randomizer import beside_noise

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
    With `noise` each shuffler adds noise of that law to each round's batch, which alone keeps within the goal. If the
    strategy does not apply, `why_not` is the reason, and there are no numbers.
    """

    name: str
    sending: Sent | None = None
    why_not: str | None = None
    epsilon_local: float | None = None
    epsilon_upper: float | None = None
    standard_error_mean: float = inf
    standard_error_largest: float = inf
    standard_error_changing: float = inf
    noise: NoiseLaw | None = None

    unmet: bool = False
    """Whether it does not apply because no amount of noise meets the goal: with other numbers it may."""

    @property
    def sent(self) -> str:
        """The name, with the noise if the shuffler adds any."""
        return self.name if self.noise is None else f"{self.name}, noise"

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
            "noise": None if self.noise is None else self.noise.content(),
        }


@dataclass(frozen=True)
class StrategyTargets:
    """The requirements that every strategy must meet.

    `steady` people of each level answer every round; None if the task does not state it. `changing` is the share of
    devices whose value at a node is not 0. Errors are computed for that share. `noise` says whether the shuffler adds
    noise: never, if that is worth its error (`NOISE_WORTH`), or always.
    """

    horizon: Horizon
    goal: Goal
    steady: int | None
    changing: float = 0.0
    noise: Noise = "none"

    @classmethod
    def of(
        cls,
        horizon: Horizon,
        goal: Goal,
        steady_share: float | None = None,
        changing: float = 0.0,
        noise: Noise = "none",
    ) -> StrategyTargets:
        """Return the targets for `steady_share`, the share of the honest people who answer every round.

        None means that nothing is stated about it.

        Raises:
            AccountingError: if a share is out of range, or `noise` is none of its words.
        """
        if noise not in get_args(Noise):
            raise AccountingError(f"noise is {shown(noise)}; give one of {', '.join(get_args(Noise))}")
        if not 0 <= real(changing) <= 1:
            raise AccountingError(f"changing is {shown(changing)}, but a share of the devices must be from 0 to 1")
        if steady_share is None:
            return cls(horizon, goal, None, float(changing), noise)
        if not 0 < real(steady_share) <= 1:
            raise AccountingError(
                f"steady_share is {shown(steady_share)}, but a share of the people must be above 0 and at most 1"
            )
        steady = steady_people(horizon.levels, goal.hiding, steady_share, goal.terms.delta)
        return cls(horizon, goal, steady, float(changing), noise)


def candidates(question: Longitudinal, rounds: int, goal: Goal, noise: Noise = "none") -> tuple[StrategyCandidate, ...]:
    """Return the cost and the errors of each strategy that the question allows, with noise of the shuffler or not."""
    names = [*SENDINGS] if question.strategy == AUTO else [question.strategy]
    try:
        horizon = Horizon(rounds, question.changes)
    except AccountingError as error:
        return tuple(StrategyCandidate(name, why_not=str(error)) for name in names)
    return compare_strategies(StrategyTargets.of(horizon, goal, question.steady_share, noise=noise), names)


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
    """Return the candidate with the least mean error; if none applies, the first one, which contains the reason.

    One beside noise is preferred if its error is at most `NOISE_WORTH` times the least.
    """
    least = min(found, key=lambda each: each.standard_error_mean)
    noisy = min((each for each in found if each.noise), key=lambda each: each.standard_error_mean, default=least)
    return noisy if noisy.standard_error_mean <= NOISE_WORTH * least.standard_error_mean else least


def _candidate(name: str, wanted: StrategyTargets) -> StrategyCandidate:
    """Return a strategy without noise or beside it, as the targets ask; with `auto`, beside it if that is worth it."""
    if wanted.noise == "always" and name not in BESIDE_NOISE:
        ways = " and ".join(BESIDE_NOISE)
        return StrategyCandidate(name, why_not=f"it takes no noise of the shuffler, only {ways} do")
    found = [_without_noise(name, wanted)] if wanted.noise != "always" else []
    if wanted.noise != "none" and name in BESIDE_NOISE:
        found.append(_beside_noise(name, wanted))
    return chosen(tuple(found))


STATE_STEADY = (
    "state the share of the minimum's honest people who do: steady_share in a task's query, or --steady-share of a "
    "command"
)
"""What to do if a strategy counts on people who answer every round."""


def _beside_noise(name: str, wanted: StrategyTargets) -> StrategyCandidate:
    try:
        found = BESIDE_NOISE[name](wanted)
    except AccountingError as error:
        return StrategyCandidate(name, why_not=f"beside noise: {error}", unmet=isinstance(error, UnmetTarget))
    if found is None:
        cap = f"epsilon_local {wanted.goal.local:g} over {wanted.horizon.periods} rounds"
        return StrategyCandidate(name, why_not=f"beside noise: no randomizer keeps within {cap}", unmet=True)
    return _measured(name, found[0], wanted, found[1])


def _without_noise(name: str, wanted: StrategyTargets) -> StrategyCandidate:
    if wanted.steady is None and SENDINGS[name].counts_on_steady:
        return StrategyCandidate(name, why_not=f"{COUNTS_ON_STEADY}; {STATE_STEADY}")
    try:
        sending = _STRONGEST[name](wanted)
    except AccountingError as error:
        return StrategyCandidate(name, why_not=str(error), unmet=isinstance(error, UnmetTarget))
    if sending is None:
        goal = wanted.goal
        limits = f"epsilon {goal.epsilon:g} and epsilon_local {goal.local:g} over {wanted.horizon.periods} rounds"
        return StrategyCandidate(
            name, why_not=f"no amount of noise keeps within {limits} at {goal.hiding} honest reports", unmet=True
        )
    return _measured(name, sending, wanted)


def _measured(name: str, sending: Sent, wanted: StrategyTargets, noise: NoiseLaw | None = None) -> StrategyCandidate:
    strategy: Strategy = sending.strategy
    rounds, goal = wanted.horizon.periods, wanted.goal
    reports, periods = goal.terms.minimum_reports, range(1, rounds + 1)
    changing = [round(wanted.changing * reports) * len(wanted.horizon.cover(period)) for period in periods]
    summed = None if noise is None else ChainNoise(noise, goal.terms.shufflers)
    added = [0.0 if summed is None else sending.noise_variance(period, summed) for period in periods]
    variances = map(strategy.variance, periods, repeat(reports), repeat(0), changing)
    errors = [sqrt(variance + more) for variance, more in zip(variances, added, strict=True)]
    largest = [strategy.largest_variance(period, reports) for period in periods]
    # Beside noise the ε that is stated needs nobody else.
    reached = (
        goal.reached(sending.mechanism, rounds)
        if noise is None
        else goal.reached_by_noise(beside_noise(sending, noise), rounds)
    )
    return StrategyCandidate(
        name,
        sending,
        None,
        goal.local_of(sending.mechanism, rounds),
        reached,
        sum(errors) / rounds,
        max(errors),
        max(sqrt(variance + more) for variance, more in zip(largest, added, strict=True)),
        noise,
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


def _direct_beside_noise(wanted: StrategyTargets) -> tuple[SendingStates, NoiseLaw] | None:
    found = binary_beside_noise(wanted.horizon, wanted.goal)
    if found is None:
        return None
    return SendingStates(2, int(found[0].gamma * DENOMINATOR), wanted.horizon), found[1]


def _tree_beside_noise(wanted: StrategyTargets) -> tuple[SendingNodes, NoiseLaw] | None:
    found = nodes_beside_noise(wanted.horizon, wanted.goal)
    return None if found is None else (SendingNodes(found[0]), found[1])


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

BESIDE_NOISE: Mapping[str, Callable[[StrategyTargets], tuple[Sent, NoiseLaw] | None]] = {
    Direct.kind: _direct_beside_noise,
    Tree.kind: _tree_beside_noise,
}
"""For each strategy whose reports the shuffler can imitate, the function that finds its least error beside noise."""
