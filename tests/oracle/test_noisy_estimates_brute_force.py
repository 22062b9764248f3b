"""Estimates beside noise of the shuffler: every report of a few people, and every draw of the noise, in fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally, equal_dummies

GAMMA = 2**30
KEEP = Fraction(3, 4)
STEEP = NoiseLaw("geometric", 2**30, 1)
FLAT = NoiseLaw("geometric", 7 * 2**29, 2)
Found = dict[tuple[int, ...], Fraction]


def people(answers: Sequence[int], symbols: int) -> Found:
    """The law of the counts of people's reports."""
    mechanism = KRR.from_numerator(symbols, GAMMA)
    found: Found = {(0,) * symbols: Fraction(1)}
    for answer in answers:
        after: Found = {}
        for (counts, mass), (report, p) in itertools.product(found.items(), enumerate(mechanism.law(answer))):
            now = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
            after[now] = after.get(now, Fraction(0)) + mass * p
        found = after
    return found


def noise_of(noise: NoiseLaw, symbols: int) -> Found:
    """The law of z: of two symbols only one is drawn."""
    law = [Fraction(weight, 1 << TABLE_BITS) for weight in noise.weights]
    if symbols == 2:
        return {(noise.largest - z, z): p for z, p in enumerate(law)}
    found: Found = {(): Fraction(1)}
    for _ in range(symbols):
        found = {(*z, more): p * q for z, p in found.items() for more, q in enumerate(law)}
    return found


def batches(answers: Sequence[int], query: Query) -> Iterator[tuple[Fraction, tuple[int, ...], int]]:
    """Every batch: its probability, its counts, and the number of its dummies."""
    assert query.noise is not None
    reports, each = people(answers, query.symbols), noise_of(query.noise, query.symbols)
    added = each
    for _ in range(query.shufflers - 1):
        after: Found = {}
        for (z, p), (more, q) in itertools.product(added.items(), each.items()):
            summed = tuple(map(sum, zip(z, more, strict=True)))
            after[summed] = after.get(summed, Fraction(0)) + p * q
        added = after
    for (counts, p), (z, q) in itertools.product(reports.items(), added.items()):
        yield p * q, tuple(map(sum, zip(counts, z, strict=True))), sum(z)


def exact_counts(counts: Sequence[int], dummies: int) -> list[Fraction]:
    """ĉ_j = (N_j − n·γ/k − S/k)/(1 − γ)."""
    symbols, reports = len(counts), sum(counts) - dummies
    base = Fraction(reports * GAMMA, symbols << 32) + Fraction(dummies, symbols)
    return [(count - base) / KEEP for count in counts]


HISTOGRAMS: list[tuple[KRandomizedResponse, NoiseLaw, tuple[int, ...], int]] = [
    (KRandomizedResponse(2, GAMMA), STEEP, (0, 0, 1), 1),
    (KRandomizedResponse(2, GAMMA), FLAT, (1, 1, 1), 1),
    (KRandomizedResponse(3, GAMMA), STEEP, (0, 0, 2), 1),
    (KRandomizedResponse(3, GAMMA), FLAT, (0, 1), 1),
    (KRandomizedResponse(4, GAMMA), STEEP, (3, 3), 1),
    (KRandomizedResponse(2, GAMMA), FLAT, (0, 0, 1), 3),
    (KRandomizedResponse(3, GAMMA), STEEP, (0, 0, 2), 2),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("randomizer", "noise", "answers", "shufflers"), HISTOGRAMS, ids=str)
@pytest.mark.parametrize("weights", [(1, 0, 0, 0), (0, 1, 1, 0), (0, 1, 2, 3)], ids=str)
def test_mean_and_variance_over_all_draws_are_those_stated(
    randomizer: KRandomizedResponse, noise: NoiseLaw, answers: Sequence[int], shufflers: int, weights: Sequence[int]
) -> None:
    """The mean is the truth exactly, and the variance that of people, as without noise, and that of D' dummies."""
    names = tuple("abcd")[: randomizer.symbols]
    query, chosen = Query(Histogram("theme", names), randomizer, noise, shufflers), weights[: randomizer.symbols]
    mean, square, whole = Fraction(0), Fraction(0), Fraction(0)
    for p, counts, dummies in batches(answers, query):
        value = sum((w * c for w, c in zip(chosen, exact_counts(counts, dummies), strict=True)), Fraction(0))
        whole, mean, square = whole + p, mean + p * value, square + p * value**2
    assert (whole, mean) == (1, sum(chosen[answer] for answer in answers))
    wanted = np.array(chosen, dtype=np.float64)
    each = randomizer.variances(wanted)
    stated = sum(float(each[answer]) for answer in answers)
    stated += equal_dummies(randomizer, 0, ChainNoise(noise, shufflers)) * randomizer.dummy_variance(wanted)
    assert stated == pytest.approx(float(square - mean**2), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("randomizer", "noise", "answers", "shufflers"), HISTOGRAMS[1:4] + HISTOGRAMS[5:], ids=str)
def test_published_counts_are_these_and_state_this_variance(
    randomizer: KRandomizedResponse, noise: NoiseLaw, answers: Sequence[int], shufflers: int
) -> None:
    """Of every batch: the estimate, and its stated variance, which is that of its own counts, clipped."""
    query = Query(Histogram("theme", tuple("abcd")[: randomizer.symbols]), randomizer, noise, shufflers)
    single = np.eye(1, randomizer.symbols)[0]
    hit, miss = (float(each) for each in randomizer.variances(single)[[0, -1]])
    of_noise = float(equal_dummies(randomizer, 0, ChainNoise(noise, shufflers)) * randomizer.dummy_variance(single))
    seen = {(counts, dummies) for _, counts, dummies in batches(answers, query)}
    for counts, dummies in sorted(seen)[:: max(1, len(seen) // 40)]:
        rows = query.estimates(Tally(np.array(counts), sum(counts)), dummies).rows
        for row, exact in zip(rows[: randomizer.symbols], exact_counts(counts, dummies), strict=True):
            assert row.estimate is not None
            assert row.estimate.value == pytest.approx(float(exact), abs=1e-12)
            held = min(max(float(exact), 0.0), len(answers))
            stated = held * hit + (len(answers) - held) * miss + of_noise
            assert (row.estimate.standard_error or 0.0) ** 2 == pytest.approx(stated, rel=1e-12)


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("counted_once")
@pytest.mark.parametrize("optional", [False, True])
def test_a_sum_over_all_draws_has_the_mean_and_variance_of_its_levels(optional: bool) -> None:
    """Two people at the ends of the range, who are encoded without rounding."""
    question = Number("share", 0.0, 8.0, optional=optional, levels=1 if optional else 2)
    query = Query(question, KRandomizedResponse(3, GAMMA), FLAT)
    weights = [0, 8, 0] if optional else [0, 4, 8]
    answers = (1, 2) if optional else (2, 0)
    mean, square = 0.0, 0.0
    for p, counts, dummies in batches(answers, query):
        rows = query.estimates(Tally(np.array(counts), sum(counts)), dummies).rows
        (value,) = (row.estimate.value for row in rows if row.statistic == "sum" and row.estimate is not None)
        mean, square = mean + float(p) * value, square + float(p) * value**2
    assert mean == pytest.approx(8.0)
    varying = np.array(weights, dtype=np.float64)
    each = query.randomizer.variances(varying)
    stated = sum(float(each[answer]) for answer in answers)
    stated += equal_dummies(query.randomizer, 0, ChainNoise(FLAT)) * query.randomizer.dummy_variance(varying)
    assert square - mean**2 == pytest.approx(stated, rel=1e-9)
