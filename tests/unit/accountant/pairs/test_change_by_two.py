"""A node that differs by two costs at most two that differ by one: the comparison, against brute force."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from hubbub.accountant.composition import composed_delta
from hubbub.accountant.losses.curves import Curve, blanket_curve, grid_above, grid_below
from hubbub.accountant.mechanisms.longitudinal import Node
from hubbub.accountant.pairs.change_by_two import _never_above, covered, single, spared
from hubbub.accountant.pairs.finite import FinitePairs

NODES = [Node(429_496_729, 28_561_610), Node(2**31, 2**30), Node(2**30, 1_431_655_765)]


def views(node: Node, value: int, others: tuple[int, ...]) -> dict[tuple[int, int], float]:
    """The law of (how many −1, how many +1) in a batch of one person and others."""
    law: dict[tuple[int, int], float] = {(0, 0): 1.0}
    for each in (value, *others):
        after: Counter[tuple[int, int]] = Counter()
        row = node.law[node.values.index(each)]
        for (minus, plus), mass in law.items():
            for sent, chance in zip(node.values, row, strict=True):
                after[minus + (sent < 0), plus + (sent > 0)] += mass * float(chance)
        law = after
    return law


def hockey_stick(p: dict[tuple[int, ...], float], q: dict[tuple[int, ...], float], epsilon: float) -> float:
    return sum(max(0.0, mass - math.exp(epsilon) * q.get(view, 0.0)) for view, mass in p.items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("node", "reports"), [(NODES[0], 10**6), (NODES[1], 1000), (NODES[2], 30)], ids=str)
def test_two_single_differences_cover_a_double_one(node: Node, reports: int) -> None:
    assert covered(node, reports)


def test_what_is_covered_is_covered_in_real_batches() -> None:
    """Every data set of five others: a real double difference is at most two rounds of the single one's pair."""
    node, others = Node(2**31, 2**30), 5
    assert covered(node, others + 1)
    pairs = FinitePairs(single(node))
    curve = blanket_curve(pairs.curve_points(), pairs.local_epsilon, spared(others + 1), 20.0)
    for epsilon in (0.0, 0.2, 0.5, 1.0):
        covering = composed_delta([(grid_above(curve), 2)], epsilon)
        for data in itertools.combinations_with_replacement(node.values, others):
            assert hockey_stick(views(node, 1, data), views(node, -1, data), epsilon) <= covering


def test_a_curve_that_is_above_two_rounds_is_told_at_its_ends_and_in_between() -> None:
    pairs = FinitePairs(single(NODES[1]))
    once = blanket_curve(pairs.curve_points(), pairs.local_epsilon, 1000, 40.0)
    below = grid_below(once)
    assert _never_above(once, below), "one round is below two"
    raised = Curve(once.points, once.people, once.places, np.minimum(once.upper * 3, 1.0), once.step)
    assert not _never_above(raised, below)
    for place in (0, len(once.upper) // 2):
        upper = once.upper.copy()
        upper[place] = 1.0
        assert not _never_above(Curve(once.points, once.people, once.places, upper, once.step), below)


def test_few_points_of_a_curve_are_not_taken_for_all_of_it() -> None:
    """Two far points alone lie below, the chord between them does not."""
    pairs = FinitePairs(single(NODES[1]))
    once = blanket_curve(pairs.curve_points(), pairs.local_epsilon, 1000, 40.0)
    ends = Curve(once.points, once.people, once.places[[0, -1]], once.upper[[0, -1]], once.step)
    assert not _never_above(ends, grid_below(once))
