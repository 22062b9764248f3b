"""Beside noise of shufflers: estimates are unbiased, and their errors and p-values are as they are stated.

Inputs are fixed; reports and noise are drawn from their exact laws. A mean passes within Z standard errors, a coverage
or a share within the binomial law's quantiles: a false-alarm rate of 1e-6 a check, and there are about 85 checks. Seeds
are fixed, so a run does not flake; the rate is that of a new seed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.queries.design import Design
from hubbub.queries.estimation.estimates import Estimates
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.top import Top
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_cells import Cells
from hubbub.queries.randomizers.hashed_decoding import decode
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Imitable, Tally
from support.estimate_rows import counts, number
from support.simulated_batches import (
    at,
    coverage,
    error_ratio,
    least_share,
    most_deviations,
    most_share,
    simulated,
    z_score,
)
from support.thoroughness import usually

pytestmark = pytest.mark.usefixtures("counted_once")

BATCHES = usually(250, 1300)
Z = most_deviations(BATCHES)
GAMMA = 2**26
"""Of so few uniform reports that the noise is most of the error."""

NOISE = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)
BELL = NoiseLaw("gaussian", 30 * 2**32, 35)
CARRIERS = (700, 250, 50, 0)
HISTOGRAM = Query(Histogram("carrier", ("AA", "B6", "UA", "ZZ")), KRandomizedResponse(4, GAMMA), NOISE)
YES_NO = Query(Histogram("likes", ("no", "yes")), KRandomizedResponse(2, GAMMA), NOISE)
IN_CHAIN = replace(HISTOGRAM, shufflers=3)
"""The same in a chain of three shufflers, each of which adds noise."""

OPTIONAL = Query(Number("delay", 0.0, 60.0, optional=True, levels=4), KRandomizedResponse(6, GAMMA), BELL)
LEAST = least_share(BATCHES)
RATIO_SLACK = 1.6 * Z / math.sqrt(2 * BATCHES)
"""What a deviation observed in so many batches may be off by; noise has heavier tails than a normal law."""


def drawn(query: Query, seed: int, batches: int = BATCHES) -> np.ndarray:
    """The numbers that the shuffler draws, shape (batches, report symbols)."""
    assert query.noise is not None
    assert isinstance(query.randomizer, Imitable)
    law = np.array([weight / (1 << TABLE_BITS) for weight in query.noise.weights])
    symbols, generator = query.randomizer.report_symbols, np.random.default_rng(seed)
    z = generator.choice(len(law), size=(batches, 1 if symbols == 2 else symbols), p=law / law.sum())
    return np.hstack([query.noise.largest - z, z]) if symbols == 2 else z


@cache
def published(query: Query, held: tuple[int, ...], seed: int, shuffled: NoiseLaw | None = None) -> list[Estimates]:
    """What is published of many batches; `shuffled` is what the shuffler draws from, if it is another law."""
    people = [(size, at(symbol, query.symbols)) for symbol, size in enumerate(held)]
    reports = simulated(replace(query, noise=None), people, BATCHES, seed)
    drawing = replace(query, noise=shuffled or query.noise)
    # Each shuffler draws for itself.
    added = np.sum([drawn(drawing, seed + 1 + 1000 * each) for each in range(query.shufflers)], axis=0)
    totals = added.sum(axis=1)
    return [
        query.estimates(Tally(found, sum(held) + int(total)), int(total))
        for found, total in zip(reports + added, totals, strict=True)
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("query", "held"),
    [(HISTOGRAM, CARRIERS), (YES_NO, (900, 100)), (IN_CHAIN, CARRIERS), (replace(YES_NO, shufflers=2), (900, 100))],
    ids=["four", "two", "four-of-three", "two-of-two"],
)
@pytest.mark.parametrize("category", [0, 1])
def test_counts_are_unbiased_and_covered(query: Query, held: tuple[int, ...], category: int) -> None:
    found = [counts(result)[category] for result in published(query, held, 1)]
    assert len(found) == BATCHES
    assert abs(z_score(found, held[category])) < Z
    # Intervals are exact, of whole numbers: they are a little too wide.
    assert LEAST < coverage(found, held[category]) < 0.95 + (0.95 - LEAST) + 0.015
    assert abs(error_ratio(found) - 1) < RATIO_SLACK


@pytest.mark.parametrize("statistic", ["answered", "sum", "mean"])
def test_sums_are_unbiased_and_covered(statistic: str) -> None:
    held = (100, 200, 400, 200, 100, 300)
    truth = {"answered": 1000.0, "sum": 30_000.0, "mean": 30.0}[statistic]
    found = [number(result, statistic) for result in published(OPTIONAL, held, 3)]
    assert abs(z_score(found, truth)) < Z
    assert coverage(found, truth) > LEAST
    # The rounding part is stated at its maximum, and here there is no rounding.
    assert 1 - RATIO_SLACK < error_ratio(found) < (1 + RATIO_SLACK if statistic == "answered" else 3)


VARIANCE = Query(Variance("delay", 0.0, 60.0, levels=4), KRandomizedResponse(6, GAMMA), BELL)


def test_variances_are_unbiased_covered_and_no_less_exact_than_planned() -> None:
    """People are on the points of the grid, of which each is a quarter of a squared step from its number's square."""
    held = (100, 200, 400, 200, 100, 300)
    grid = np.repeat((np.arange(6) - 0.5) / 4 * 60, held)
    truth = float(grid.var()) - (60 / 4) ** 2 / 4
    found = [number(result, "variance") for result in published(VARIANCE, held, 7)]
    assert abs(z_score(found, truth)) < Z
    assert coverage(found, truth) > LEAST - 0.005
    # What rounding adds is stated at its maximum, and here there is no rounding.
    assert 1 - RATIO_SLACK < error_ratio(found) < 3
    design = Design(VARIANCE.question)
    planned = math.sqrt(design.mse(6, VARIANCE.randomizer, sum(held), 0, ChainNoise(BELL))) * design.question.extent
    assert math.sqrt(design.mse(6, VARIANCE.randomizer, sum(held), 0)) * design.question.extent < planned
    seen = float(np.std([each.value for each in found], ddof=1)) * sum(held)
    assert seen < planned * (1 + RATIO_SLACK)


def p_values(query: Query, held: tuple[int, ...], shuffled: NoiseLaw | None = None) -> np.ndarray:
    """The p-values of the last category, which nobody has, over many batches."""
    rows = [[row for row in each.rows if row.statistic == "count"][-1] for each in published(query, held, 5, shuffled)]
    return np.array([row.p_value for row in rows])


@pytest.mark.sampled("geometric", "chain")
@pytest.mark.parametrize(
    "query", [HISTOGRAM, replace(HISTOGRAM, noise=BELL), IN_CHAIN], ids=["geometric", "gaussian", "chain"]
)
def test_p_values_of_an_empty_category_are_as_rare_as_they_say(query: Query) -> None:
    """And no rarer than a whole number of reports makes them: each is the exact chance of as large a count."""
    found = p_values(query, CARRIERS)
    for level in (0.5, 0.1, 0.02):
        reached = found[found <= level]
        assert least_share(BATCHES, 0.4 * level) < len(reached) / BATCHES < most_share(BATCHES, level)


def test_more_noise_than_the_query_states_is_noticed() -> None:
    """Power: of a shuffler that draws from a law of four times the variance."""
    found = p_values(HISTOGRAM, CARRIERS, NoiseLaw("gaussian", 31 * 2**32, 25))
    assert (found <= 0.02).mean() > most_share(BATCHES, 0.02)
    errors = [counts(result)[3] for result in published(HISTOGRAM, CARRIERS, 5, NoiseLaw("gaussian", 31 * 2**32, 25))]
    assert error_ratio(errors) < 1 - usually(1, 2) * RATIO_SLACK


@pytest.mark.parametrize("query", [HISTOGRAM, YES_NO], ids=["four", "two"])
def test_what_is_drawn_follows_the_law(query: Query) -> None:
    """Pearson's χ² over pooled values, each expected ten times or more; the seed is fixed."""
    source = np.random.default_rng(11).bytes
    assert query.noise is not None
    found = np.array([query.draw_noise(source) for _ in range(3000)])
    if query is YES_NO:
        assert set(found.sum(axis=1).tolist()) == {query.noise.largest}
    expected = np.array([weight / (1 << TABLE_BITS) for weight in query.noise.weights]) * len(found)
    common = expected >= 10
    for column in found.T:
        seen = np.bincount(column, minlength=len(expected))
        pooled = np.append(seen[common], seen[~common].sum()), np.append(expected[common], expected[~common].sum())
        statistic = float(((pooled[0] - pooled[1]) ** 2 / pooled[1]).sum())
        assert statistic < stats.chi2.isf(1e-6, common.sum())


# Hashed reports

HELD = (0, 0, 30, 900)
ALONE = 300
"""People whose answers nobody looks up, one of each."""

SIZE = usually(240, 400)
CELLS, ROWS = 32, 16
NARROW = NoiseLaw("gaussian", 12 * 2**32, 20)


@cache
def batches(noise: NoiseLaw) -> list[tuple[Query, Cells, int]]:
    """Cells of many batches, with the number of their dummies; each batch has hash functions of its own."""
    generator, found = np.random.default_rng(17), []
    held = np.concatenate([np.repeat(np.arange(len(HELD)), HELD), 10**6 + np.arange(ALONE)])
    for batch in range(SIZE):
        randomizer = HashedResponse(len(HELD), CELLS, ROWS, 2**30 + batch)
        query = Query(Top("t", ("a", "b", "c", "d")), randomizer, noise)
        rows, cells = (generator.integers(0, each, len(held)) for each in (ROWS, CELLS))
        places = {(row, symbol): randomizer.place(row, symbol) for row in range(ROWS) for symbol in range(len(HELD))}
        for person in np.flatnonzero(generator.integers(0, 2**32, len(held)) >= randomizer.gamma).tolist():
            key = int(rows[person]), int(held[person])
            cells[person] = places[key] if key in places else randomizer.place(*key)
        z = drawn(query, 1000 + batch, 1)[0].tolist()
        added = randomizer.tally(randomizer.reports_of(z))
        found.append((query, Cells(rows * CELLS + cells, len(held)) + added, sum(z)))
    return found


def decoded(noise: NoiseLaw, stated: NoiseLaw | None) -> tuple[np.ndarray, np.ndarray]:
    """Errors and stated variances of each symbol's count, shape (SIZE, symbols)."""
    asked = np.arange(len(HELD), dtype=np.uint64)
    found = [
        decode(query.randomizer, tally, total, asked, stated and ChainNoise(stated))
        for query, tally, total in batches(noise)
    ]
    return np.array([each.counts for each in found]) - np.array(HELD), np.array([each.variances for each in found])


@pytest.mark.sampled("geometric")
@pytest.mark.parametrize("noise", [NOISE, NARROW], ids=["geometric", "gaussian"])
def test_decoded_counts_are_unbiased_and_their_errors_as_stated(noise: NoiseLaw) -> None:
    errors, variances = decoded(noise, noise)
    stated = variances.mean(axis=0)
    assert np.all(np.abs(errors.mean(axis=0)) < Z * np.sqrt(stated / SIZE))
    assert np.all(np.abs(errors.var(axis=0) / stated - 1) < Z * np.sqrt(2 / SIZE))


def test_noise_that_is_taken_for_uniform_dummies_is_noticed() -> None:
    """Power: the same batches as if 25 dummies a cell were uniform, whose variance is three times as large."""
    errors, variances = decoded(NOISE, None)
    assert np.all(errors.var(axis=0) / variances.mean(axis=0) < 1 - Z * np.sqrt(2 / SIZE))


# `test_p_values_of_an_empty_category_are_as_rare_as_they_say`, and test_heavy_hitters.py finds hardly anything that
# nobody holds.
@pytest.mark.exhaustive
def test_bounds_of_hashed_counts_are_no_rarer_than_they_say() -> None:
    """Both those from the table, which find texts, and those from the law of the noise, of a listed answer."""
    asked = np.arange(len(HELD), dtype=np.uint64)
    of_tables, of_laws = [], []
    for query, tally, total in batches(NOISE):
        of_tables.append(np.exp(decode(query.randomizer, tally, total, asked, query.chain_noise).log_chances))
        of_laws.append(query.debiased(tally, total).p_values())
    for chances in (np.array(of_tables), np.array(of_laws)):
        for level in (0.5, 0.1):
            assert np.all((chances[:, :2] <= level).mean(axis=0) < most_share(SIZE, level))
        # Power: that of an answer that many have is small.
        assert chances[:, 3].max() < 1e-6
