"""Local guarantees and variances against the law of the whole sequence."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Node, Sampled, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from support.boolean_streams import Law, node_values, sampled_law, streams, vector_law

HORIZONS = [Horizon(d, k) for d, k in ((1, 1), (2, 1), (2, 2), (3, 2), (4, 1), (4, 2), (4, 3), (5, 2), (6, 3))]
SMALL = [each for each in HORIZONS if each.periods <= 5]


def named(horizon: Horizon) -> str:
    return f"{horizon.periods} periods, {horizon.changes} changes"


def law_of(strategy: Sampled | Vector, states: tuple[int, ...], level: int) -> Law:
    return vector_law(strategy, states, level) if isinstance(strategy, Vector) else sampled_law(strategy, states, level)


def both(horizon: Horizon, epsilon_local: float) -> list[Sampled | Vector]:
    vectors = [Vector(horizon, weight_of(epsilon_local), r) for r in range((horizon.changes + 1) // 2)]
    return [Sampled(horizon, weight_of(epsilon_local)), *vectors]


@pytest.mark.parametrize("horizon", HORIZONS, ids=named)
@pytest.mark.parametrize("epsilon_local", [0.5, 3.0])
def test_local_epsilon_of_signs_is_reached_and_never_exceeded_by_whole_sequences(
    horizon: Horizon, epsilon_local: float
) -> None:
    for strategy in both(horizon, epsilon_local):
        worst = Fraction(1)
        for level in range(horizon.levels):
            laws = [law_of(strategy, states, level) for states in streams(horizon)]
            assert all(sum(law.values()) == 1 for law in laws)
            worst = max(worst, *(max(law[y] for law in laws) / min(law[y] for law in laws) for y in laws[0]))
        assert math.log(worst) == pytest.approx(strategy.epsilon_local(), abs=1e-12)
        assert worst <= strategy.odds


def test_the_whole_weight_is_used_up_once_there_are_more_periods_than_changes() -> None:
    for strategy in both(Horizon(64, 4), 1.0):
        assert 1 - 1e-9 < strategy.epsilon_local() <= 1.0
        assert strategy.epsilon_local(1) < strategy.epsilon_local(2) < strategy.epsilon_local(5)
        assert strategy.epsilon_local(5) == strategy.epsilon_local(64)


@pytest.mark.parametrize("horizon", SMALL, ids=named)
def test_rounds_so_far_cost_what_a_horizon_that_ends_there_costs(horizon: Horizon) -> None:
    for strategy in both(horizon, 2.0):
        for period in range(1, horizon.periods + 1):
            worst = Fraction(1)
            for level in range(horizon.levels):
                laws = [law_of(strategy, states[:period], level) for states in streams(horizon)]
                worst = max(worst, *(max(law[y] for law in laws) / min(law[y] for law in laws) for y in laws[0]))
            assert math.log(worst) == pytest.approx(strategy.epsilon_local(period), abs=1e-12)


@pytest.mark.parametrize("horizon", HORIZONS, ids=named)
def test_signs_estimate_without_bias_and_with_the_stated_variance(horizon: Horizon) -> None:
    for strategy in both(horizon, 1.5):
        for states in itertools.islice(streams(horizon), 0, None, 3):
            for period in range(1, horizon.periods + 1):
                mean = square = Fraction(0)
                for level, node in horizon.cover(period):
                    for sent, mass in law_of(strategy, states, level).items():
                        mean += mass * strategy.estimate(level, sent[node - 1], 1) / horizon.levels
                        square += mass * strategy.estimate(level, sent[node - 1], 1) ** 2 / horizon.levels
                assert mean == states[period - 1]
                assert square - mean**2 == strategy.variance(period, 1, ones=states[period - 1])


def test_gaps_are_those_of_the_reference_and_twice_the_papers() -> None:
    gaps = [float(Vector.best(Horizon(64, changes), 1.0).gap) for changes in (2, 4, 8)]
    assert gaps == pytest.approx([0.3005, 0.2096, 0.1446], abs=5e-5)
    kept = [float(Sampled(Horizon(64, changes), weight_of(1.0)).gap / changes) for changes in (2, 4, 8)]
    assert kept == pytest.approx([0.2311, 0.1155, 0.0578], abs=5e-5)
    assert float(Vector.best(Horizon(64, 4), 8.0).gap) == pytest.approx(0.995, abs=5e-4)
    # c_ε falls from 4.08 to 2.16 at ε = 1 (erratum 11).
    assert float(1 / Sampled(Horizon(4, 1), weight_of(1.0)).gap) == pytest.approx(2.164, abs=1e-3)


def test_the_papers_strategy_is_never_better_than_every_sign_of_every_change_known() -> None:
    known = Sampled(Horizon(64, 4), weight_of(40.0))
    largest = max(math.sqrt(known.variance(period, 10**6)) for period in range(1, 65))
    mean = math.sqrt(sum(known.variance(period, 10**6) for period in range(1, 65)) / 64)
    assert mean == pytest.approx(18_330, rel=5e-3)
    assert largest == pytest.approx(4 * math.sqrt(7 * 6e6), rel=1e-6)


@pytest.mark.parametrize("horizon", SMALL, ids=named)
def test_direct_is_reached_by_a_zero_and_a_one_throughout(horizon: Horizon) -> None:
    strategy = Direct(horizon, 2**30)
    ratio = KRR.from_numerator(2, 2**30).likelihood_ratio
    assert strategy.epsilon_local() == pytest.approx(horizon.periods * math.log(ratio), rel=1e-15)
    assert strategy.epsilon_local(1) == pytest.approx(math.log(ratio), rel=1e-15)


def test_direct_estimates_without_bias_and_with_the_stated_variance() -> None:
    strategy = Direct(Horizon(4, 2), 2**30)
    for state in (0, 1):
        chance = strategy.mechanism.law(state)[1]
        estimates = [strategy.estimate(0, sent, 1) for sent in (0, 1)]
        mean = (1 - chance) * estimates[0] + chance * estimates[1]
        assert mean == state
        assert chance * (1 - chance) * (estimates[1] - estimates[0]) ** 2 == strategy.variance(3, 1, state, state)


@pytest.mark.parametrize("node", [Node(2**29, 2**27), Node(2**31, 5), Node(2**29, 2**27, signed=False)], ids=str)
def test_a_node_is_estimated_without_bias_and_with_the_stated_variance(node: Node) -> None:
    tree = Tree(Horizon(1, 1), node)
    for value, row in zip(node.values, node.law, strict=True):
        assert sum(row) == 1
        estimates = [tree.estimate(0, sent, 1) for sent in node.values]
        mean = sum(mass * each for mass, each in zip(row, estimates, strict=True))
        square = sum(mass * each**2 for mass, each in zip(row, estimates, strict=True))
        assert mean == value
        assert square - mean**2 == node.variance(1, abs(value)) == tree.variance(1, 1, value, abs(value))


def test_a_trees_variance_is_that_of_the_nodes_of_its_count() -> None:
    node, horizon = Node(2**29, 2**27), Horizon(13, 3)
    tree = Tree(horizon, node)
    for period in range(1, 14):
        nodes = len(horizon.cover(period))
        assert tree.variance(period, 50) == nodes * node.variance(50, 0)
        changed = [7] * nodes
        assert tree.variance(period, 50, 0, sum(changed)) == sum(node.variance(50, each) for each in changed)
        assert tree.largest_variance(period, 50) == tree.variance(period, 50, 0, min(3, nodes) * 50)


@pytest.mark.parametrize("horizon", SMALL, ids=named)
def test_local_epsilon_of_a_tree_covers_every_two_streams_so_far(horizon: Horizon) -> None:
    tree = Tree(horizon, Node(2**28, 2**24, horizon.changes > 1))
    for period in range(1, horizon.periods + 1):
        sent = {sent_values(horizon, states[:period]) for states in streams(horizon)}
        pairs = itertools.permutations(sent, 2)
        worst = max(sum(math.log(tree.node.ratio(z, w)) for z, w in zip(*pair, strict=True)) for pair in pairs)
        assert worst <= tree.epsilon_local(period) * (1 + 1e-12)
    assert worst >= 0.5 * tree.epsilon_local()


def sent_values(horizon: Horizon, states: tuple[int, ...]) -> tuple[int, ...]:
    """The values of the node of each period so far."""
    places = [horizon.ending(period) for period in range(1, len(states) + 1)]
    return tuple(node_values(states, level)[number - 1] for level, number in places)


def test_covers_are_dyadic_and_add_up() -> None:
    horizon = Horizon(13, 3)
    assert horizon.levels == 4
    assert horizon.cover(13) == ((3, 1), (2, 3), (0, 13))
    assert [horizon.ending(period) for period in (1, 8, 12, 13)] == [(0, 1), (3, 1), (2, 3), (0, 13)]
    for period in range(1, 14):
        assert horizon.cover(period)[-1] == horizon.ending(period)
    for states in itertools.islice(streams(horizon), 50):
        for period in range(1, 14):
            assert sum(node_values(states, h)[j - 1] for h, j in horizon.cover(period)) == states[period - 1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Horizon(0, 1), "periods is 0"),
        (lambda: Horizon(4, 5), "changes is 5; give at most the 4 periods"),
        (lambda: Horizon(4, 2).cover(5), "period is 5"),
        (lambda: Vector(Horizon(4, 2), 2**33, 2), "minuses is 2; give a whole number from 0 to 1"),
        (lambda: Sampled(Horizon(4, 2), 2**32), "weight is 4294967296"),
        (lambda: Tree(Horizon(2, 2), Node(1, 1, signed=False)), "node has no -1, but 2 changes can make"),
        (lambda: Node(2**32, 1), "gamma is 4294967296"),
        (lambda: Node(1, 2**31), "side is 2147483648"),
        (lambda: weight_of(0.0), "epsilon_local is 0.0"),
    ],
)
def test_parameters_out_of_range_are_refused(make: object, told: str) -> None:
    with pytest.raises(AccountingError, match=told.replace("*", r"\*")):
        make()  # type: ignore[operator]
