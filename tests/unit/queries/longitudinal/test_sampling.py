"""Draws of the longitudinal strategies have exactly the law that is certified."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from hubbub.accountant.mechanisms.longitudinal import Horizon, Node, Sampled, Vector
from hubbub.queries.longitudinal import sampling


def replay(*values: int) -> Callable[[int], bytes]:
    """Randomness that gives exactly these draws."""
    left = list(values)
    return lambda count: left.pop(0).to_bytes(count, "big")


def test_levels_changes_and_fair_signs_are_uniform() -> None:
    horizon = Horizon(4, 4)
    assert [sampling.level(horizon, replay(value)) for value in range(3)] == [0, 1, 2]
    assert [sampling.kept_change(Sampled(horizon, 2**33), replay(value)) for value in range(4)] == [1, 2, 3, 4]
    assert Counter(sampling.fair_sign(replay(value)) for value in range(256)) == {1: 128, -1: 128}


@pytest.mark.parametrize("change", [-1, 1])
def test_a_change_is_told_truly_by_exactly_its_weight_of_all_draws(change: int) -> None:
    sampled = Sampled(Horizon(4, 2), 3 * 2**32 + 1)
    assert sampling.change_sign(sampled, change, replay(0)) == change
    assert sampling.change_sign(sampled, change, replay(sampled.weight - 1)) == change
    assert sampling.change_sign(sampled, change, replay(sampled.weight)) == -change
    assert sampling.change_sign(sampled, change, replay(sampled.weight + 2**32 - 1)) == -change


def test_a_vector_has_as_many_minuses_as_its_weights_say() -> None:
    vector = Vector(Horizon(8, 4), 5 * 2**32 + 7, 1)
    edges = list(itertools.accumulate(vector.weights, initial=0))
    for count, (first, after) in enumerate(itertools.pairwise(edges)):
        for drawn in (first, after - 1):
            assert sampling.sign_vector(vector, replay(drawn, 0, 0, 0, 0)).count(-1) == count


@pytest.mark.parametrize("minuses", [0, 1, 2, 3])
def test_each_place_of_the_minuses_is_as_likely_as_any_other(minuses: int) -> None:
    vector = Vector(Horizon(8, 3), 2**34, 1)
    drawn = sum(vector.weights[:minuses])
    orders = itertools.product(range(3), range(2), range(1))
    found = Counter(sampling.sign_vector(vector, replay(drawn, *order)) for order in orders)
    places = list(itertools.combinations(range(3), minuses))
    assert len(found) == len(places)
    assert set(found.values()) == {6 // len(places)}


@pytest.mark.parametrize(("signed", "other"), [(True, -1), (False, 0)])
def test_a_node_is_true_or_drawn_from_its_blanket(signed: bool, other: int) -> None:
    node = Node(100, 40, signed)
    for value in node.values:
        assert sampling.node_value(node, value, replay(100, 0)) == value
        drawn = [sampling.node_value(node, value, replay(99, place)) for place in (0, 39, 40, 79, 80, 2**32 - 1)]
        assert drawn == [1, 1, other, other, 0, 0]
