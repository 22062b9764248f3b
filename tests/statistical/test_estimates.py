"""Estimates of simulated batches: unbiased, with errors that are what they say, and sensitive to a wrong randomizer.

Inputs are fixed, reports are drawn from the exact laws of rounding and kRR, 2,000 batches a case. A mean passes within
Z standard errors, a coverage within Z binomial deviations; Z = 4.9 is a two-sided false-alarm rate of 1e-6 a check, and
there are about 40 checks. Seeds are fixed, so a run does not flake; the rate is that of a new seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from hubbub.accountant.mechanisms import KRR
from hubbub.analyzer.estimate import estimate
from hubbub.protos.results import Estimate, HistogramEstimate, SumEstimate
from hubbub.queries.histogram import Histogram
from hubbub.queries.number import Number
from hubbub.queries.query import Query
from support.queries import krr_query

Z = 4.9
BATCHES = 2000
Group = tuple[int, Sequence[float]]
"""So many devices, with this law of the encoded symbol."""

CARRIERS = (700, 250, 50, 0)
HISTOGRAM = krr_query(Histogram("carrier", ("AA", "B6", "UA", "ZZ")), 2**31)
OPTIONAL_HISTOGRAM = krr_query(Histogram("carrier", ("AA", "B6", "UA"), optional=True), 3 * 2**30)
SUM = krr_query(Number("delay", -30.0, 180.0, "minutes"), 2**30, levels=6)
OPTIONAL_SUM = krr_query(Number("delay", -30.0, 180.0, "minutes", optional=True), 2**30, levels=6)
DELAYS = {-30.0: 200, -12.0: 500, 3.5: 400, 61.0: 250, 179.0: 50}
"""Devices by delay."""

SILENT = 600


def at(symbol: int, symbols: int) -> list[float]:
    return [float(symbol == other) for other in range(symbols)]


def encoded(value: float, query: Query) -> list[float]:
    assert isinstance(query.question, Number)
    assert query.levels is not None
    place = (value - query.question.lower) / (query.question.upper - query.question.lower) * query.levels
    below = min(math.floor(place), query.levels - 1)
    law = [0.0] * query.symbols
    law[below], law[below + 1] = 1 - (place - below), place - below
    return law


def simulate(query: Query, groups: Sequence[Group], seed: int) -> np.ndarray:
    """Counts of each batch, shape (BATCHES, symbols), under the query's exact randomizer."""
    generator = np.random.default_rng(seed)
    mechanism = KRR.from_numerator(query.symbols, query.gamma)
    rows = np.array([[float(p) for p in mechanism.law(symbol)] for symbol in range(query.symbols)])
    drawn = [generator.multinomial(size, np.array(law) @ rows, size=BATCHES) for size, law in groups]
    return np.sum(drawn, axis=0)


@cache
def histograms(query: Query, seed: int) -> list[HistogramEstimate]:
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    found = [estimate(query, counts) for counts in simulate(query, groups, seed)]
    return [result for result in found if isinstance(result, HistogramEstimate)]


@cache
def sums(query: Query, seed: int, sealed_with: Query | None = None) -> list[SumEstimate]:
    groups: list[Group] = [(size, encoded(value, query)) for value, size in DELAYS.items()]
    if query.no_answer is not None:
        groups.append((SILENT, at(query.no_answer, query.symbols)))
    found = [estimate(query, counts) for counts in simulate(sealed_with or query, groups, seed)]
    return [result for result in found if isinstance(result, SumEstimate)]


def z_score(estimates: Sequence[Estimate], truth: float) -> float:
    values = np.array([number.value for number in estimates])
    return float((values.mean() - truth) / (values.std(ddof=1) / math.sqrt(len(values))))


def coverage(estimates: Sequence[Estimate], truth: float) -> float:
    return sum(number.lower <= truth <= number.upper for number in estimates) / len(estimates)


def error_ratio(estimates: Sequence[Estimate]) -> float:
    """Stated error over observed deviation."""
    values = np.array([number.value for number in estimates])
    stated = math.sqrt(np.mean([number.standard_error**2 for number in estimates]))
    return float(stated / values.std(ddof=1))


SLACK = Z * math.sqrt(0.95 * 0.05 / BATCHES)
RATIO_SLACK = Z / math.sqrt(2 * BATCHES)
"""A deviation observed in so many batches is itself known to one part in √(2·BATCHES)."""


@pytest.mark.parametrize("query", [HISTOGRAM, OPTIONAL_HISTOGRAM], ids=["all answer", "optional"])
@pytest.mark.parametrize("category", [0, 1, 2])
def test_counts_are_unbiased_and_covered(query: Query, category: int) -> None:
    found = [result.counts[category] for result in histograms(query, 1)]
    assert len(found) == BATCHES
    assert abs(z_score(found, CARRIERS[category])) < Z
    assert abs(coverage(found, CARRIERS[category]) - 0.95) < SLACK + 0.005
    assert abs(error_ratio(found) - 1) < RATIO_SLACK


def test_a_category_that_nobody_holds_is_unbiased_and_covered() -> None:
    found = [result.counts[3] for result in histograms(HISTOGRAM, 1)]
    assert abs(z_score(found, 0)) < Z
    # Its variance is estimated at a count clipped from below, so the interval is a little wide.
    assert coverage(found, 0) > 0.95 - SLACK
    assert 1 - RATIO_SLACK < error_ratio(found) < 1.1


def test_how_many_answered_is_unbiased_and_covered() -> None:
    found = [result.answered for result in histograms(OPTIONAL_HISTOGRAM, 1)]
    assert abs(z_score(found, 1000 - CARRIERS[3])) < Z
    found = [result.answered for result in sums(OPTIONAL_SUM, 2)]
    assert abs(z_score(found, sum(DELAYS.values()))) < Z
    assert abs(coverage(found, sum(DELAYS.values())) - 0.95) < SLACK + 0.005


def test_the_consistent_version_is_biased_and_consistent() -> None:
    found = [result.consistent for result in histograms(HISTOGRAM, 1)]
    assert all(min(counts) >= 0 and math.isclose(sum(counts), 1000) for counts in found)
    values = np.array([counts[3] for counts in found])
    assert values.mean() / (values.std(ddof=1) / math.sqrt(BATCHES)) > Z


TOTAL = sum(value * size for value, size in DELAYS.items())
TRUTHS: dict[str, tuple[Callable[[SumEstimate], Estimate | None], float]] = {
    "sum": (lambda result: result.sum, TOTAL),
    "mean": (lambda result: result.mean, TOTAL / sum(DELAYS.values())),
}


@pytest.mark.parametrize("query", [SUM, OPTIONAL_SUM], ids=["all answer", "optional"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_sums_and_means_are_unbiased_and_covered(query: Query, statistic: str) -> None:
    read, truth = TRUTHS[statistic]
    found = [number for result in sums(query, 2) if (number := read(result)) is not None]
    assert len(found) == BATCHES
    # A ratio's own bias is of order 1/n, far below what is seen here.
    assert abs(z_score(found, truth)) < Z
    assert coverage(found, truth) > 0.95 - SLACK - 0.005
    # The rounding part is stated at its maximum: never too small, and here at most 15 % too large.
    assert 1 - RATIO_SLACK < error_ratio(found) < 1.15


@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_reports_of_another_randomizer_are_noticed(statistic: str) -> None:
    """Power: reports made with a γ that is a fifth larger are not unbiased for the truth."""
    read, truth = TRUTHS[statistic]
    other = krr_query(OPTIONAL_SUM.question, OPTIONAL_SUM.gamma * 6 // 5, OPTIONAL_SUM.levels)
    found = [number for result in sums(OPTIONAL_SUM, 3, other) if (number := read(result)) is not None]
    assert abs(z_score(found, truth)) > 2 * Z


DUMMIES = 300


def with_dummies(query: Query, groups: Sequence[Group], seed: int) -> list[HistogramEstimate | SumEstimate]:
    """Estimates of batches in which the shuffler put uniform reports."""
    uniform = np.random.default_rng(seed + 1000).multinomial(DUMMIES, [1 / query.symbols] * query.symbols, size=BATCHES)
    return [estimate(query, counts, DUMMIES) for counts in simulate(query, groups, seed) + uniform]


def test_counts_with_dummies_are_unbiased_and_covered() -> None:
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    found = with_dummies(OPTIONAL_HISTOGRAM, groups, 5)
    for category in range(3):
        counts = [result.counts[category] for result in found if isinstance(result, HistogramEstimate)]
        assert abs(z_score(counts, CARRIERS[category])) < Z
        assert abs(coverage(counts, CARRIERS[category]) - 0.95) < SLACK + 0.005
        assert abs(error_ratio(counts) - 1) < RATIO_SLACK
    answered = [result.answered for result in found]
    assert abs(z_score(answered, 1000 - CARRIERS[3])) < Z


@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_sums_and_means_with_dummies_are_unbiased_and_covered(statistic: str) -> None:
    read, truth = TRUTHS[statistic]
    groups: list[Group] = [(size, encoded(value, OPTIONAL_SUM)) for value, size in DELAYS.items()]
    groups.append((SILENT, at(OPTIONAL_SUM.symbols - 1, OPTIONAL_SUM.symbols)))
    results = with_dummies(OPTIONAL_SUM, groups, 6)
    found = [number for result in results if isinstance(result, SumEstimate) and (number := read(result)) is not None]
    assert len(found) == BATCHES
    assert abs(z_score(found, truth)) < Z
    assert coverage(found, truth) > 0.95 - SLACK - 0.005
    assert 1 - RATIO_SLACK < error_ratio(found) < 1.15


def test_dummies_that_are_not_subtracted_are_noticed() -> None:
    """Power: estimates that take dummies for people are off."""
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    uniform = np.random.default_rng(7).multinomial(DUMMIES, [1 / 4] * 4, size=BATCHES)
    results = [estimate(HISTOGRAM, counts) for counts in simulate(HISTOGRAM, groups, 7) + uniform]
    found = [result.counts[3] for result in results if isinstance(result, HistogramEstimate)]
    assert abs(z_score(found, CARRIERS[3])) > 2 * Z


def test_counts_of_another_randomizer_are_noticed() -> None:
    groups = [(size, at(symbol, 4)) for symbol, size in enumerate(CARRIERS)]
    other = krr_query(HISTOGRAM.question, HISTOGRAM.gamma * 11 // 10)
    results = [estimate(HISTOGRAM, counts) for counts in simulate(other, groups, 4)]
    found = [result.counts[0] for result in results if isinstance(result, HistogramEstimate)]
    assert abs(z_score(found, CARRIERS[0])) > 2 * Z
