"""Sums by digits are unbiased, have the stated error, and lie in their intervals as often as stated.

Inputs are fixed; rounding, reports and noise are drawn from their exact laws. A mean passes within Z standard errors, a
coverage above the binomial law's quantile: a false-alarm rate of 1e-6 a check, and there are about 20 checks. Seeds are
fixed, so a run does not flake; the rate is that of a new seed.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.queries.estimation.digits import combined
from hubbub.queries.estimation.estimates import Estimate
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import bits_of
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from support.simulated_batches import coverage, error_ratio, least_share, most_deviations, z_score
from support.thoroughness import usually

pytestmark = pytest.mark.usefixtures("counted_once")

BATCHES = usually(600, 1800)
Z = most_deviations(BATCHES)
LEAST = least_share(BATCHES)
RATIO_SLACK = 1.6 * Z / math.sqrt(2 * BATCHES)
"""What a deviation observed in so many batches may be off by; noise has heavier tails than a normal law."""

DELAY = Number("delay", -30.0, 90.0, "minutes", digits=4)
PEOPLE = ((200, 30.0), (300, -12.3), (150, 89.0), (50, 90.0), (100, -30.0))
"""Numbers of people, and what each of them has. 30 is halfway between 7 and 8 of 15 steps, whose digits all differ."""

LAWS = [NoiseLaw("geometric", round(q * 2**32), reach) for q, reach in ((0.6, 20), (0.72, 30), (0.8, 50), (0.87, 80))]
GAMMAS = (2**22, 2**24, 2**26, 2**28)
NOISY = (2**29, 2**30, 2**31, 3 * 2**30)
"""γ of each digit: reports are nearly plain, or much of the error is theirs."""


def queries(gammas: tuple[int, ...]) -> list[Query]:
    triples = zip(bits_of(DELAY), gammas, LAWS, strict=True)
    return [Query(bit, KRandomizedResponse(2, gamma), law) for bit, gamma, law in triples]


@cache
def rounded(seed: int, apart: bool) -> np.ndarray:
    """How many people have a 1 as each digit, shape (batches, digits): rounded once, or each digit by itself."""
    generator, found = np.random.default_rng(seed), np.zeros((BATCHES, 4), dtype=np.int64)
    for size, answer in PEOPLE:
        below, part = divmod((answer + 30) / 120 * 15, 1)
        for place in range(4):
            low, high = (int(below + up) >> (3 - place) & 1 for up in (0, 1))
            if place == 0 or apart:
                ups = generator.binomial(size, part, size=BATCHES)
            found[:, place] += low * (size - ups) + (high * ups if part else 0)
    return found


@cache
def published(gammas: tuple[int, ...], seed: int, apart: bool = False) -> tuple[list[Estimate], list[Estimate]]:
    """The sum and the mean of each of many batches."""
    generator, size = np.random.default_rng(seed + 1), sum(size for size, _ in PEOPLE)
    held, asked = rounded(seed, apart), queries(gammas)
    counts = []
    for place, query in enumerate(asked):
        truthful = float(query.randomizer.support_gap + query.randomizer.support_other)
        ones = generator.binomial(held[:, place], truthful)
        ones += generator.binomial(size - held[:, place], 1 - truthful)
        law = np.array([weight / (1 << TABLE_BITS) for weight in LAWS[place].weights])
        counts.append(ones + generator.choice(len(law), size=BATCHES, p=law / law.sum()))
    sums, means = [], []
    for batch in range(BATCHES):
        bits = []
        for query, law, ones in zip(asked, LAWS, counts, strict=True):
            valid, one = size + law.largest, int(ones[batch])
            bits.append(query.debiased(Tally(np.array([valid - one, one]), valid), law.largest))
        found = combined(DELAY, bits)
        for row, into in zip(found.rows[1:], (sums, means), strict=True):
            assert row.estimate is not None
            into.append(row.estimate)
    return sums, means


TRUTH = sum(size * answer for size, answer in PEOPLE)


@pytest.mark.parametrize(("gammas", "seed"), [(GAMMAS, 11), (NOISY, 23)])
def test_sums_and_means_are_unbiased_and_in_their_intervals(gammas: tuple[int, ...], seed: int) -> None:
    sums, means = published(gammas, seed)
    number = sum(size for size, _ in PEOPLE)
    for found, truth in ((sums, TRUTH), (means, TRUTH / number)):
        assert abs(z_score(found, truth)) < Z
        assert coverage(found, truth) > LEAST
        # The stated error has rounding at its largest, which few people's numbers need.
        assert 1 - RATIO_SLACK < error_ratio(found) < 1.15 + RATIO_SLACK


def test_digits_that_were_rounded_apart_would_be_seen() -> None:
    """The power of the check above: without one draw for all digits, errors are far beyond those stated."""
    sums, _ = published(GAMMAS, 37, apart=True)
    assert abs(z_score(sums, TRUTH)) < Z
    assert error_ratio(sums) < 1 - 2 * RATIO_SLACK
    assert coverage(sums, TRUTH) < LEAST
