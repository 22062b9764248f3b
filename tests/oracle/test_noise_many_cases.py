"""Noise of the shuffler: a hundred thousand questions in `make exhaustive`, each compared with the exact divergence.

A case is a randomizer, a law, the others' reports, a level of ε, and which of two answers is the truth.
"""

from __future__ import annotations

import random
from fractions import Fraction
from math import nextafter

import pytest

from hubbub.accountant.bounds import BOUNDS, delta_bracket
from hubbub.accountant.mechanisms import KRR, WithNoise
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from support.noise_views import above, answers_of, constant, divergence, released
from support.thoroughness import usually

SHARES = 10
"""Of the local ε, so many levels are asked of each pair of views."""

BATCHES = range(usually(3, 500))
PAIRS = 10
"""Of each batch; each is looked at in both directions: 200 questions a batch."""


def drawn_law(draw: random.Random, categories: int) -> NoiseLaw:
    reach = draw.randint(1, {2: 12, 3: 3, 4: 1, 5: 1}[categories])
    if draw.random() < 0.5:
        return NoiseLaw("geometric", draw.randint(2**29, 2**32 - 1), reach)
    # Of a variance of at least reach² / 64 the ends have mass.
    return NoiseLaw("gaussian", draw.randint(2**26 * reach**2, 2**36), reach)


def drawn_mechanism(draw: random.Random) -> WithNoise:
    categories = draw.choice([2, 2, 3, 4, 5])
    gamma = (
        Fraction(draw.randint(1, 2**32 - 2**20), 2**32) if draw.random() < 0.7 else Fraction(draw.randint(1, 99), 2**32)
    )
    return WithNoise(KRR(categories, gamma), drawn_law(draw, categories))


def test_just_below_the_local_epsilon_something_is_left() -> None:
    """There every atom's ratio is within a rounding of e^ε, and the exact δ is about 6e-18."""
    mechanism = WithNoise(KRR(4, Fraction(495073945, 2**30)), NoiseLaw("geometric", 2149934701, 1))
    epsilon, laws = nextafter(mechanism.epsilon_local, 0.0), answers_of(mechanism.krr)
    truth = divergence(released(mechanism, [laws[0]]), released(mechanism, [laws[1]]), epsilon)
    assert truth > 0
    assert above(delta_bracket(mechanism, 1, epsilon).delta_upper, truth)


@pytest.mark.parametrize("batch", BATCHES)
def test_no_upper_end_is_below_the_truth_and_no_lower_end_above_it(batch: int) -> None:
    draw = random.Random(batch)
    for _ in range(PAIRS):
        mechanism = drawn_mechanism(draw)
        symbols, laws = mechanism.krr.categories, answers_of(mechanism.krr)
        liars = [constant(draw.randrange(symbols), symbols) for _ in range(draw.randint(0, 1))]
        # Neighbors: one person's answer is the first or the second.
        first, second = (released(mechanism, [*liars, laws[answer]]) for answer in (0, 1))
        for _ in range(SHARES):
            epsilon = draw.choice([0.0, draw.random(), draw.random() ** 8, 1 - draw.random() ** 8])
            epsilon *= mechanism.epsilon_local
            truths = divergence(first, second, epsilon), divergence(second, first, epsilon)
            lower, upper = BOUNDS["noise"].delta(mechanism, 1, epsilon)
            best = delta_bracket(mechanism, 1, epsilon)
            for truth in truths:
                assert above(upper, truth)
                assert above(best.delta_upper, truth)
                assert Fraction(float(BOUNDS["noise-lower"].delta(mechanism, 1, epsilon)[0])) <= max(truths)
            assert lower <= upper
