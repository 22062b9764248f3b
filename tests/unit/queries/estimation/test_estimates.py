"""Estimates are unbiased and their errors exact: every outcome of a few people is enumerated.

The first part is about kRR and its closed forms; the last one holds for every randomizer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.mechanisms import KRR, RAPPOR
from hubbub.queries.estimation.debiased import Debiased, project
from hubbub.queries.estimation.estimates import Estimate, Estimates
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer, Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.estimate_rows import consistent, number, row
from support.estimate_rows import counts as published
from support.krr_queries import krr_query, report, unary_query

HALF = 2**31
Law = Sequence[Fraction]


def counts(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def estimate(query: Query, found: np.ndarray, dummies: int = 0) -> Estimates:
    """What is published of kRR reports that were counted so: each counts for one symbol."""
    return query.estimates(Tally(found, int(found.sum())), dummies)


def debiased(gamma: int, found: np.ndarray, dummies: int = 0) -> Debiased:
    """The same counts, debiased; γ is over 2³²."""
    return Debiased(KRandomizedResponse(len(found), gamma), Tally(found, int(found.sum())), dummies)


def variances_of(found: Debiased) -> np.ndarray:
    """The stated variances of all ĉ_j."""
    return np.array([count.standard_error**2 for count in found.every_symbol()])


def rounded(x: Fraction | None, levels: int) -> Law:
    """The law of the encoded symbol of x in [0, 1], randomly rounded; None is no answer, the symbol levels + 1."""
    law = [Fraction(0)] * (levels + 2)
    if x is None:
        law[levels + 1] = Fraction(1)
        return law
    below = min(math.floor(x * levels), levels - 1)
    law[below + 1] = x * levels - below
    law[below] = 1 - law[below + 1]
    return law


def reported(law: Law, gamma: Fraction) -> Law:
    """The law of the report: kRR after the encoding."""
    mechanism = KRR(len(law), gamma)
    rows = [mechanism.law(symbol) for symbol in range(len(law))]
    return [sum(p * row[y] for p, row in zip(law, rows, strict=True)) for y in range(len(law))]


def exact_variance(laws: Sequence[Law], weights: Sequence[Fraction], gamma: Fraction) -> Fraction:
    """Var Σ_j w_j ĉ_j: devices are independent, so it is the sum of the variances of w(y_i)/(1−γ)."""
    total = Fraction(0)
    for law in laws:
        report = reported(law, gamma)
        mean = sum(p * w for p, w in zip(report, weights, strict=True))
        total += sum(p * w * w for p, w in zip(report, weights, strict=True)) - mean**2
    return total / (1 - gamma) ** 2


def outcomes(laws: Sequence[Law], gamma: Fraction) -> Iterator[tuple[Fraction, np.ndarray]]:
    """Every possible list of reports, as its probability and its counts."""
    reports = [reported(law, gamma) for law in laws]
    for symbols in itertools.product(range(len(laws[0])), repeat=len(laws)):
        probability = math.prod((law[y] for law, y in zip(reports, symbols, strict=True)), start=Fraction(1))
        yield probability, np.bincount(symbols, minlength=len(laws[0])).astype(np.int64)


def gamma_of(query: Query) -> Fraction:
    assert isinstance(query.mechanism, KRR)
    return query.mechanism.gamma


def expected(laws: Sequence[Law], query: Query, value: Callable[[Estimates], float]) -> float:
    gamma = gamma_of(query)
    return math.fsum(float(p) * value(estimate(query, found)) for p, found in outcomes(laws, gamma))


# Histograms


def test_counts_and_their_errors_are_those_of_the_formula() -> None:
    query = krr_query(Histogram("carrier", ("AA", "B6", "UA", "DL")), 2**30)
    found = counts(400, 300, 200, 100)
    result = estimate(query, found)
    n, gamma, k = 1000, 0.25, 4
    q, r = 1 - gamma + gamma / k, gamma / k
    for count, seen in zip(published(result), found, strict=True):
        unbiased = (seen - n * gamma / k) / (1 - gamma)
        variance = (unbiased * q * (1 - q) + (n - unbiased) * r * (1 - r)) / (1 - gamma) ** 2
        assert count.value == pytest.approx(unbiased, rel=1e-12)
        assert count.standard_error == pytest.approx(math.sqrt(variance), rel=1e-12)
        # The exact interval of whole numbers is a little wider than the normal one.
        for side in (count.upper - count.value, count.value - count.lower):
            assert 1.96 * count.standard_error - 0.6 < side < 1.96 * count.standard_error + 2.1
    assert [each.category for each in result.rows] == ["AA", "B6", "UA", "DL", None]
    assert number(result, "answered") == Estimate(1000.0, 0.0, 1000.0, 1000.0, (1000.0, 1000.0))
    assert sum(count.value for count in published(result)) == pytest.approx(1000)


def test_the_variance_at_the_true_counts_is_the_exact_one() -> None:
    """12 devices, γ = 1/2: with 5, 4, 3 reports the estimates are exactly the truth 6, 4, 2."""
    batch = debiased(HALF, counts(5, 4, 3))
    assert batch.counts.tolist() == [6.0, 4.0, 2.0]
    held = [0] * 6 + [1] * 4 + [2] * 2
    laws = [[Fraction(int(symbol == x)) for symbol in range(3)] for x in held]
    for symbol in range(3):
        weights = [Fraction(int(symbol == other)) for other in range(3)]
        exact = float(exact_variance(laws, weights, Fraction(1, 2)))
        assert batch.variance(np.array(weights, dtype=float)) == pytest.approx(exact, rel=1e-12)
        assert variances_of(batch)[symbol] == pytest.approx(exact, rel=1e-12)


@pytest.mark.sampled("False")
@pytest.mark.parametrize("optional", [False, True])
def test_counts_are_unbiased_over_every_outcome(optional: bool) -> None:
    query = krr_query(Histogram("carrier", ("AA", "B6", "UA"), optional), 3 * 2**30)
    size = query.symbols
    held = [0, 2, 0, size - 1]
    laws = [[Fraction(int(symbol == x)) for symbol in range(size)] for x in held]
    for symbol in range(3):
        mean = expected(laws, query, lambda result, at=symbol: published(result)[at].value)  # type: ignore[misc]
        assert mean == pytest.approx(held.count(symbol), abs=1e-9)
    answered = expected(laws, query, lambda result: number(result, "answered").value)
    assert answered == pytest.approx(3 if optional else 4, abs=1e-9)


def test_answered_counts_what_is_not_no_answer() -> None:
    query = krr_query(Histogram("carrier", ("AA", "B6"), optional=True), HALF)
    result = estimate(query, counts(60, 30, 30))
    assert len(published(result)) == len(consistent(result)) == 2
    assert number(result, "answered").value == pytest.approx(120 - (30 - 20) * 2)
    no_answer = variances_of(debiased(HALF, counts(60, 30, 30)))[2]
    assert number(result, "answered").standard_error == pytest.approx(math.sqrt(no_answer))


def test_errors_stay_sensible_where_an_estimate_is_negative() -> None:
    query = krr_query(Histogram("carrier", ("AA", "B6", "UA")), HALF)
    result = estimate(query, counts(100, 0, 0))
    assert published(result)[1].value < 0
    n, r = 100, 0.5 / 3
    assert published(result)[1].standard_error == pytest.approx(math.sqrt(n * r * (1 - r)) / 0.5)
    assert consistent(result) == pytest.approx([100.0, 0.0, 0.0])


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=30), st.floats(0, 1e5))
def test_the_projection_is_the_nearest_consistent_point(values: list[float], total: float) -> None:
    estimates = np.array(values)
    projected = project(estimates, total)
    scale = 1e-9 * (1 + abs(estimates).sum() + total)
    assert (projected >= 0).all()
    assert projected.sum() == pytest.approx(total, abs=scale)
    # Optimality: what is moved is one constant where something is left, and no more than it elsewhere.
    moved = estimates - projected
    positive = projected > 0
    if positive.any():
        assert np.ptp(moved[positive]) <= scale
        assert (moved[~positive] <= moved[positive].max() + scale).all()


# Sums


def test_a_sum_is_that_of_the_formula() -> None:
    """z = (ẑ − nγ/2)/(1−γ), then n·lower + (upper−lower)·z; the variance as math has it for a sum."""
    query = krr_query(Number("delay", -30.0, 180.0, "minutes"), HALF, levels=3)
    found = counts(10, 40, 30, 20)
    result = estimate(query, found)
    n, gamma, levels = 100, 0.5, 3
    z = (sum(j * seen for j, seen in enumerate(found)) / levels - n * gamma / 2) / (1 - gamma)
    total, mean = number(result, "sum"), number(result, "mean")
    assert total.value == pytest.approx(-30 * n + 210 * z)
    unbiased = [(seen - n * gamma / 4) / (1 - gamma) for seen in found]
    second = sum((j / levels) ** 2 * c for j, c in enumerate(unbiased))
    variance = (
        n / (4 * levels**2)
        + gamma / (1 - gamma) * (second - z + n / 4)
        + n * gamma * (levels + 2) / (12 * levels) / (1 - gamma) ** 2
    )
    assert total.standard_error == pytest.approx(210 * math.sqrt(variance))
    assert mean.value == pytest.approx(total.value / n)
    assert mean.standard_error == pytest.approx(total.standard_error / n)
    assert number(result, "answered") == Estimate(100.0, 0.0, 100.0, 100.0, (100.0, 100.0))
    assert (result.unit, result.clipped_to) == ("minutes", (-30.0, 180.0))
    assert [each.unit for each in result.rows] == ["", "minutes", "minutes"]


HELD = [None] * 4 + [Fraction(1, 6)] * 8 + [Fraction(2, 3)] * 2 + [Fraction(1)] * 6
"""20 devices, 4 without an answer, 8 halfway between two of the levels 0, 1/3, 2/3, 1."""


def sum_of_true_counts() -> tuple[Query, np.ndarray, list[Law]]:
    """γ = 1/2, 5 symbols: these reports make every ĉ_j the expected count after rounding, 4, 4, 2, 6 and 4."""
    query = krr_query(Number("delay", -30.0, 180.0, "minutes", optional=True), HALF, levels=3)
    found = counts(4, 4, 3, 5, 4)
    assert debiased(HALF, found).counts.tolist() == [4.0, 4.0, 2.0, 6.0, 4.0]
    return query, found, [rounded(x, 3) for x in HELD]


def test_the_error_of_an_optional_sum_is_exact_but_for_the_rounding_which_is_at_its_maximum() -> None:
    query, found, laws = sum_of_true_counts()
    result = estimate(query, found)
    gamma, lower, width = Fraction(1, 2), Fraction(-30), Fraction(210)
    answers = [Fraction(1)] * 4 + [Fraction(0)]
    values = [lower + width * Fraction(j, 3) for j in range(4)] + [Fraction(0)]
    missing_rounding = width**2 * (Fraction(16) - Fraction(8)) / (4 * 9)
    assert number(result, "answered").value == 16
    assert number(result, "answered").standard_error ** 2 == pytest.approx(float(exact_variance(laws, answers, gamma)))
    truth = sum(lower + width * x for x in HELD if x is not None)
    assert number(result, "sum").value == pytest.approx(float(truth))
    exact = exact_variance(laws, values, gamma) + missing_rounding
    assert number(result, "sum").standard_error ** 2 == pytest.approx(float(exact))
    mean = truth / 16
    centered = [(value - mean) * answer for value, answer in zip(values, answers, strict=True)]
    linear = (exact_variance(laws, centered, gamma) + missing_rounding) / 16**2
    assert number(result, "mean").value == pytest.approx(float(mean))
    assert number(result, "mean").standard_error ** 2 == pytest.approx(float(linear))


def test_an_optional_sum_is_unbiased_over_every_outcome() -> None:
    query = krr_query(Number("delay", -30.0, 180.0, "minutes", optional=True), HALF, levels=2)
    held = [None, Fraction(1, 5), Fraction(9, 10)]
    laws = [rounded(x, 2) for x in held]
    truth = float(sum(-30 + 210 * x for x in held if x is not None))
    assert expected(laws, query, lambda result: number(result, "sum").value) == pytest.approx(truth, abs=1e-9)
    assert expected(laws, query, lambda result: number(result, "answered").value) == pytest.approx(2, abs=1e-9)


def test_a_mean_over_nobody_is_none() -> None:
    query = krr_query(Number("delay", 0.0, 1.0, optional=True), HALF, levels=2)
    result = estimate(query, counts(0, 0, 0, 50))
    assert number(result, "answered").value <= 0
    assert row(result, "mean").estimate is None
    nobody = estimate(krr_query(Number("delay", 0.0, 1.0), HALF, levels=2), counts(0, 0, 0))
    total = number(nobody, "sum")
    assert (row(nobody, "mean").estimate, total.value, total.standard_error) == (None, 0.0, 0.0)


@given(st.lists(st.integers(0, 10**6), min_size=9, max_size=9), st.integers(1, 2**32 - 1), st.booleans())
def test_no_counts_make_an_error_that_is_no_number(found: list[int], gamma: int, optional: bool) -> None:
    levels = 7 if optional else 8
    result = estimate(krr_query(Number("delay", -30.0, 180.0, optional=optional), gamma, levels), counts(*found))
    for value in (number(result, "answered"), number(result, "sum"), row(result, "mean").estimate):
        assert value is None or (math.isfinite(value.value) and value.standard_error >= 0)


# Dummies


# tests/statistical/test_estimates.py: `test_counts_with_dummies_are_unbiased_and_covered`.
@pytest.mark.exhaustive
def test_dummies_leave_estimates_unbiased_and_are_no_reports() -> None:
    """Three devices and two dummies, over every outcome: the means are the truth, to rounding."""
    query = krr_query(Number("delay", 0.0, 1.0, optional=True), HALF, levels=2)
    laws = [rounded(x, 2) for x in (Fraction(1, 3), Fraction(1), None)]
    uniform = [Fraction(1, 4)] * 4
    gamma, dummies = gamma_of(query), 2
    reports = [reported(law, gamma) for law in laws] + [uniform] * dummies
    sums, answered = [], []
    for symbols in itertools.product(range(4), repeat=5):
        p = float(math.prod((law[y] for law, y in zip(reports, symbols, strict=True)), start=Fraction(1)))
        result = estimate(query, np.bincount(symbols, minlength=4).astype(np.int64), dummies)
        sums.append(p * number(result, "sum").value)
        answered.append(p * number(result, "answered").value)
    assert math.isclose(math.fsum(sums), 4 / 3, rel_tol=1e-12)
    assert math.isclose(math.fsum(answered), 2.0, rel_tol=1e-12)


@pytest.mark.parametrize("symbols", [2, 3, 10])
def test_each_dummy_adds_the_variance_of_a_uniform_symbol(symbols: int) -> None:
    gamma, dummies = 0.25, 60
    found = np.full(symbols, 100, dtype=np.int64)
    without, added = debiased(2**30, found), debiased(2**30, found + dummies // symbols, dummies)
    assert added.reports == without.reports
    assert np.allclose(added.counts, without.counts, rtol=1e-12)
    each = (1 - 1 / symbols) / symbols / (1 - gamma) ** 2
    assert np.allclose(variances_of(added) - variances_of(without), dummies * each, rtol=1e-9)
    weights = np.arange(symbols, dtype=np.float64)
    difference = added.variance(weights) - without.variance(weights)
    assert math.isclose(difference, dummies * float(weights.var()) / (1 - gamma) ** 2, rel_tol=1e-9)


@pytest.mark.parametrize("dummies", [-1, 3])
def test_more_dummies_than_counted_are_refused(dummies: int) -> None:
    with pytest.raises(ValueError, match="dummies"):
        estimate(krr_query(Histogram("carrier", ("AA", "B6")), HALF), counts(1, 1), dummies)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (krr_query(Histogram("carrier", ("AA", "B6")), 2**32), counts(1, 1)),
        (krr_query(Histogram("carrier", ("AA", "B6")), HALF), counts(1, 1, 1)),
        (krr_query(Histogram("carrier", ("AA", "B6")), HALF), counts(1, -1)),
    ],
)
def test_impossible_counts_are_refused(query: Query, found: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"gamma=.* have no information|counts of shape"):
        estimate(query, found)


def test_counts_above_the_valid_reports_are_refused() -> None:
    """A report counts for a symbol once at most, so a tally that says otherwise was damaged."""
    query = unary_query(Histogram("carrier", ("AA", "B6")), 3 * 2**30, 2**30)
    assert query.estimates(Tally(counts(5, 5), 5), 0).rows
    for found in (counts(6, 0), counts(5, 6)):
        with pytest.raises(ValueError, match="2 counts from 0 to 5 are expected"):
            query.estimates(Tally(found, 5), 0)


@pytest.mark.parametrize("dummies", [-1, 6])
def test_dummies_are_at_most_the_valid_reports_whatever_the_counts_add_up_to(dummies: int) -> None:
    query = unary_query(Histogram("carrier", ("AA", "B6")), 3 * 2**30, 2**30)
    with pytest.raises(ValueError, match=f"{dummies} dummies among 5 valid reports"):
        query.estimates(Tally(counts(5, 5), 5), dummies)


def test_people_are_the_valid_reports_and_not_the_sum_of_counts() -> None:
    query = unary_query(Histogram("carrier", ("AA", "B6", "UA")), 3 * 2**30, 2**30)
    for found in (counts(0, 0, 0), counts(7, 7, 7)):
        assert number(query.estimates(Tally(found, 7), 2), "answered") == Estimate(5.0, 0.0, 5.0, 5.0, (5.0, 5.0))


# Every randomizer

KRR_AND_UNARY = ["krr", "unary", "optimized"]
"""kRR at γ = 1/2; p = 3/4 and q = 1/4; p = 1/2 and q = 1/8."""

ReportLaw = dict[bytes, Fraction]


def asked(question: Question, kind: str, levels: int | None = None) -> Query:
    assert isinstance(question, Histogram | Number)
    if kind == "krr":
        return krr_query(question, HALF, levels)
    probabilities = (3 * 2**30, 2**30) if kind == "unary" else (2**31, 2**29)
    return unary_query(question, *probabilities, levels=levels)


def report_law(randomizer: Randomizer, law: Law) -> ReportLaw:
    """The law of a report, by the mechanism that is certified, of someone whose symbol has this law."""
    mechanism, symbols = randomizer.mechanism, range(randomizer.symbols)
    if isinstance(mechanism, KRR):
        given = {report(y): [mechanism.law(x)[y] for x in symbols] for y in symbols}
    else:
        assert isinstance(mechanism, RAPPOR)
        every = itertools.product((0, 1), repeat=len(symbols))
        given = {_bits(bits): [mechanism.probability(x, bits) for x in symbols] for bits in every}
    return {each: sum((p * q for p, q in zip(law, row, strict=True)), Fraction(0)) for each, row in given.items()}


def _bits(bits: Sequence[int]) -> bytes:
    return sum(bit << place for place, bit in enumerate(bits)).to_bytes(-(-len(bits) // 8), "little")


def tallies(randomizer: Randomizer, laws: Sequence[Law], dummies: int) -> dict[tuple[int, ...], Fraction]:
    """The exact law of a batch's counts: of one report for each law, and of dummies, which are of a uniform symbol."""
    uniform = [Fraction(1, randomizer.symbols)] * randomizer.symbols
    # A dummy of kRR is a uniform symbol itself, one of unary encoding the randomized report of one.
    dummy = {report(y): p for y, p in enumerate(uniform)} if randomizer.kind == "krr" else None
    reports = [report_law(randomizer, law) for law in laws]
    reports += [report_law(randomizer, uniform) if dummy is None else dummy] * dummies
    found = {(0,) * randomizer.symbols: Fraction(1)}
    for law in reports:
        one = [(randomizer.tally(each).counts.tolist(), p) for each, p in law.items() if p]
        after: dict[tuple[int, ...], Fraction] = {}
        for (before, mass), (added, p) in itertools.product(found.items(), one):
            now = tuple(x + y for x, y in zip(before, added, strict=True))
            after[now] = after.get(now, Fraction(0)) + mass * p
        found = after
    assert sum(found.values()) == 1
    return found


def moments(values: Sequence[tuple[Fraction, float]]) -> tuple[float, float]:
    """Mean and variance of a number that has these values."""
    mean = math.fsum(float(p) * value for p, value in values)
    return mean, math.fsum(float(p) * (value - mean) ** 2 for p, value in values)


def held_by(x: int, symbols: int) -> Law:
    return [Fraction(int(symbol == x)) for symbol in range(symbols)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KRR_AND_UNARY)
@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize(("categories", "optional"), [(2, False), (3, False), (2, True)])
def test_counts_have_the_exact_mean_and_variance(kind: str, dummies: int, categories: int, optional: bool) -> None:
    query = asked(Histogram("carrier", ("AA", "B6", "UA")[:categories], optional), kind)
    randomizer, symbols = query.randomizer, query.symbols
    held = [0, symbols - 1, 0]
    laws = [held_by(x, symbols) for x in held]
    batches = tallies(randomizer, laws, dummies)
    found = [(p, query.estimates(Tally(counts(*tally), len(held) + dummies), dummies)) for tally, p in batches.items()]
    for place in range(categories):
        weights = np.zeros(symbols)
        weights[place] = 1.0
        mean, variance = moments([(p, published(result)[place].value) for p, result in found])
        assert mean == pytest.approx(held.count(place), abs=1e-12)
        assert variance == pytest.approx(stated_at_the_truth(randomizer, held, dummies, weights), rel=1e-12)
    # All but those without an answer: with unary encoding the counts of the answers would carry more noise.
    weights = np.array([0.0] * categories + [1.0] * (symbols - categories))
    mean, variance = moments([(p, number(result, "answered").value) for p, result in found])
    assert mean == pytest.approx(sum(x < categories for x in held), abs=1e-12)
    if optional:
        assert variance == pytest.approx(stated_at_the_truth(randomizer, held, dummies, weights), rel=1e-12)
    else:
        # It is known: everybody answers.
        assert variance == pytest.approx(0.0, abs=1e-12)


def stated_at_the_truth(randomizer: Randomizer, held: Sequence[int], dummies: int, weights: np.ndarray) -> float:
    """Σ_j c_j v_w(j) and the dummies' part, at the true counts."""
    each = randomizer.variances(weights)
    return float(sum(each[x] for x in held)) + dummies * randomizer.dummy_variance(weights)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", KRR_AND_UNARY)
@pytest.mark.parametrize("dummies", [0, 1])
@pytest.mark.parametrize(("levels", "optional"), [(1, False), (2, False), (1, True)])
def test_sums_have_the_exact_mean_and_variance(kind: str, dummies: int, levels: int, optional: bool) -> None:
    """Rounding included: its part is known here, as the people are."""
    query = asked(Number("delay", -30.0, 180.0, "minutes", optional=optional), kind, levels)
    randomizer, symbols = query.randomizer, query.symbols
    people = [Fraction(1, 5), Fraction(9, 10), None if optional else Fraction(1)]
    laws = [rounded(x, levels)[:symbols] for x in people]
    batches = tallies(randomizer, laws, dummies)
    found = [(p, query.estimates(Tally(counts(*tally), 3 + dummies), dummies)) for tally, p in batches.items()]
    mean, variance = moments([(p, number(result, "sum").value) for p, result in found])
    assert mean == pytest.approx(float(sum(-30 + 210 * x for x in people if x is not None)), abs=1e-9)
    weights = np.array([-30 + 210 * step / levels for step in range(levels + 1)] + [0.0] * optional)
    rounding = [spread_of(law, weights) for law in laws]
    # How many there are is known, and not estimated: only those without an answer take a lower bound from the sum.
    varying = weights + 30.0
    each = randomizer.variances(varying)
    exact = math.fsum(rounding) + dummies * randomizer.dummy_variance(varying)
    exact += math.fsum(float(p) * each[x] for law in laws for x, p in enumerate(law))
    assert variance == pytest.approx(exact, rel=1e-12)
    answered = moments([(p, number(result, "answered").value) for p, result in found])
    assert answered[0] == pytest.approx(2 if optional else 3, abs=1e-12)


@pytest.mark.parametrize("kind", KRR_AND_UNARY)
@pytest.mark.parametrize("dummies", [0, 1])
@pytest.mark.parametrize("levels", [1, 2])
def test_the_mean_where_everybody_answers_is_the_sum_over_all(kind: str, dummies: int, levels: int) -> None:
    """In every outcome, its error too: unary encoding's counts add up to n in the mean only, and may add up to 0."""
    query = asked(Number("delay", -30.0, 180.0, "minutes"), kind, levels)
    law = [Fraction(1, query.symbols)] * query.symbols
    for tally in tallies(query.randomizer, [law] * 2, dummies):
        result = query.estimates(Tally(counts(*tally), 2 + dummies), dummies)
        total, mean = number(result, "sum"), number(result, "mean")
        assert mean.value == pytest.approx(total.value / 2, abs=1e-9)
        assert mean.standard_error == pytest.approx(total.standard_error / 2, rel=1e-9)


def test_a_mean_is_there_where_the_counts_of_a_unary_sum_add_up_to_nothing() -> None:
    """Two people, p = 1/2, q = 1/4, one bit set of four: ĉ = (2, −2)."""
    query = unary_query(Number("share", 0.0, 1.0), 2**31, 2**30, levels=1)
    result = query.estimates(Tally(counts(1, 0), 2), 0)
    assert (number(result, "sum").value, number(result, "mean").value) == (-2.0, -1.0)


def spread_of(law: Law, weights: np.ndarray) -> float:
    """The variance that rounding alone adds: ρ_i."""
    mean = sum(float(p) * w for p, w in zip(law, weights, strict=True))
    return sum(float(p) * (w - mean) ** 2 for p, w in zip(law, weights, strict=True))


@pytest.mark.parametrize("kind", KRR_AND_UNARY)
@pytest.mark.parametrize("weights", [(1, 0, 0), (0, 1, 2), (-3, 0, 1), (1, 1, 1)], ids=str)
def test_a_report_s_variance_is_exact_for_every_symbol(kind: str, weights: tuple[int, ...]) -> None:
    """`variances` and `dummy_variance` against the law of one report, by fractions."""
    query = asked(Histogram("carrier", ("AA", "B6", "UA")), kind)
    randomizer, wanted = query.randomizer, np.array(weights, dtype=np.float64)
    keep = Fraction(randomizer.support_gap)
    assert float(keep) == randomizer.support_gap
    stated = randomizer.variances(wanted).tolist()
    for x in range(3):
        exact = _variance(tallies(randomizer, [held_by(x, 3)], 0), weights, keep)
        assert stated[x] == pytest.approx(float(exact), rel=1e-12, abs=1e-15)
    dummy = _variance(tallies(randomizer, [], 1), weights, keep)
    assert randomizer.dummy_variance(wanted) == pytest.approx(float(dummy), rel=1e-12, abs=1e-15)


def _variance(batches: dict[tuple[int, ...], Fraction], weights: Sequence[int], keep: Fraction) -> Fraction:
    values = [
        (p, sum((w * c for w, c in zip(weights, tally, strict=True)), Fraction(0)) / keep)
        for tally, p in batches.items()
    ]
    mean = sum((p * value for p, value in values), Fraction(0))
    return sum((p * (value - mean) ** 2 for p, value in values), Fraction(0))


@pytest.mark.parametrize("kind", KRR_AND_UNARY)
def test_a_symbol_counts_as_often_as_the_randomizer_says(kind: str) -> None:
    """`keep`, `base` and `dummy_mean` against the law of one report."""
    query = asked(Histogram("carrier", ("AA", "B6", "UA")), kind)
    randomizer = query.randomizer
    for x, symbol in itertools.product(range(3), range(3)):
        mean = sum(p * tally[symbol] for tally, p in tallies(randomizer, [held_by(x, 3)], 0).items())
        assert float(mean) == randomizer.support_other + (randomizer.support_gap if x == symbol else 0)
    for symbol in range(3):
        mean = sum(p * tally[symbol] for tally, p in tallies(randomizer, [], 1).items())
        assert float(mean) == pytest.approx(randomizer.dummy_mean, rel=1e-15)


@pytest.mark.parametrize("dummies", [0, 4])
def test_the_stated_error_of_a_unary_count_is_exact_at_the_true_counts(dummies: int) -> None:
    """12 people and p = 3/4, q = 1/4: with 6, 5, 4 set bits the estimates are exactly the truth 6, 4, 2.

    A dummy's bit is set with 1/4 + 1/2 · 1/3 = 5/12; with 4 of them 5/3 more are set, which no count is: the truth is
    then met between two tallies, and the stated variance, linear in the counts there, is that of both in the mean.
    """
    randomizer = UnaryEncoding(3, 3 * 2**30, 2**30)
    held = [0] * 6 + [1] * 4 + [2] * 2
    shifts = [0] if dummies == 0 else [1, 2, 2]
    batches = [
        Debiased(randomizer, Tally(counts(6 + shift, 5 + shift, 4 + shift), 12 + dummies), dummies) for shift in shifts
    ]
    assert np.mean([batch.counts for batch in batches], axis=0) == pytest.approx([6.0, 4.0, 2.0])
    for symbol in range(3):
        weights = [Fraction(int(symbol == other)) for other in range(3)]
        exact = Fraction(0)
        for x in held:
            exact += _variance(tallies(randomizer, [held_by(x, 3)], 0), [int(w) for w in weights], Fraction(1, 2))
        exact += dummies * _variance(tallies(randomizer, [], 1), [int(w) for w in weights], Fraction(1, 2))
        indicator = np.array(weights, dtype=np.float64)
        assert np.mean([batch.variance(indicator) for batch in batches]) == pytest.approx(float(exact), rel=1e-12)
        assert np.mean([variances_of(batch)[symbol] for batch in batches]) == pytest.approx(float(exact), rel=1e-12)


@given(
    st.lists(st.integers(0, 1000), min_size=9, max_size=9),
    st.integers(0, 1000),
    st.integers(2, 2**32 - 1).flatmap(lambda truthful: st.tuples(st.just(truthful), st.integers(1, truthful - 1))),
    st.booleans(),
)
def test_no_unary_tally_makes_an_error_that_is_no_number(
    found: list[int], dummies: int, probabilities: tuple[int, int], optional: bool
) -> None:
    levels = 7 if optional else 8
    truthful, other = probabilities
    query = unary_query(Number("delay", -30.0, 180.0, optional=optional), truthful, other, levels)
    result = query.estimates(Tally(counts(*found), 1000), dummies)
    for value in (number(result, "answered"), number(result, "sum"), row(result, "mean").estimate):
        assert value is None or (math.isfinite(value.value) and value.standard_error >= 0)
