"""The pair of noise of the shuffler by its definition, in fractions."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from hubbub.accountant.mechanisms import WithNoise, exp_decimal

Pair = list[tuple[Fraction, Fraction]]


def pair_of(mechanism: WithNoise) -> Pair:
    """What is released for report x, x' or another one, which is told; outcomes of one ratio are added up."""
    krr, scale = mechanism.krr, 2**128
    weights = mechanism.noise.weights
    one = list(zip((0, *weights), (*weights, 0), strict=True))
    views = one if mechanism.one_moves else [(p * d, q * c) for (p, q), (c, d) in itertools.product(one, one)]
    scale = scale if mechanism.one_moves else scale * scale
    sums: dict[Fraction, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for first, second in views:
        p = (krr.truthful * first + krr.other * second) / scale
        q = (krr.truthful * second + krr.other * first) / scale
        if p:
            both = sums[p / (p + q)]
            both[0], both[1] = both[0] + p, both[1] + q
    rest = 1 - krr.truthful - krr.other
    return [(p, q) for p, q in sums.values()] + [(rest, rest)] * (rest > 0)


def product_divergence(pairs: Sequence[Pair], epsilon: float | Fraction) -> Fraction:
    """Return δ at `epsilon` of independent rounds with these pairs."""
    factor = Fraction(exp_decimal(float(epsilon))) if epsilon else Fraction(1)
    total = Fraction(0)
    for outcome in itertools.product(*pairs):
        first = second = Fraction(1)
        for a, b in outcome:
            first, second = first * a, second * b
        total += max(Fraction(0), first - factor * second)
    return total
