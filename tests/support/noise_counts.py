"""What the counts of all symbols tell beside noise of the shuffler, in fractions: the view itself, not what bounds it.

The counts of both answers are listed. Of all other symbols the sum of their ratios is enough.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import exp

from hubbub.accountant.mechanisms import WithNoise

Pair = list[tuple[Fraction, Fraction]]


def coordinate_of(mechanism: WithNoise) -> Pair:
    """The chances of each count of z + 1 and of z."""
    weights = mechanism.noise.weights
    sides = zip((0, *weights), (*weights, 0), strict=True)
    return [(Fraction(p, 2**128), Fraction(q, 2**128)) for p, q in sides]


def others_of(mechanism: WithNoise) -> dict[Fraction, Fraction]:
    """The law of the sum of ratios of the symbols that are neither answer, without a report."""
    found = {Fraction(0): Fraction(1)}
    for _ in range(mechanism.krr.categories - 2):
        longer: dict[Fraction, Fraction] = defaultdict(Fraction)
        for (at, mass), (p, q) in product(found.items(), coordinate_of(mechanism)):
            if q:
                longer[at + p / q] += mass * q
        found = longer
    return found


def counted_pair(mechanism: WithNoise) -> Pair:
    """The chances of what is released, under answers x and x'; outcomes of one ratio are added up."""
    krr, one = mechanism.krr, coordinate_of(mechanism)
    views = [(p, q, Fraction(0), Fraction(1)) for p, q in one]
    if not mechanism.one_moves:
        views = [
            (p * d, q * c, at * q * d, mass)
            for ((p, q), (c, d)), (at, mass) in product(product(one, one), others_of(mechanism).items())
        ]
    sums: dict[Fraction, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for first, second, neither, mass in views:
        p = mass * (krr.truthful * first + krr.other * (second + neither))
        q = mass * (krr.truthful * second + krr.other * (first + neither))
        if p:
            both = sums[p / (p + q)]
            both[0], both[1] = both[0] + p, both[1] + q
    found = [(p, q) for p, q in sums.values()]
    # The top count of another symbol is its report, under either answer.
    rest = 1 - sum((p for p, _ in found), Fraction(0))
    return [*found, (rest, rest)] if rest else found


def least_epsilon(pair: Pair, delta: float, largest: float) -> float:
    """About the least ε at which the pair has `delta`."""
    masses, low, high = [(float(p), float(q)) for p, q in pair], 0.0, largest
    for _ in range(60):
        middle = (low + high) / 2
        found = sum(max(0.0, p - exp(middle) * q) for p, q in masses)
        low, high = (low, middle) if found <= delta else (middle, high)
    return high
