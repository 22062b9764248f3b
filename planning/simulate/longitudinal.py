"""Runs each strategy for a boolean that changes over time on a column, and compares observed with promised errors.

Changes are sent by the draws that devices make (`queries.longitudinal.sampling`). If nothing changed, the law of the
sent value has no memory and is the same for every device, so it is drawn for all of them at once. The sum of m fair
coins is 2·B(m, ½) − m. For m devices with one value, the numbers of devices that send each value are multinomial by the
node's law. A test compares these draws with those of single devices.
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
from hubbub.planning.longitudinal.goals import Goal
from hubbub.planning.longitudinal.plan import StrategyTargets, compare_strategies
from hubbub.planning.simulate.compare import Contender, Pool, RandomizerComparison, SimulatedErrors, observed_statistic
from hubbub.protos.task.task import Privacy
from hubbub.queries.estimation.bands import Z_95
from hubbub.queries.longitudinal import sampling
from hubbub.queries.randomizers.sampling import Random

States = npt.NDArray[np.int8]
"""Booleans by device and period, shape (devices, periods)."""

Totals = Mapping[tuple[int, int], int]
"""The sum of the sent values for each node (level, number from 1)."""


@dataclass(frozen=True)
class Streams:
    """Each device's boolean after each period, clipped to `changes` changes.

    `clipped` is the number of devices that changed more often; after the last allowed change their boolean stays.
    """

    states: States
    changes: int
    clipped: int

    @classmethod
    def of(cls, states: States, changes: int) -> Streams:
        """Return the streams clipped to `changes` changes; a boolean is 0 before the first period."""
        steps = np.diff(states, axis=1, prepend=np.int8(0))
        late = np.cumsum(steps != 0, axis=1) > changes
        kept = np.cumsum(np.where(late, 0, steps), axis=1).astype(np.int8)
        return cls(kept, changes, int(late.any(axis=1).sum()))

    @property
    def horizon(self) -> Horizon:
        """The number of periods, and the most changes."""
        return Horizon(self.states.shape[1], self.changes)


def node_values(states: States, level: int) -> States:
    """Return the values (−1, 0 or 1) of a level's nodes that end within the periods, shape (devices, nodes)."""
    ends = states[:, (1 << level) - 1 :: 1 << level]
    return np.diff(ends, axis=1, prepend=np.int8(0))


def planned(
    kind: str, horizon: Horizon, reports: int, privacy: Privacy, steady_share: float | None = None
) -> tuple[Contender, AnyStrategy | None]:
    """Return a strategy planned for (ε, δ) over all periods together, with `reports` devices in each period.

    The second value is None if it cannot be planned.
    """
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
    """Run a strategy's whole horizon `repeat` times, each time with devices drawn anew.

    The errors are those of the count after every period. The promised variance is the strategy's exact variance for the
    streams that were run. `progress` is called with the number of devices after each horizon.
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
    """Add one horizon's squared errors, promised variances and coverage, each as the mean over its periods."""
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
    """Return the estimate of the count after `period`, from the sums of the sent values."""
    nodes = STRATEGY_SIMULATIONS[type(strategy)].nodes(strategy.horizon, period)
    return float(sum(strategy.estimate(level, totals[level, number], reports) for level, number in nodes))


# The sums of all devices' sent values over a whole horizon


def _direct(strategy: Direct, states: States, pool: Random, generator: np.random.Generator) -> Totals:  # noqa: ARG001
    """Draw, anew in each period and for each state, how many of the devices with that state send 1."""
    chance = [float(strategy.mechanism.law(state)[1]) for state in (0, 1)]
    totals = {}
    for period in range(1, states.shape[1] + 1):
        ones = int(np.count_nonzero(states[:, period - 1]))
        said = generator.binomial(ones, chance[1]) + generator.binomial(len(states) - ones, chance[0])
        totals[0, period] = int(said)
    return totals


def _tree(strategy: Tree, states: States, pool: Random, generator: np.random.Generator) -> Totals:  # noqa: ARG001
    """Draw, at the node that ends with each period, how many devices with each value send each value."""
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
"""By a node's number: how many devices send no fair coin there, and the sum of the signs that they send."""


def _signs(strategy: Sampled | Vector, states: States, pool: Random, generator: np.random.Generator) -> Totals:
    """Draw a level for every device, and a sign for each node of that level: a fair coin if it sends no change."""
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
    """Send, for each changed node of a device, the next sign of its vector, times the node's value."""
    values, told = node_values(states, level), Biased()
    for row in values[np.any(values, axis=1)]:
        signs = iter(sampling.sign_vector(strategy, pool))
        for place in np.flatnonzero(row).tolist():
            _add(told, place + 1, int(row[place]) * next(signs))
    return told


def _one_change(strategy: Sampled, states: States, level: int, pool: Random) -> Biased:
    """Send the randomized sign of the change that a device keeps, at the node that contains the change."""
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
    """The two functions that run a strategy.

    `send` returns the sums of all devices' sent values. `nodes` returns the nodes whose sums give the count after a
    period.
    """

    send: Callable[[Any, States, Random, np.random.Generator], Totals]
    nodes: Callable[[Horizon, int], tuple[tuple[int, int], ...]]


STRATEGY_SIMULATIONS: Mapping[type, StrategySimulation] = {
    Direct: StrategySimulation(_direct, lambda _, period: ((0, period),)),
    Tree: StrategySimulation(_tree, Horizon.cover),
    Sampled: StrategySimulation(_signs, Horizon.cover),
    Vector: StrategySimulation(_signs, Horizon.cover),
}
"""The simulation of each strategy, by the strategy's type."""
