"""Runs each strategy for a boolean that changes over time on a column, and sets seen errors beside promised.

Changes are sent by the draws that devices make (`queries.longitudinal.sampling`). What is sent where nothing changed
has no memory and is the same law for every device, so it is drawn for all of them at once: the sum of m fair coins is
2·B(m, ½) − m, and how often m devices of one value send each value is multinomial by the node's law. A test compares
both with each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms.longitudinal import AnyStrategy, Direct, Horizon, Sampled, Tree, Vector
from hubbub.planning.longitudinal import StrategyTargets, compare_strategies
from hubbub.planning.longitudinal_goals import Goal
from hubbub.planning.simulate.compare import Contender, Pool, RandomizerComparison, SimulatedErrors, observed_statistic
from hubbub.protos.task.task import Privacy
from hubbub.queries.estimation.bands import Z_95
from hubbub.queries.longitudinal import sampling
from hubbub.queries.randomizers.sampling import Random

States = npt.NDArray[np.int8]
"""Booleans by device and period, shape (devices, periods)."""

Totals = Mapping[tuple[int, int], int]
"""The sum of what was sent for each node (level, number from 1)."""


@dataclass(frozen=True)
class Streams:
    """What a column over time says: each device's boolean after each period, clipped to so many changes.

    `clipped` is how many devices changed more often: from then on their boolean stays.
    """

    states: States
    changes: int
    clipped: int

    @classmethod
    def of(cls, states: States, changes: int) -> Streams:
        """Clip the streams; a boolean is 0 before the first period."""
        steps = np.diff(states, axis=1, prepend=np.int8(0))
        late = np.cumsum(steps != 0, axis=1) > changes
        kept = np.cumsum(np.where(late, 0, steps), axis=1).astype(np.int8)
        return cls(kept, changes, int(late.any(axis=1).sum()))

    @property
    def horizon(self) -> Horizon:
        """The periods, and the most changes."""
        return Horizon(self.states.shape[1], self.changes)


def node_values(states: States, level: int) -> States:
    """Return the nodes' values, −1, 0 or 1, of a level's nodes that end, shape (devices, nodes)."""
    ends = states[:, (1 << level) - 1 :: 1 << level]
    return np.diff(ends, axis=1, prepend=np.int8(0))


def planned(
    kind: str, horizon: Horizon, reports: int, privacy: Privacy, steady_share: float | None = None
) -> tuple[Contender, AnyStrategy | None]:
    """Return a strategy at the privacy's (ε, δ) over all periods together, at so many devices in each."""
    try:
        goal = Goal.over_all(privacy.epsilon, privacy.delta, reports, privacy.epsilon_local, privacy.honest_share)
        (found,) = compare_strategies(StrategyTargets.of(horizon, goal, steady_share), [kind])
    except AccountingError as error:
        return Contender(kind, reports, why_not=str(error)), None
    if found.sending is None:
        return Contender(kind, reports, why_not=found.why_not), None
    content = found.sending.content()
    words = {key: f"{each[0]}/{each[1]}" if isinstance(each, list) else each for key, each in content.items()}
    stated = (found.epsilon_local, found.epsilon_upper, found.standard_error_mean)
    return Contender(kind, reports, None, *stated, parameters=words), found.sending.strategy


def run(
    contender: Contender,
    strategy: AnyStrategy | None,
    streams: Streams,
    repeat: int,
    progress: Callable[[int], None],
    random: Random,
) -> RandomizerComparison:
    """Run a strategy's whole horizon `repeat` times, each over other devices; `progress` is told of each device's.

    The errors are those of the count after every period; what is promised is the strategy's exact variance at the
    streams that were run.
    """
    if strategy is None:
        return RandomizerComparison(contender)
    pool, generator = Pool(random), np.random.default_rng(int.from_bytes(random(32), "big"))
    send, tried = STRATEGY_SIMULATIONS[type(strategy)].send, SimulatedErrors()
    for _ in range(repeat):
        rows = generator.choice(len(streams.states), size=contender.reports, replace=False)
        states = streams.states[rows]
        totals = send(strategy, states, pool, generator)
        _note(strategy, states, totals, tried)
        progress(contender.reports)
    return RandomizerComparison(contender, (observed_statistic("count", tried),))


def _note(strategy: AnyStrategy, states: States, totals: Totals, tried: SimulatedErrors) -> None:
    """Add one horizon's errors, promises and intervals, each the mean over its periods."""
    reports, periods = states.shape
    truth = states.sum(axis=0, dtype=np.int64)
    values = [node_values(states, level) for level in range(strategy.horizon.levels)]
    errors, promises, covered = [], [], []
    for period in range(1, periods + 1):
        nodes = strategy.horizon.cover(period)
        changed = sum(int(np.count_nonzero(values[level][:, node - 1])) for level, node in nodes)
        variance = float(strategy.variance(period, reports, int(truth[period - 1]), changed))
        error = estimated(strategy, totals, period, reports) - float(truth[period - 1])
        errors.append(error**2)
        promises.append(variance)
        covered.append(float(abs(error) <= Z_95 * math.sqrt(variance)))
    for kept, found in ((tried.errors, errors), (tried.promises, promises), (tried.covered, covered)):
        kept.append(math.fsum(found) / periods)


def estimated(strategy: AnyStrategy, totals: Totals, period: int, reports: int) -> float:
    """Return the estimate of the count after `period`, from the sums of what was sent."""
    nodes = STRATEGY_SIMULATIONS[type(strategy)].nodes(strategy.horizon, period)
    return float(sum(strategy.estimate(level, totals[level, number], reports) for level, number in nodes))


# What all devices send over a whole horizon, added up


def _direct(strategy: Direct, states: States, pool: Random, generator: np.random.Generator) -> Totals:  # noqa: ARG001
    """Each period anew: of those at each state, so many say 1."""
    chance = [float(strategy.mechanism.law(state)[1]) for state in (0, 1)]
    totals = {}
    for period in range(1, states.shape[1] + 1):
        ones = int(np.count_nonzero(states[:, period - 1]))
        said = generator.binomial(ones, chance[1]) + generator.binomial(len(states) - ones, chance[0])
        totals[0, period] = int(said)
    return totals


def _tree(strategy: Tree, states: States, pool: Random, generator: np.random.Generator) -> Totals:  # noqa: ARG001
    """Every device at the node of every period: of those with each value, so many send each value."""
    node, totals = strategy.node, {}
    laws = [[float(chance) for chance in row] for row in node.law]
    for period in range(1, states.shape[1] + 1):
        level, number = strategy.horizon.ending(period)
        values = node_values(states, level)[:, number - 1]
        holders = [int(np.count_nonzero(values == value)) for value in node.values]
        sent = sum(generator.multinomial(count, law) for count, law in zip(holders, laws, strict=True))
        totals[level, number] = int(np.dot(sent, node.values))
    return totals


Biased = dict[int, tuple[int, int]]
"""By a node's number: how many devices do not send a fair coin there, and the sum of what they send."""


def _signs(strategy: Sampled | Vector, states: States, pool: Random, generator: np.random.Generator) -> Totals:
    """Every device draws a level, and sends a sign at each node of it: a fair coin where nothing is told."""
    horizon, totals = strategy.horizon, {}
    levels = np.array([sampling.level(horizon, pool) for _ in range(len(states))])
    for level in range(horizon.levels):
        mine = states[levels == level]
        told = _TOLD[type(strategy)](strategy, mine, level, pool)
        for number in range(1, horizon.nodes(level) + 1):
            count, total = told.get(number, (0, 0))
            fair = len(mine) - count
            totals[level, number] = total + 2 * int(generator.binomial(fair, 0.5)) - fair
    return totals


def _all_changes(strategy: Vector, states: States, level: int, pool: Random) -> Biased:
    """Each changed node of a device sends the next sign of its vector, times the node's value."""
    values, told = node_values(states, level), Biased()
    for row in values[np.any(values, axis=1)]:
        signs = iter(sampling.sign_vector(strategy, pool))
        for place in np.flatnonzero(row).tolist():
            _add(told, place + 1, int(row[place]) * next(signs))
    return told


def _one_change(strategy: Sampled, states: States, level: int, pool: Random) -> Biased:
    """The change that a device keeps sends its sign, at the node that it is in."""
    told, steps = Biased(), np.diff(states, axis=1, prepend=np.int8(0))
    for row in steps:
        kept, changes = sampling.kept_change(strategy, pool), np.flatnonzero(row)
        if kept > len(changes):
            continue
        place = int(changes[kept - 1])
        number = (place >> level) + 1
        if number <= strategy.horizon.nodes(level):
            _add(told, number, sampling.change_sign(strategy, int(row[place]), pool))
    return told


def _add(told: Biased, number: int, sent: int) -> None:
    count, total = told.get(number, (0, 0))
    told[number] = count + 1, total + sent


_TOLD: Mapping[type, Callable[[Any, States, int, Random], Biased]] = {Vector: _all_changes, Sampled: _one_change}


@dataclass(frozen=True)
class StrategySimulation:
    """How a strategy is run: the sums of what all devices send, and the sums that the count after a period is from."""

    send: Callable[[Any, States, Random, np.random.Generator], Totals]
    nodes: Callable[[Horizon, int], tuple[tuple[int, int], ...]]


STRATEGY_SIMULATIONS: Mapping[type, StrategySimulation] = {
    Direct: StrategySimulation(_direct, lambda _, period: ((0, period),)),
    Tree: StrategySimulation(_tree, Horizon.cover),
    Sampled: StrategySimulation(_signs, Horizon.cover),
    Vector: StrategySimulation(_signs, Horizon.cover),
}
"""Each strategy's, by its type."""
