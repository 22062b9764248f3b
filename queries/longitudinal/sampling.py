"""Draws the random values of longitudinal strategies exactly, in whole numbers, from given random bytes.

The laws are those that `hubbub.accountant.mechanisms.longitudinal` certifies. A level, a vector, and the number of the
kept change are drawn once for the whole horizon and stored; another draw would be another release.
"""

from __future__ import annotations

from hubbub.accountant.mechanisms.longitudinal import Horizon, Node, Sampled, Vector
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.randomizers.sampling import DRAW_BYTES, Random, draw, uniform


def level(horizon: Horizon, random: Random) -> int:
    """Return a level, uniform on the levels with a node that ends within the horizon."""
    return uniform(horizon.levels, random)


def kept_change(sampled: Sampled, random: Random) -> int:
    """Return which change is kept, uniform on 1, …, k."""
    return 1 + uniform(sampled.horizon.changes, random)


def fair_sign(random: Random) -> int:
    """Return +1 or −1, each with probability ½."""
    return 1 - 2 * (draw(random, 1) & 1)


def change_sign(sampled: Sampled, change: int, random: Random) -> int:
    """Return `change`, +1 or −1, with probability E/(1 + E), else its negative."""
    return change if _below(sampled.weight + DENOMINATOR, random) < sampled.weight else -change


def sign_vector(vector: Vector, random: Random) -> tuple[int, ...]:
    """Return v: k signs, with weight E if at most r of them are −1, else with weight 1."""
    changes = vector.horizon.changes
    drawn, minuses = _below(sum(vector.weights), random), 0
    # First the number of −1, by its weight; then their places, with every choice equally likely.
    while drawn >= vector.weights[minuses]:
        drawn -= vector.weights[minuses]
        minuses += 1
    left, signs = minuses, []
    for place in range(changes):
        minus = uniform(changes - place, random) < left
        left -= minus
        signs.append(-1 if minus else 1)
    return tuple(signs)


def node_value(node: Node, value: int, random: Random) -> int:
    """Return the report of a node's value: the value itself, or with probability γ a draw from the blanket.

    Two 32-bit draws are always taken, so that the amount of randomness used reveals nothing about the value.
    """
    truthful, place = draw(random, DRAW_BYTES) >= node.gamma, draw(random, DRAW_BYTES)
    if truthful:
        return value
    if place < node.side:
        return 1
    return -1 if node.signed and place < 2 * node.side else 0


def _below(count: int, random: Random) -> int:
    """Return a uniform number from 0 to `count` − 1, for a `count` of any size."""
    return uniform(count, random, (count.bit_length() + 7) // 8)
