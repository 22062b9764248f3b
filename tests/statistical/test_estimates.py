"""Unbiased, with errors that are what they say, and sensitive to a wrong randomizer.

Inputs are fixed, reports are drawn from the exact laws of rounding and the randomizer, hundreds of batches a case. A
mean passes within Z standard errors, a coverage above the binomial law's quantile, an error between those of χ²: a
false-alarm rate of 1e-6 a check, and there are about 110 checks. Seeds are fixed, so a run does not flake; the rate is
that of a new seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from hubbub.queries.estimation.estimates import Estimate, Estimates
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.randomizer import Tally
from support.estimate_rows import consistent, counts, number
from support.krr_queries import krr_query, unary_query
from support.simulated_batches import (
    People,
    at,
    coverage,
    error_ratio,
    least_share,
    most_deviations,
    simulated,
    variance_ratios,
    z_score,
)
from support.thoroughness import usually

pytestmark = pytest.mark.usefixtures("counted_once")

BATCHES = usually(400, 2400)
Z = most_deviations(BATCHES)
LEVELS = 6
CARRIERS = (700, 250, 50, 0)
HISTOGRAM = krr_query(Histogram("carrier", ("AA", "B6", "UA", "ZZ")), 2**31)
OPTIONAL_HISTOGRAM = krr_query(Histogram("carrier", ("AA", "B6", "UA"), optional=True), 3 * 2**30)
SUM = krr_query(Number("delay", -30.0, 180.0, "minutes"), 2**30, LEVELS)
OPTIONAL_SUM = krr_query(Number("delay", -30.0, 180.0, "minutes", optional=True), 2**30, LEVELS)
UNARY_HISTOGRAM = unary_query(HISTOGRAM.question, 2**31, 2**29)
OPTIONAL_UNARY_HISTOGRAM = unary_query(OPTIONAL_HISTOGRAM.question, 3 * 2**30, 2**30)
UNARY_SUM = unary_query(SUM.question, 3 * 2**30, 2**30, LEVELS)
OPTIONAL_UNARY_SUM = unary_query(OPTIONAL_SUM.question, 2**31, 2**28, LEVELS)
DELAYS = {-30.0: 200, -12.0: 500, 3.5: 400, 61.0: 250, 179.0: 50}
"""Devices by delay."""

SILENT = 600


def encoded(value: float, query: Query) -> list[float]:
    assert isinstance(query.question, Number)
    levels = query.question.answers - 1
    place = (value - query.question.lower) / (query.question.upper - query.question.lower) * levels
    below = min(math.floor(place), levels - 1)
    law = [0.0] * query.symbols
    law[below], law[below + 1] = 1 - (place - below), place - below
    return law


def simulate(query: Query, groups: Sequence[People], seed: int) -> np.ndarray:
    """Counts of each batch, shape (BATCHES, symbols), under the query's exact randomizer."""
    return simulated(query, groups, BATCHES, seed)


def estimate(query: Query, found: np.ndarray, valid: int, dummies: int = 0) -> Estimates:
    return query.estimates(Tally(found, valid), dummies)


@cache
def histograms(query: Query, seed: int) -> list[Estimates]:
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    return [estimate(query, found, sum(CARRIERS)) for found in simulate(query, groups, seed)]


def of_numbers(query: Query) -> list[People]:
    """Those with a delay, and where they may be silent, those without."""
    groups: list[People] = [(size, encoded(value, query)) for value, size in DELAYS.items()]
    if query.question.optional:
        groups.append((SILENT, at(query.symbols - 1, query.symbols)))
    return groups


@cache
def sums(query: Query, seed: int, sealed_with: Query | None = None) -> list[Estimates]:
    groups = of_numbers(query)
    valid = sum(size for size, _ in groups)
    return [estimate(query, found, valid) for found in simulate(sealed_with or query, groups, seed)]


LEAST = least_share(BATCHES)
"""The share of intervals that have the truth is above this one, and below its mirror image about 95 %."""

RATIOS = tuple(math.sqrt(ratio) for ratio in variance_ratios(BATCHES))
"""Between what a stated deviation over that seen must be."""


def covers(found: Sequence[Estimate], truth: float) -> bool:
    """Whether intervals have the truth as often as stated: those of whole numbers, half a percent more often."""
    return LEAST < coverage(found, truth) < 0.95 + (0.95 - LEAST) + 0.005


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "query",
    [HISTOGRAM, OPTIONAL_HISTOGRAM, UNARY_HISTOGRAM, OPTIONAL_UNARY_HISTOGRAM],
    ids=["all answer", "optional", "unary", "optional unary"],
)
@pytest.mark.parametrize("category", [0, 1, 2])
def test_counts_are_unbiased_and_covered(query: Query, category: int) -> None:
    found = [counts(result)[category] for result in histograms(query, 1)]
    assert len(found) == BATCHES
    assert abs(z_score(found, CARRIERS[category])) < Z
    assert covers(found, CARRIERS[category])
    assert RATIOS[0] < error_ratio(found) < RATIOS[1]


def test_a_category_that_nobody_holds_is_unbiased_and_covered() -> None:
    found = [counts(result)[3] for result in histograms(HISTOGRAM, 1)]
    assert abs(z_score(found, 0)) < Z
    # It is never missed by an interval that is too high and reaches 0, so the interval is wide.
    assert coverage(found, 0) > LEAST
    assert RATIOS[0] < error_ratio(found) < max(1.1, RATIOS[1])


def test_how_many_answered_is_unbiased_and_covered() -> None:
    for histogram, total in ((OPTIONAL_HISTOGRAM, OPTIONAL_SUM), (OPTIONAL_UNARY_HISTOGRAM, OPTIONAL_UNARY_SUM)):
        found = [number(result, "answered") for result in histograms(histogram, 1)]
        assert abs(z_score(found, 1000 - CARRIERS[3])) < Z
        found = [number(result, "answered") for result in sums(total, 2)]
        assert abs(z_score(found, sum(DELAYS.values()))) < Z
        assert covers(found, sum(DELAYS.values()))


def test_the_consistent_version_is_biased_and_consistent() -> None:
    found = [consistent(result) for result in histograms(HISTOGRAM, 1)]
    assert all(min(projected) >= 0 and math.isclose(sum(projected), 1000) for projected in found)
    values = np.array([projected[3] for projected in found])
    assert values.mean() / (values.std(ddof=1) / math.sqrt(BATCHES)) > Z


TOTAL = sum(value * size for value, size in DELAYS.items())
TRUTHS = {"sum": TOTAL, "mean": TOTAL / sum(DELAYS.values())}


@pytest.mark.parametrize(
    "query",
    [SUM, OPTIONAL_SUM, UNARY_SUM, OPTIONAL_UNARY_SUM],
    ids=["all answer", "optional", "unary", "optional unary"],
)
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_sums_and_means_are_unbiased_and_covered(query: Query, statistic: str) -> None:
    truth, found = TRUTHS[statistic], [number(result, statistic) for result in sums(query, 2)]
    assert len(found) == BATCHES
    # A ratio's own bias is of order 1/n, far below what is seen here.
    assert abs(z_score(found, truth)) < Z
    assert coverage(found, truth) > LEAST
    # The rounding part is stated at its maximum: never too small, and here at most 15 % too large.
    assert RATIOS[0] < error_ratio(found) < max(1.15, RATIOS[1])


@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_reports_of_another_randomizer_are_noticed(statistic: str) -> None:
    """Power: reports made with a γ that is a fifth larger are not unbiased for the truth."""
    truth, other = TRUTHS[statistic], krr_query(OPTIONAL_SUM.question, 2**30 * 6 // 5, LEVELS)
    found = [number(result, statistic) for result in sums(OPTIONAL_SUM, 3, other)]
    assert abs(z_score(found, truth)) > 2 * Z


DUMMIES = 300


def uniform_tallies(query: Query, seed: int) -> np.ndarray:
    """What the shuffler's own dummies count, shape (BATCHES, symbols)."""
    source = np.random.default_rng(seed).bytes
    made = (query.randomizer.dummies(DUMMIES, source) for _ in range(BATCHES))
    return np.array([query.randomizer.tally(reports).counts for reports in made])


def with_dummies(query: Query, groups: Sequence[People], seed: int) -> list[Estimates]:
    """Estimates of batches in which the shuffler put reports of uniform symbols."""
    valid = sum(size for size, _ in groups) + DUMMIES
    batches = simulate(query, groups, seed) + uniform_tallies(query, seed + 1000)
    return [estimate(query, found, valid, DUMMIES) for found in batches]


@pytest.mark.parametrize("query", [OPTIONAL_HISTOGRAM, OPTIONAL_UNARY_HISTOGRAM], ids=["krr", "unary"])
def test_counts_with_dummies_are_unbiased_and_covered(query: Query) -> None:
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    found = with_dummies(query, groups, 5)
    for category in range(3):
        held = [counts(result)[category] for result in found]
        assert abs(z_score(held, CARRIERS[category])) < Z
        assert covers(held, CARRIERS[category])
        assert RATIOS[0] < error_ratio(held) < RATIOS[1]
    answered = [number(result, "answered") for result in found]
    assert abs(z_score(answered, 1000 - CARRIERS[3])) < Z


@cache
def sums_with_dummies(query: Query) -> list[Estimates]:
    return with_dummies(query, of_numbers(query), 6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", [OPTIONAL_SUM, OPTIONAL_UNARY_SUM], ids=["krr", "unary"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_sums_and_means_with_dummies_are_unbiased_and_covered(query: Query, statistic: str) -> None:
    truth = TRUTHS[statistic]
    found = [number(result, statistic) for result in sums_with_dummies(query)]
    assert len(found) == BATCHES
    assert abs(z_score(found, truth)) < Z
    assert coverage(found, truth) > LEAST
    assert RATIOS[0] < error_ratio(found) < max(1.15, RATIOS[1])


@pytest.mark.parametrize("query", [HISTOGRAM, UNARY_HISTOGRAM], ids=["krr", "unary"])
def test_dummies_that_are_not_subtracted_are_noticed(query: Query) -> None:
    """Power: estimates that take dummies for people are off."""
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    batches = simulate(query, groups, 7) + uniform_tallies(query, 7)
    found = [counts(estimate(query, batch, sum(CARRIERS) + DUMMIES))[3] for batch in batches]
    assert abs(z_score(found, CARRIERS[3])) > 2 * Z


def test_counts_of_another_randomizer_are_noticed() -> None:
    """Power: a γ that is a tenth larger is noticed, and bits that are flipped a tenth (usually a fifth) more often."""
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    part = usually(5, 10)
    unary = unary_query(UNARY_HISTOGRAM.question, 2**31, 2**29 * (part + 1) // part)
    for query, other in ((HISTOGRAM, krr_query(HISTOGRAM.question, 2**31 * 11 // 10)), (UNARY_HISTOGRAM, unary)):
        results = [estimate(query, found, sum(CARRIERS)) for found in simulate(other, groups, 4)]
        assert abs(z_score([counts(result)[0] for result in results], CARRIERS[0])) > 2 * Z
