"""The pair of noise of the shuffler by its definition, in fractions: what the counts of all symbols tell."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from hubbub.accountant.mechanisms import WithNoise, exp_decimal

Pair = list[tuple[Fraction, Fraction]]

ALIKE = Fraction(1, 10**15)
"""Counts whose ratios differ by less are added up, as the other symbols would have too many sums."""


def pair_of(mechanism: WithNoise) -> Pair:
    """What is released under answers x and x', by what all counts tell; outcomes of one ratio are added up."""
    krr = mechanism.krr
    one = coordinate_of(mechanism)
    sums: dict[Fraction, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])

    def add(p: Fraction, q: Fraction) -> None:
        if p or q:
            both = sums[p / (p + q)]
            both[0], both[1] = both[0] + p, both[1] + q

    if mechanism.one_moves:
        for p, q in one:
            add(krr.truthful * p + krr.other * q, krr.truthful * q + krr.other * p)
        return [(p, q) for p, q in sums.values()]
    others = others_of(one, krr.categories - 2)
    for (p, q), (c, d) in itertools.product(one, one):
        first, second, neither = p * d, q * c, q * d
        for value, mass in others.items():
            beside = krr.other * value * neither
            add(
                mass * (krr.truthful * first + krr.other * second + beside),
                mass * (krr.truthful * second + krr.other * first + beside),
            )
    # A top count of another symbol is its report, under both answers.
    top = krr.other * (krr.categories - 2) * sum((p for p, q in one if not q), Fraction(0))
    add(top, top)
    return [(p, q) for p, q in sums.values()]


def coordinate_of(mechanism: WithNoise) -> Pair:
    """The chances of each count of z + 1 and of z."""
    weights = mechanism.noise.weights
    found: Pair = []
    for p, q in zip((0, *weights), (*weights, 0), strict=True):
        here = Fraction(p, 2**128), Fraction(q, 2**128)
        for place, (c, d) in enumerate(found):
            if p and q and c and d and abs(here[0] * d - here[1] * c) <= ALIKE * here[0] * d:
                found[place] = c + here[0], d + here[1]
                break
        else:
            found.append(here)
    return found


def others_of(one: Pair, terms: int) -> dict[Fraction, Fraction]:
    """The law of the sum of what the counts of so many other symbols tell, without a report."""
    sums = {Fraction(0): Fraction(1)}
    for _ in range(terms):
        longer: dict[Fraction, Fraction] = defaultdict(Fraction)
        for (value, mass), (p, q) in itertools.product(sums.items(), one):
            if q:
                longer[value + p / q] += mass * q
        sums = longer
    return sums


def product_divergence(pairs: Sequence[Pair], epsilon: float | Fraction) -> Fraction:
    """Return δ at `epsilon` of independent rounds with these pairs."""
    factor = Fraction(exp_decimal(float(epsilon))) if epsilon else Fraction(1)
    *others, last = pairs
    if not others:
        return sum((max(Fraction(0), p - factor * q) for p, q in last), Fraction(0))
    # Of the last round those count whose share of P is above a limit: sums from the largest share on have them.
    ordered = sorted(last, key=lambda each: each[0] / sum(each), reverse=True)
    shares = [-p / (p + q) for p, q in ordered]
    sums = [(Fraction(0), Fraction(0))]
    for p, q in ordered:
        sums.append((sums[-1][0] + p, sums[-1][1] + q))
    total = Fraction(0)
    for outcome in itertools.product(*others):
        first = second = Fraction(1)
        for a, b in outcome:
            first, second = first * a, second * b
        limit = factor * second / (first + factor * second)
        p, q = sums[bisect_left(shares, -limit)]
        total += first * p - factor * second * q
    return total
