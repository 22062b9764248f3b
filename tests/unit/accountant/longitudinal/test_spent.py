"""What longitudinal rounds cost together, against brute force and with batches of different sizes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable

import pytest

from hubbub.accountant.composition import compose_delta, compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.longitudinal.spent import TreeSpending, parts_of_horizon, parts_of_round, parts_so_far
from hubbub.accountant.mechanisms import Finite, Generic
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon, Node, Sampled, Tree, Vector
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.doubles import covered, single, spared
from support.streams import node_values, sampled_law, streams, vector_law

Law = Counter[tuple[int, ...]]
"""Probabilities of what is seen."""


def test_direct_composes_every_round_at_the_smallest() -> None:
    strategy = Direct(Horizon(4, 2), 2**31)
    assert parts_of_horizon(strategy, 100) == (Part(strategy.mechanism, 100, 4),)
    rounds = [{0: 100}, {0: 90}, {0: 100}]
    assert parts_so_far(strategy, rounds) == (Part(strategy.mechanism, 90, 3),)
    assert parts_of_round(strategy, 2, {0: 90}) == (Part(strategy.mechanism, 90),)


def test_signs_are_one_report_at_the_smallest_level() -> None:
    strategy = Vector.best(Horizon(8, 2), 2.0)
    rounds = [{0: 50}, {0: 40, 1: 45}, {0: 60}]
    assert parts_so_far(strategy, rounds) == (Part(Generic(strategy.epsilon_local(3)), 40),)
    assert parts_of_round(strategy, 2, {0: 40, 1: 30, 2: 1}) == (Part(Generic(strategy.epsilon_sign), 30),)
    assert parts_of_horizon(strategy, 77) == (Part(Generic(strategy.epsilon_local()), 77),)


def test_a_missing_level_and_too_many_rounds_are_refused() -> None:
    strategy = Vector.best(Horizon(2, 1), 2.0)
    with pytest.raises(AccountingError, match="must have level 1"):
        parts_so_far(strategy, [{0: 5}, {0: 5}])
    with pytest.raises(AccountingError, match="period is 3"):
        parts_so_far(strategy, [{0: 5, 1: 5}] * 3)


def test_rounds_so_far_cost_no_more_than_the_horizon() -> None:
    strategy = Direct(Horizon(8, 2), 2**31)
    costs = [compose_upper(parts_so_far(strategy, [{0: 1000}] * period), 1e-6) for period in (1, 4, 8)]
    assert costs == sorted(costs)
    assert costs[-1] == compose_upper(parts_of_horizon(strategy, 1000), 1e-6)


def real_views(tree: Tree, values: tuple[list[int], ...]) -> Law:
    """The law of what a tree's batches show: for each node, in order, how many −1 and +1 were sent."""
    law: Law = Counter({(): 1.0})
    for level, place in tree_places(tree.horizon):
        node, one = tree.nodes[level], Counter({(0, 0): 1.0})
        for person in values:
            value = node_values(tuple(person), level)[place - 1]
            row, after = node.law[node.values.index(value)], Law()
            for (minus, plus), mass in one.items():
                for sent, chance in zip(node.values, row, strict=True):
                    after[minus + (sent < 0), plus + (sent > 0)] += mass * float(chance)
            one = after
        joined = Law()
        for seen, mass in law.items():
            for counts, chance in one.items():
                joined[(*seen, *counts)] += mass * chance
        law = joined
    return law


def tree_places(horizon: Horizon) -> list[tuple[int, int]]:
    return [place for period in range(1, horizon.periods + 1) for place in horizon.ending(period)]


@pytest.mark.parametrize("horizon", [Horizon(2, 1), Horizon(2, 2)], ids=str)
def test_a_trees_certificate_covers_every_data_set_of_three_devices(horizon: Horizon) -> None:
    nodes = (Node(2**31, 2**30, horizon.changes > 1), Node(3 * 2**30, 2**29, horizon.changes > 1))
    tree = Tree(horizon, nodes)
    parts = parts_of_horizon(tree, 3)
    known = list(streams(horizon))
    for epsilon in (0.0, 0.5, 1.5):
        certified = compose_delta(parts, epsilon).delta_upper
        worst = 0.0
        for others in itertools.combinations_with_replacement(known, 2):
            laws = [real_views(tree, (list(one), *map(list, others))) for one in known]
            for p, q in itertools.permutations(laws, 2):
                worst = max(worst, sum(max(0.0, mass - math.exp(epsilon) * q[seen]) for seen, mass in p.items()))
        assert worst <= certified
        assert worst >= 0.2 * certified


@pytest.mark.parametrize("make", [lambda horizon: Vector.best(horizon, 1.5), lambda horizon: Sampled(horizon, 2**34)])
def test_certificates_of_signs_cover_every_data_set_of_a_level(make: Callable[[Horizon], Sampled | Vector]) -> None:
    """Three devices of level 0 over three periods: only how often each sign came in each period is seen."""
    strategy = make(Horizon(3, 2))
    laws = [signs_law(strategy, states) for states in streams(strategy.horizon)]
    parts = parts_of_horizon(strategy, 3)
    for epsilon in (0.0, 0.4, 0.8):
        certified = compose_delta(parts, epsilon).delta_upper
        worst = 0.0
        for one, other, third in itertools.combinations_with_replacement(laws, 3):
            hidden = added(other, third)
            for p, q in itertools.permutations([added(hidden, victim) for victim in (one, laws[0], laws[-1])], 2):
                worst = max(worst, sum(max(0.0, mass - math.exp(epsilon) * q[seen]) for seen, mass in p.items()))
        assert 0 < worst <= certified


def signs_law(strategy: Sampled | Vector, states: tuple[int, ...]) -> Law:
    law = vector_law(strategy, states, 0) if isinstance(strategy, Vector) else sampled_law(strategy, states, 0)
    return Counter({sent: float(mass) for sent, mass in law.items()})


def added(one: Law, other: Law) -> Law:
    """The law of the sums of two people's signs, period by period."""
    law = Law()
    for (seen, mass), (more, chance) in itertools.product(one.items(), other.items()):
        law[tuple(a + b for a, b in zip(seen, more, strict=True))] += mass * chance
    return law


def test_a_trees_parts_are_its_differences() -> None:
    node = Node(2**29, 2**27)
    tree = Tree(Horizon(8, 2), (node,) * 4)
    reports = 1000
    by_one, anything = single(node), Finite(node.law)
    assert covered(node, reports)
    # Levels 0 and 1 have at least 2k nodes: two pairs each. Level 2 has two, whose first cannot differ by two.
    assert set(parts_of_horizon(tree, reports)) == {
        Part(by_one, spared(reports), 8),
        Part(anything, reports, 1),
        Part(by_one, reports, 2),
    }
    assert set(parts_of_round(tree, 4, {0: 10, 1: 20, 2: 30})) == {
        Part(anything, 10),
        Part(anything, 20),
        Part(by_one, 30),
    }
    not_shown = TreeSpending(tree, lambda *_: False).so_far([dict.fromkeys(range(4), reports)] * 8)
    assert set(not_shown) == {Part(anything, reports, 5), Part(by_one, reports, 6)}
