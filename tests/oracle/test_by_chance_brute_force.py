"""No bound is below what an attack reaches, which is summed here in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hubbub.accountant import KRR, Part, compose_delta

GAMMAS = [Fraction(1, 2**80), Fraction(1, 2**32), Fraction(1, 10), Fraction(1, 2), 1 - Fraction(1, 2**32), Fraction(1)]
RATES = [Fraction(1, 500_000), Fraction(1, 100), Fraction(1, 2), 1 - Fraction(1, 10**6)]
EPSILONS = [0.0, 1e-3, 0.5, 3.0, 20.0, 60.0]

Law = dict[tuple[int, int], Fraction]


def joined(law: Law, zero: Fraction, one: Fraction, rate: Fraction) -> Law:
    """Counts of zeros and ones once somebody more takes part by chance, whose report is 0 or 1 as likely as that."""
    found: Law = {}
    for (zeros, ones), mass in law.items():
        for place, chance in (
            ((zeros + 1, ones), zero * rate),
            ((zeros, ones + 1), one * rate),
            ((zeros, ones), 1 - rate),
        ):
            found[place] = found.get(place, Fraction(0)) + mass * chance
    return found


def views(people: int, gamma: Fraction, rate: Fraction) -> tuple[Law, Law]:
    """What is seen if one holds 0, and if that one holds 1; all others hold 0."""
    truthful, other = 1 - gamma / 2, gamma / 2
    law: Law = {(0, 0): Fraction(1)}
    for _ in range(people - 1):
        law = joined(law, truthful, other, rate)
    return joined(law, truthful, other, rate), joined(law, other, truthful, rate)


def divergence(p: Law, q: Law, epsilon: float) -> Fraction:
    ratio = Fraction(math.exp(epsilon)) * (1 + Fraction(1, 2**50))  # From above, so that the sum is one from below.
    return sum((max(mass - ratio * q[place], Fraction(0)) for place, mass in p.items()), Fraction(0))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("people", [1, 6])
@pytest.mark.parametrize("gamma", GAMMAS, ids=str)
def test_no_bound_is_below_an_attack(people: int, gamma: Fraction) -> None:
    for rate in RATES:
        p, q = views(people, gamma, rate)
        for epsilon in EPSILONS:
            found = compose_delta([Part(KRR(2, gamma), people, sampling_rate=rate)], epsilon)
            reached = max(divergence(p, q, epsilon), divergence(q, p, epsilon))
            assert Fraction(found.delta_upper) >= reached, (rate, epsilon)
            assert (found.delta_lower or 0.0) <= found.delta_upper
