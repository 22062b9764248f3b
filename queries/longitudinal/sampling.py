"""Exact draws of a boolean that changes over time: whole numbers only, from randomness that is handed in.

What is drawn is what `hubbub.accountant.mechanisms.longitudinal` certifies. A level, a vector, and the number of the
change that is kept are drawn once for the whole horizon and kept; drawing them again would be another release.
"""

from __future__ import annotations

from hubbub.accountant.mechanisms.longitudinal import Horizon, Node, Sampled, Vector
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.randomizers.sampling import DRAW_BYTES, Random, draw, uniform


def level(horizon: Horizon, random: Random) -> int:
    """Return a level, uniform on those that have a node that ends."""
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
    """Return v: k signs, of weight E where at most r of them are −1, else of weight 1."""
    changes = vector.horizon.changes
    drawn, minuses = _below(sum(vector.weights), random), 0
    # The number of −1 first, by its weight; then which ones, each choice being as likely as any other.
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
    """Return what is sent of a node's value: itself, or with probability γ a draw from the blanket.

    Two 32-bit draws are always taken, so that nothing about the value can be told from how much randomness was used.
    """
    truthful, place = draw(random, DRAW_BYTES) >= node.gamma, draw(random, DRAW_BYTES)
    if truthful:
        return value
    if place < node.side:
        return 1
    return -1 if node.signed and place < 2 * node.side else 0


def _below(count: int, random: Random) -> int:
    """Return a uniform number from 0 to `count` − 1, of whatever size."""
    return uniform(count, random, (count.bit_length() + 7) // 8)
