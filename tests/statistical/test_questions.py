"""Unbiased, with the errors that they state, intervals that cover, bands that cover at once.

Inputs are fixed, reports are drawn from the exact laws of the encoding and the randomizer. A mean passes within Z of
its standard errors, a coverage above a binomial law's quantile, a variance between those of χ²: each check has a
false-alarm rate of 1e-6.
A report that is kept a tenth less often than the estimator thinks is rejected. Seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hubbub.queries.estimation.estimates import Estimates, Truth
from hubbub.queries.query import Query
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.top import Top
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.simulated_batches import (
    People,
    at,
    least_share,
    most_deviations,
    most_share,
    published,
    simulated,
    variance_ratios,
)
from support.thoroughness import usually

pytestmark = pytest.mark.usefixtures("counted_once")

BATCHES = usually(150, 900)
Z = most_deviations(BATCHES)
LEAST, MOST = variance_ratios(BATCHES)
"""Between what a stated variance over that seen must be."""

EDGES = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0)
HOLDERS = (500, 700, 900, 300, 100)
SESSION = Distribution("session", EDGES, (0.1, 0.5, 0.9), "minutes")
DISTRIBUTION = Query(SESSION, KRandomizedResponse(5, 2**30))
UNARY = Query(replace(SESSION, randomizer="unary"), UnaryEncoding(5, 2**31, 2**28))
OPTIONAL = Query(replace(SESSION, optional=True), KRandomizedResponse(6, 2**30))
PEOPLE = [(size, at(place, 5)) for place, size in enumerate(HOLDERS)]
PEOPLE_OR_NOT = [*((size, at(place, 6)) for place, size in enumerate(HOLDERS)), (800, at(5, 6))]
ANSWERS = [EDGES[place] + 1.0 for place, size in enumerate(HOLDERS) for _ in range(size)]


def deviations(found: Sequence[Estimates], truth: Truth) -> dict[tuple[str, str | None], float]:
    """How far each row's mean is off its truth, in standard errors of the mean; rows without an error are left out."""
    off = {}
    for place, row in enumerate(found[0].rows):
        rows = [each.rows[place].estimate for each in found]
        numbers = np.array([each.value for each in rows if each is not None])
        spread = float(numbers.std(ddof=1))
        if row.key in truth and all(each is not None and each.standard_error for each in rows):
            off[row.key] = (float(numbers.mean()) - truth[row.key]) / (spread / math.sqrt(len(numbers)))
    return off


def stated_errors(found: Sequence[Estimates]) -> dict[tuple[str, str | None], float]:
    """Each row's mean stated variance over that seen."""
    ratios = {}
    for place, row in enumerate(found[0].rows):
        rows = [each.rows[place].estimate for each in found]
        known = [(each.value, each.standard_error) for each in rows if each is not None and each.standard_error]
        if len(known) == len(found):
            ratios[row.key] = float(np.mean([error**2 for _, error in known]) / np.var([v for v, _ in known], ddof=1))
    return ratios


def all_cover(estimates: Estimates, truth: Truth, statistics: Sequence[str] = ()) -> bool:
    """Whether every row's simultaneous interval holds its truth."""
    for row in estimates.rows:
        if row.estimate is None or row.key not in truth or (statistics and row.statistic not in statistics):
            continue
        low, high = row.estimate.simultaneous or (math.nan, math.nan)
        if not low - 1e-9 <= truth[row.key] <= high + 1e-9:
            return False
    return True


CASES = {
    "krr": (DISTRIBUTION, PEOPLE),
    "unary": (UNARY, PEOPLE),
    "optional": (OPTIONAL, PEOPLE_OR_NOT),
}


@cache
def distributions(case: str) -> list[Estimates]:
    query, people = CASES[case]
    return published(query, people, BATCHES, seed=1)


@pytest.mark.parametrize("case", CASES)
def test_a_distribution_is_unbiased_has_the_errors_it_states_and_covers(case: str) -> None:
    truth, found = CASES[case][0].question.truth(ANSWERS), distributions(case)
    off = deviations(found, truth)
    assert len(off) >= 9
    # A share of those who answered is a ratio: its bias, of the order of 1/n, is far below Z/√BATCHES standard errors.
    assert max(map(abs, off.values())) < Z
    assert all(LEAST < ratio < MOST for ratio in stated_errors(found).values())
    assert np.mean([all_cover(each, truth) for each in found]) > least_share(BATCHES)
    quantiles = [
        all(
            row.estimate is not None and row.estimate.lower <= truth[row.key] <= row.estimate.upper
            for row in each.rows
            if row.statistic == "quantile"
        )
        for each in found
    ]
    assert np.mean(quantiles) > least_share(BATCHES)


@pytest.mark.parametrize("case", CASES)
def test_a_report_that_is_kept_a_tenth_less_often_is_seen(case: str) -> None:
    """Power: the means of a wrong law are far beyond Z, and the bands fail more often than they may."""
    query, people = CASES[case]
    truth = query.question.truth(ANSWERS)
    found = wrong(query, people)
    assert max(map(abs, deviations(found, truth).values())) > 2 * Z
    assert np.mean([all_cover(each, truth) for each in found]) < least_share(BATCHES)


def wrong(query: Query, people: Sequence[People], batches: int = BATCHES) -> list[Estimates]:
    """Batches in which a tenth of the people sends the report of a random symbol."""
    uniform = [1 / query.symbols] * query.symbols
    mixed = [part for size, law in people for part in ((size - size // 10, law), (size // 10, uniform))]
    valid = sum(size for size, _ in mixed)
    return [query.estimates(Tally(counts, valid), 0) for counts in simulated(query, mixed, batches, seed=2)]


def test_one_interval_each_is_too_few_for_all_at_once() -> None:
    """Power: the rows' own 95 % intervals hold all at once far less often than the band, so the test would see it."""
    truth, found = SESSION.truth(ANSWERS), distributions("krr")
    single = [
        all(
            row.estimate.lower <= truth[row.key] <= row.estimate.upper
            for row in each.rows
            if row.estimate is not None and row.estimate.standard_error
        )
        for each in found
    ]
    assert np.mean(single) < least_share(BATCHES)


REGION = Histogram("region", ("north", "south", "west"))
THEME_BY = Grouped("theme", (REGION,), Histogram("theme", ("light", "dark"), optional=True))
DELAY_BY = Grouped("delay", (REGION,), Number("delay", -30.0, 180.0, "minutes", levels=3))
THEMES = {
    (region, theme): 100 + 150 * place
    for place, (region, theme) in enumerate(
        (region, theme) for region in REGION.categories for theme in ("light", "dark", None)
    )
}
GROUPED = {
    "histogram": (Query(THEME_BY, KRandomizedResponse(9, 2**30)), THEMES),
    "unary": (Query(replace(THEME_BY, randomizer="unary"), UnaryEncoding(9, 2**31, 2**28)), THEMES),
    "number": (
        Query(DELAY_BY, KRandomizedResponse(12, 2**30)),
        {("north", -30.0): 300, ("south", 40.0): 600, ("south", 180.0): 200, ("west", 110.0): 400},
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", GROUPED)
def test_groups_and_totals_are_unbiased_have_the_errors_they_state_and_cover(case: str) -> None:
    query, holders = GROUPED[case]
    name = query.name
    answers = [{"region": region, name: value} for (region, value), size in holders.items() for _ in range(size)]
    people = [
        (size, at(query.encode({"region": region, name: value}, bytes), query.symbols))
        for (region, value), size in holders.items()
    ]
    truth, found = query.question.truth(answers), published(query, people, BATCHES, seed=3)
    off = deviations(found, truth)
    assert len(off) >= 8
    # A mean in a group is a ratio, whose bias is of the order of its variance over the mean.
    assert max(abs(value) for key, value in off.items() if key[0] != "mean") < Z
    for key, ratio in stated_errors(found).items():
        # The part of rounding is stated at its most; these values lie on steps, and have none. The mean of the north is
        # the lower end, so that it is moved there in half of the batches, and varies less than is stated.
        most = math.inf if key[0] == "mean" else max(1.6, MOST) if case == "number" else MOST
        assert LEAST < ratio < most, key
    assert np.mean([all_cover(each, truth) for each in found]) > least_share(BATCHES)
    assert max(map(abs, deviations(wrong(query, people), truth).values())) > 2 * Z


DELAY = Variance("delay", -30.0, 180.0, "minutes", levels=3)
DELAYS = {-30.0: 500, -12.0: 400, 3.5: 600, 61.0: 300, 179.0: 200}
VARIANCE = {
    "krr": (Query(DELAY, KRandomizedResponse(5, 2**30)), 0),
    "unary": (Query(replace(DELAY, randomizer="unary"), UnaryEncoding(5, 2**31, 2**28)), 0),
    "optional": (Query(replace(DELAY, optional=True), KRandomizedResponse(6, 2**30)), 700),
    "by group": (Query(Grouped("delay", (REGION,), DELAY), KRandomizedResponse(15, 2**30)), 0),
}


def rounded(query: Query, value: float) -> list[float]:
    """The law of a number's symbol; by group, in the second one."""
    nearest, below, above = DELAY.neighbors(value)
    found = [0.0] * query.symbols
    first = 5 if query.symbols == 15 else 0
    for place, chance in ((nearest - 1, below), (nearest, 1 - below - above), (nearest + 1, above)):
        if chance:
            found[first + place] = float(chance)
    return found


@pytest.mark.sampled("krr", "unary", "optional")
@pytest.mark.parametrize("case", VARIANCE)
def test_a_variance_is_unbiased_has_the_error_it_states_and_is_covered(case: str) -> None:
    query, silent = VARIANCE[case]
    people: list[People] = [(size, rounded(query, value)) for value, size in DELAYS.items()]
    people += [(silent, at(query.symbols - 1, query.symbols))] if silent else []
    values = [value for value, size in DELAYS.items() for _ in range(size)]
    answers = [{"region": "south", "delay": value} if case == "by group" else value for value in values]
    truth = {key: value for key, value in query.question.truth(answers).items() if "north" not in str(key)}
    truth = {key: value for key, value in truth.items() if "west" not in str(key)}
    found = published(query, people, BATCHES, seed=4)
    off = deviations(found, truth)
    assert ("variance", "region=south" if case == "by group" else None) in off
    assert max(map(abs, off.values())) < Z
    # Rounding's part of the variance's error is stated at its most.
    assert all(LEAST < ratio < max(1.4, MOST) for ratio in stated_errors(found).values() if ratio < 9)
    assert np.mean([all_cover(each, truth) for each in found]) > least_share(BATCHES)
    assert max(map(abs, deviations(wrong(query, people), truth).values())) > 2 * Z


def test_plain_rounding_would_be_seen() -> None:
    """Power: rounding to two neighbors, whose variance depends on the number, is far from the truth."""
    query, _ = VARIANCE["krr"]
    grid, people = [(place - 0.5) / 3 for place in range(5)], []
    for value, size in DELAYS.items():
        z = (value + 30) / 210
        low = max(place for place in range(4) if grid[place] <= z)
        part = (z - grid[low]) * 3
        people.append((size, [(1 - part) * (place == low) + part * (place == low + 1) for place in range(5)]))
    values = [value for value, size in DELAYS.items() for _ in range(size)]
    off = deviations(published(query, people, BATCHES, seed=5), DELAY.truth(values))
    assert abs(off["variance", None]) > 2 * Z
    assert abs(off["mean", None]) < Z


SITES = tuple(f"site {number}" for number in range(60))
SITE_HOLDERS = (900, 500, 200, 150, 120, 100)
"""People of the first sites; nobody holds the others. About 9 reports of each site are noise: far from normal."""

TOP = Query(Top("site", SITES, false_discovery_rate=0.1), KRandomizedResponse(60, 2**30))
SITE_PEOPLE = [(size, at(place, 60)) for place, size in enumerate(SITE_HOLDERS)]
SITE_TRUTH = TOP.question.truth([SITES[place] for place, size in enumerate(SITE_HOLDERS) for _ in range(size)])


def false_share(estimates: Estimates) -> float:
    """The share of those significantly different from zero that nobody holds; 0 where there are none."""
    told = [row for row in estimates.rows if row.significant]
    return sum(SITE_TRUTH[row.key] == 0 for row in told) / max(len(told), 1)


def test_at_most_the_stated_share_of_discoveries_is_false_and_what_is_there_is_found() -> None:
    """The mean false share of all batches passes within Z of its own standard errors above 10 %."""
    found = published(TOP, SITE_PEOPLE, BATCHES, seed=6)
    shares = np.array([false_share(each) for each in found])
    assert shares.mean() < 0.1 + Z * shares.std() / math.sqrt(BATCHES)
    # Power: all six are found in nearly every batch, and intervals hold for what was chosen.
    known = {("count", site) for site in SITES[: len(SITE_HOLDERS)]}
    assert np.mean([known <= {row.key for row in each.rows} for each in found]) > 0.99
    assert np.mean([all_cover(each, SITE_TRUTH) for each in found]) > least_share(BATCHES)


def test_a_test_at_five_per_cent_a_site_would_be_seen() -> None:
    """Power: of each site alone at 5 %, the false share would be far above 10 %."""
    found = published(Query(Histogram("site", SITES), TOP.randomizer), SITE_PEOPLE, 200, seed=6)
    single = []
    for each in found:
        told = [row for row in each.rows if row.p_value is not None and row.p_value <= 0.05]
        single.append(sum(SITE_TRUTH[row.key] == 0 for row in told) / len(told))
    assert np.mean(single) > 0.15


def test_a_histogram_hardly_ever_says_of_an_empty_category_that_it_is_held() -> None:
    """2.5 % of batches at most, within Z deviations; with people that the estimator does not know of, in most."""
    histogram = Query(Histogram("site", SITES), TOP.randomizer)
    wrongly = [false_share(each) > 0 for each in published(histogram, SITE_PEOPLE, BATCHES, seed=7)]
    assert np.mean(wrongly) < most_share(BATCHES, 0.025)
    more = [*SITE_PEOPLE, (400, [0.0] * 6 + [1 / 54] * 54)]
    found = published(histogram, more, 100, seed=7)
    assert np.mean([false_share(each) > 0 for each in found]) > 0.5
