"""The error of a difference is that of its true law: closed forms, simulations, and the coverage of intervals.

Draws have a fixed seed, so no test fails by chance. Where a share of draws is compared with 95 %, the slack is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from unit.results.test_saved import COMMUTE, OVER_TIME, saved

from hubbub.accountant.mechanisms import NoiseLaw
from hubbub.protos.errors import UsageError
from hubbub.protos.records.results_document import numbers
from hubbub.queries.estimation.estimates import Row
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.results import PublishedRow, ResultsTable, Trust, open_saved
from hubbub.results.differences import _halves, _near, covariance_error, differences
from hubbub.results.intervals import Z_USUAL, band, halves

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CATEGORIES = ("a", "b", "c", "d")
PEOPLE = np.array([700, 500, 60, 0])
N = int(PEOPLE.sum())
GAMMA = 2**30
"""γ = 1/4."""

KRR = Query(Histogram("q", CATEGORIES), KRandomizedResponse(len(CATEGORIES), GAMMA))
UNARY = Query(Histogram("q", CATEGORIES), UnaryEncoding(len(CATEGORIES), 3 * 2**30, 2**30))
P, Q = 1 - 1 / 4 + 1 / 16, 1 / 16
"""The chances that a report of kRR names its own symbol, and another one."""


def krr_counts(random: np.random.Generator) -> Any:
    laws = np.full((4, 4), Q) + np.eye(4) * (P - Q)
    return sum(random.multinomial(count, law) for count, law in zip(PEOPLE, laws, strict=True))


def closed_form(a: int, b: int) -> float:
    """Var(ĉ_a − ĉ_b) under kRR: a report of a or b adds ±1 with mean ±(p − q), one of another adds ±1 with mean 0."""
    near = int(PEOPLE[a] + PEOPLE[b])
    return (near * (P + Q - (P - Q) ** 2) + (N - near) * 2 * Q) / (P - Q) ** 2


@pytest.mark.parametrize(("a", "b"), [(0, 1), (0, 2), (2, 3)])
def test_the_error_within_a_histogram_is_the_closed_form_and_more_than_of_independent_counts(a: int, b: int) -> None:
    expected = np.round(PEOPLE * (P - Q) + N * Q).astype(np.int64)
    expected[0] += N - expected.sum()
    debiased = KRR.debiased(Tally(expected, N), 0)
    error, reach = covariance_error(debiased, a, b)
    assert error**2 == pytest.approx(closed_form(a, b), rel=0.01)
    assert reach == pytest.approx(2 / (P - Q))
    alone = debiased.every_symbol()
    # A report that names one symbol names no other: counts are negatively correlated, and independence is too small.
    assert error > math.hypot(alone[a].standard_error or 0, alone[b].standard_error or 0)


def drawn_krr(random: np.random.Generator) -> tuple[Query, Tally, int]:
    return KRR, Tally(krr_counts(random), N), 0


def drawn_with_dummies(random: np.random.Generator) -> tuple[Query, Tally, int]:
    dummies = 400
    return KRR, Tally(krr_counts(random) + random.multinomial(dummies, [0.25] * 4), N + dummies), dummies


def drawn_unary(random: np.random.Generator) -> tuple[Query, Tally, int]:
    counts = random.binomial(PEOPLE, 0.75) + random.binomial(N - PEOPLE, 0.25)
    return UNARY, Tally(counts.astype(np.int64), N), 0


NOISE = NoiseLaw("gaussian", 400 * 2**32, 60)
NOISY = replace(KRR, noise=NOISE)
CHANCES = np.array([float(each) for each in NOISE.weights])


def drawn_with_noise(random: np.random.Generator) -> tuple[Query, Tally, int]:
    noise = random.choice(len(CHANCES), size=4, p=CHANCES / CHANCES.sum())
    total = int(noise.sum())
    return NOISY, Tally(krr_counts(random) + noise, N + total), total


@pytest.mark.parametrize("draw", [drawn_krr, drawn_with_dummies, drawn_with_noise, drawn_unary])
def test_the_error_within_a_histogram_is_that_of_many_draws(draw: Callable[..., tuple[Query, Tally, int]]) -> None:
    random = np.random.default_rng(5)
    found = []
    for _ in range(3000):
        query, tally, dummies = draw(random)
        counts = query.debiased(tally, dummies).counts
        found.append(counts[0] - counts[1])
    errors = [covariance_error(query.debiased(tally, dummies), 0, 1)[0]]
    assert np.mean(found) == pytest.approx(200, abs=4 * errors[0] / math.sqrt(3000))
    # The standard deviation of 3000 draws has an error of 1.3 %; five of these.
    assert np.std(found) == pytest.approx(errors[0], rel=0.065)


@pytest.mark.parametrize("draw", [drawn_krr, drawn_with_noise, drawn_unary])
def test_intervals_within_a_histogram_cover_as_often_as_they_say(draw: Callable[..., tuple[Query, Tally, int]]) -> None:
    """The true difference is 200. Of 600 intervals at 95 %, 93 % or more cover it, and not nearly all."""
    random, draws, covered = np.random.default_rng(17), 600, 0
    for _ in range(draws):
        query, tally, dummies = draw(random)
        debiased = query.debiased(tally, dummies)
        value = debiased.counts[0] - debiased.counts[1]
        below, above = _near(covariance_error(debiased, 0, 1), 0.05)
        covered += covers((value - below, value + above), 200)
    assert 0.93 <= covered / draws <= 0.99


def row_of(row: Row, number: int = 0, query: str = "q") -> PublishedRow:
    assert row.estimate is not None
    known: Any = {"lower": None, "upper": None, **numbers(row.estimate)}
    about = {"statistic": row.statistic, "category": row.category}
    return PublishedRow("t", "00" * 32, number, NOW, NOW, query, "published", **about, **known)


def rounds_drawn(seed: int, draws: int) -> Iterator[tuple[list[PublishedRow], list[PublishedRow]]]:
    """Two rounds of the same people, drawn again and again: the rows of their counts."""
    random = np.random.default_rng(seed)
    for _ in range(draws):
        pair = []
        for number in range(2):
            found = KRR.estimates(Tally(krr_counts(random), N), 0)
            pair.append([row_of(row, number) for row in found.rows if row.statistic == "count"])
        yield pair[0], pair[1]


def covers(ends: tuple[float, float], truth: float) -> bool:
    return ends[0] - 1e-9 <= truth <= ends[1] + 1e-9


def difference_ends(a: PublishedRow, b: PublishedRow, rate: float, method: Any) -> tuple[float, float]:
    below, above = _halves(a, b, rate, method)
    value = (a.estimate or 0.0) - (b.estimate or 0.0)
    return value - below, value + above


def test_intervals_of_differences_of_two_rounds_cover_as_often_as_they_say() -> None:
    """True differences are 0. Of 4 × 150 intervals at 95 %, 91 % or more cover; all four at once in 91 % or more."""
    one, all_at_once, bound, draws = 0, 0, 0, 150
    for a, b in rounds_drawn(3, draws):
        pairs = list(zip(a, b, strict=True))
        one += sum(covers(difference_ends(*pair, 0.05, "independent"), 0) for pair in pairs)
        all_at_once += all(covers(difference_ends(*pair, 0.05 / len(pairs), "independent"), 0) for pair in pairs)
        bound += sum(covers(difference_ends(*pair, 0.05, "bound"), 0) for pair in pairs)
    assert 0.91 <= one / (4 * draws) <= 0.99
    assert all_at_once / draws >= 0.91
    assert bound / (4 * draws) >= 0.97


def test_a_bound_covers_what_depends_as_it_may() -> None:
    """Within one round as an independent interval would not: the counts of two categories that most people have."""
    random, draws, covered = np.random.default_rng(9), 200, 0
    for _ in range(draws):
        rows = [row_of(row) for row in KRR.estimates(Tally(krr_counts(random), N), 0).rows if row.category]
        covered += covers(difference_ends(rows[0], rows[1], 0.05, "bound"), 200)
    assert covered / draws >= 0.95


def test_a_band_of_many_rounds_holds_at_once() -> None:
    draws, held = 100, 0
    for a, b in rounds_drawn(11, draws):
        ends = band([*a, *b])
        held += all(covers(each, truth) for each, truth in zip(ends, [*PEOPLE, *PEOPLE], strict=True))
    assert held / draws >= 0.91


def test_half_widths_at_the_usual_rate_are_those_published_and_wider_at_a_smaller_one() -> None:
    row = replace(BLANK, estimate=10.0, standard_error=2.0, lower=5.0, upper=17.0)
    assert halves(row, 0.05) == pytest.approx((5.0, 7.0))
    assert all(wide > usual for wide, usual in zip(halves(row, 0.01), halves(row, 0.05), strict=True))
    cut = replace(row, lower=9.5, upper=10.0)
    assert halves(cut, 0.05) == pytest.approx((Z_USUAL * 2,) * 2)
    quantile = replace(row, standard_error=None)
    assert halves(quantile, 0.05) == pytest.approx((5.0, 7.0))


BLANK = PublishedRow("t", "00" * 32, 0, NOW, NOW, "q", "published", statistic="count", category="a")


@pytest.fixture(scope="module")
def commute() -> ResultsTable:
    return open_saved(COMMUTE, keys=COMMUTE).read()


def test_two_counts_of_a_histogram_are_compared_by_their_covariance(commute: ResultsTable) -> None:
    counts = commute.where(query="transport", statistic="count")
    found = commute.compare(counts[0], counts[1])
    a, b = counts[0], counts[1]
    assert found.method == "covariance"
    assert found.value == pytest.approx((a.estimate or 0) - (b.estimate or 0))
    assert (found.standard_error or 0) > math.hypot(a.standard_error or 0, b.standard_error or 0)
    assert found.lower < found.value < found.upper
    assert found.significant
    assert (found.simultaneous_lower, found.simultaneous_upper) == (found.lower, found.upper)


def test_statistics_of_one_query_are_bounded_and_of_two_queries_independent(commute: ResultsTable) -> None:
    car = commute.one(query="transport", category="car")
    answered = commute.one(query="transport", statistic="answered")
    assert commute.compare(answered, car).method == "bound"
    other = commute.one(query="duration", statistic="answered")
    assert commute.compare(car, other).method == "independent"
    mean = commute.one(query="duration", statistic="mean")
    with pytest.raises(UsageError, match="units none and minutes"):
        commute.compare(car, mean)
    with pytest.raises(UsageError, match="compared with itself"):
        commute.compare(car, car)
    with pytest.raises(UsageError, match="round 5 of task commute is not in this table"):
        commute.compare(replace(car, round=5), car)
    with pytest.raises(UsageError, match="no row about the same thing"):
        commute.compare_all(commute.where(query="transport"), commute.where(query="duration"))


@pytest.fixture(scope="module")
def over_time(tmp_path_factory: pytest.TempPathFactory) -> ResultsTable:
    return open_saved(saved(tmp_path_factory.mktemp("saved") / "rounds", OVER_TIME, together=True)).read()


def test_rounds_of_a_question_over_time_are_bounded_and_others_are_independent(over_time: ResultsTable) -> None:
    first, second = (over_time.where(round=number, statistic=over_time[0].statistic) for number in (0, 1))
    a, b = first[0], second[0]
    assert over_time.compare(a, b).method == "bound"
    other = replace(b, query="another")
    assert over_time.compare(a, other).method == "independent"
    found = over_time.compare_all(first, second)
    assert [(each.a.round, each.b.round) for each in found] == [(0, 1)] * len(found)


def test_many_comparisons_get_wider_intervals_and_are_matched_by_what_they_are_about() -> None:
    rows = [row_of(row) for row in KRR.estimates(Tally(np.array([600, 450, 150, 60]), N), 0).rows if row.category]
    later = [replace(row, round=1, task_id="11" * 32) for row in reversed(rows)]
    table = ResultsTable((), Trust(True), [*rows, *later])
    pairs = [(a, next(b for b in later if b.category == a.category)) for a in rows]
    found = differences({}, pairs)
    assert [each.a.category == each.b.category for each in found] == [True] * 4
    for each in found:
        assert each.simultaneous_lower < each.lower < each.upper < each.simultaneous_upper
        assert not each.significant
    with pytest.raises(UsageError, match="is there twice"):
        table.compare_all([*rows, *rows], later)


def test_consistent_counts_are_not_negative_and_add_up(commute: ResultsTable) -> None:
    found = commute.consistent_counts("transport", 0)
    assert min(found.values()) >= 0
    assert sum(found.values()) == pytest.approx(2000, rel=1e-4)
    with pytest.raises(UsageError, match=r"no counts of 'duration' in round 0; .*: transport in round 0$"):
        commute.consistent_counts("duration", 0)
