"""Streams of a boolean that changes, and the exact law of what a device sends of one, straight from its algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector

HALF = Fraction(1, 2)


class Law(dict[tuple[int, ...], Fraction]):
    """The mass of each sequence; one that is not in it has none."""

    def __missing__(self, sent: tuple[int, ...]) -> Fraction:
        return Fraction(0)


def streams(horizon: Horizon) -> Iterator[tuple[int, ...]]:
    """Every stream of booleans with at most k changes, the boolean being 0 before the first period."""
    for states in itertools.product((0, 1), repeat=horizon.periods):
        if sum(a != b for a, b in itertools.pairwise((0, *states))) <= horizon.changes:
            yield states


def node_values(states: tuple[int, ...], level: int) -> list[int]:
    """The values of the level's nodes that have ended."""
    width = 1 << level
    ends = range(width, len(states) + 1, width)
    return [states[end - 1] - (states[end - width - 1] if end > width else 0) for end in ends]


def vector_law(vector: Vector, states: tuple[int, ...], level: int) -> Law:
    """The law of the signs at one level: over every v, and fair coins where the node's value is 0."""
    values, law = node_values(states, level), Law()
    total = sum(vector.weights)
    for v in itertools.product((-1, 1), repeat=vector.horizon.changes):
        weight = vector.weight if v.count(-1) <= vector.minuses else 2**32
        coins = iter(v)
        for sent in itertools.product(*((value * next(coins),) if value else (-1, 1) for value in values)):
            law[sent] += Fraction(weight, total) * HALF ** values.count(0)
    return law


def sampled_law(sampled: Sampled, states: tuple[int, ...], level: int) -> Law:
    """The law of the signs at one level: over κ*, and the coin of its node."""
    width, changes, law = 1 << level, [], Law()
    for place, (before, after) in enumerate(itertools.pairwise((0, *states))):
        changes += [(place // width, after - before)] if before != after else []
    nodes = len(states) // width
    for kept in range(sampled.horizon.changes):
        node, sign = changes[kept] if kept < len(changes) else (-1, 0)
        for sent in itertools.product((-1, 1), repeat=nodes):
            mass = HALF**nodes
            if 0 <= node < nodes:
                mass *= 2 * (sampled.truthful if sent[node] == sign else 1 - sampled.truthful)
            law[sent] += mass / sampled.horizon.changes
    return law
