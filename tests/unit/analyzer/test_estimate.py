from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.mechanisms import KRR
from hubbub.analyzer.estimate import Debiased, estimate, project
from hubbub.protos.results import Estimate, HistogramEstimate, SumEstimate
from hubbub.protos.task import Histogram, Query, Sum

HALF = 2**31
Law = Sequence[Fraction]


def counts(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


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


def expected(laws: Sequence[Law], query: Query, value: Callable[[HistogramEstimate | SumEstimate], float]) -> float:
    gamma = query.gamma_fraction
    return math.fsum(float(p) * value(estimate(query, found)) for p, found in outcomes(laws, gamma))


# Histograms


def test_counts_and_their_errors_are_those_of_the_formula() -> None:
    query = Query(Histogram("carrier", ("AA", "B6", "UA", "DL")), 2**30)
    found = counts(400, 300, 200, 100)
    result = estimate(query, found)
    assert isinstance(result, HistogramEstimate)
    n, gamma, k = 1000, 0.25, 4
    q, r = 1 - gamma + gamma / k, gamma / k
    for count, number in zip(result.counts, found, strict=True):
        unbiased = (number - n * gamma / k) / (1 - gamma)
        variance = (unbiased * q * (1 - q) + (n - unbiased) * r * (1 - r)) / (1 - gamma) ** 2
        assert count.value == pytest.approx(unbiased, rel=1e-12)
        assert count.standard_error == pytest.approx(math.sqrt(variance), rel=1e-12)
        assert count.upper - count.value == pytest.approx(1.96 * count.standard_error)
        assert count.value - count.lower == pytest.approx(1.96 * count.standard_error)
    assert result.answered == Estimate(1000.0, 0.0, 1000.0, 1000.0)
    assert sum(count.value for count in result.counts) == pytest.approx(1000)


def test_the_variance_at_the_true_counts_is_the_exact_one() -> None:
    """12 devices, γ = 1/2: with 5, 4, 3 reports the estimates are exactly the truth 6, 4, 2."""
    debiased = Debiased(0.5, counts(5, 4, 3))
    assert debiased.estimates.tolist() == [6.0, 4.0, 2.0]
    held = [0] * 6 + [1] * 4 + [2] * 2
    laws = [[Fraction(int(symbol == x)) for symbol in range(3)] for x in held]
    for symbol in range(3):
        weights = [Fraction(int(symbol == other)) for other in range(3)]
        exact = float(exact_variance(laws, weights, Fraction(1, 2)))
        assert debiased.variance(np.array(weights, dtype=float)) == pytest.approx(exact, rel=1e-12)
        assert debiased.indicator_variances()[symbol] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("optional", [False, True])
def test_counts_are_unbiased_over_every_outcome(optional: bool) -> None:
    query = Query(Histogram("carrier", ("AA", "B6", "UA"), optional), 3 * 2**30)
    size = query.symbols
    held = [0, 2, 0, size - 1]
    laws = [[Fraction(int(symbol == x)) for symbol in range(size)] for x in held]
    for symbol in range(3):
        mean = expected(laws, query, lambda result, at=symbol: result.counts[at].value)  # type: ignore[union-attr,misc]
        assert mean == pytest.approx(held.count(symbol), abs=1e-9)
    assert expected(laws, query, lambda result: result.answered.value) == pytest.approx(3 if optional else 4, abs=1e-9)


def test_answered_counts_what_is_not_no_answer() -> None:
    query = Query(Histogram("carrier", ("AA", "B6"), optional=True), HALF)
    result = estimate(query, counts(60, 30, 30))
    assert isinstance(result, HistogramEstimate)
    assert len(result.counts) == len(result.consistent) == 2
    assert result.answered.value == pytest.approx(120 - (30 - 20) * 2)
    no_answer = Debiased(0.5, counts(60, 30, 30)).indicator_variances()[2]
    assert result.answered.standard_error == pytest.approx(math.sqrt(no_answer))


def test_errors_stay_sensible_where_an_estimate_is_negative() -> None:
    query = Query(Histogram("carrier", ("AA", "B6", "UA")), HALF)
    result = estimate(query, counts(100, 0, 0))
    assert isinstance(result, HistogramEstimate)
    assert result.counts[1].value < 0
    n, r = 100, 0.5 / 3
    assert result.counts[1].standard_error == pytest.approx(math.sqrt(n * r * (1 - r)) / 0.5)
    assert result.consistent == pytest.approx((100.0, 0.0, 0.0))


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
    query = Query(Sum("delay", -30.0, 180.0, "minutes"), HALF, levels=3)
    found = counts(10, 40, 30, 20)
    result = estimate(query, found)
    assert isinstance(result, SumEstimate)
    n, gamma, levels = 100, 0.5, 3
    z = (sum(j * number for j, number in enumerate(found)) / levels - n * gamma / 2) / (1 - gamma)
    assert result.sum.value == pytest.approx(-30 * n + 210 * z)
    unbiased = [(number - n * gamma / 4) / (1 - gamma) for number in found]
    second = sum((j / levels) ** 2 * c for j, c in enumerate(unbiased))
    variance = (
        n / (4 * levels**2)
        + gamma / (1 - gamma) * (second - z + n / 4)
        + n * gamma * (levels + 2) / (12 * levels) / (1 - gamma) ** 2
    )
    assert result.sum.standard_error == pytest.approx(210 * math.sqrt(variance))
    assert result.mean is not None
    assert result.mean.value == pytest.approx(result.sum.value / n)
    assert result.mean.standard_error == pytest.approx(result.sum.standard_error / n)
    assert result.answered == Estimate(100.0, 0.0, 100.0, 100.0)


HELD = [None] * 4 + [Fraction(1, 6)] * 8 + [Fraction(2, 3)] * 2 + [Fraction(1)] * 6
"""20 devices, 4 without an answer, 8 halfway between two of the levels 0, 1/3, 2/3, 1."""


def sum_of_true_counts() -> tuple[Query, np.ndarray, list[Law]]:
    """γ = 1/2, 5 symbols: these reports make every ĉ_j the expected count after rounding, 4, 4, 2, 6 and 4."""
    query = Query(Sum("delay", -30.0, 180.0, "minutes", optional=True), HALF, levels=3)
    found = counts(4, 4, 3, 5, 4)
    assert Debiased(0.5, found).estimates.tolist() == [4.0, 4.0, 2.0, 6.0, 4.0]
    return query, found, [rounded(x, 3) for x in HELD]


def test_the_error_of_an_optional_sum_is_exact_but_for_the_rounding_which_is_at_its_maximum() -> None:
    query, found, laws = sum_of_true_counts()
    result = estimate(query, found)
    assert isinstance(result, SumEstimate)
    gamma, lower, width = Fraction(1, 2), Fraction(-30), Fraction(210)
    answers = [Fraction(1)] * 4 + [Fraction(0)]
    values = [lower + width * Fraction(j, 3) for j in range(4)] + [Fraction(0)]
    missing_rounding = width**2 * (Fraction(16) - Fraction(8)) / (4 * 9)
    assert result.answered.value == 16
    assert result.answered.standard_error**2 == pytest.approx(float(exact_variance(laws, answers, gamma)))
    truth = sum(lower + width * x for x in HELD if x is not None)
    assert result.sum.value == pytest.approx(float(truth))
    exact = exact_variance(laws, values, gamma) + missing_rounding
    assert result.sum.standard_error**2 == pytest.approx(float(exact))
    assert result.mean is not None
    mean = truth / 16
    centred = [(value - mean) * answer for value, answer in zip(values, answers, strict=True)]
    linear = (exact_variance(laws, centred, gamma) + missing_rounding) / 16**2
    assert result.mean.value == pytest.approx(float(mean))
    assert result.mean.standard_error**2 == pytest.approx(float(linear))


def test_an_optional_sum_is_unbiased_over_every_outcome() -> None:
    query = Query(Sum("delay", -30.0, 180.0, "minutes", optional=True), HALF, levels=2)
    held = [None, Fraction(1, 5), Fraction(9, 10)]
    laws = [rounded(x, 2) for x in held]
    truth = float(sum(-30 + 210 * x for x in held if x is not None))
    assert expected(laws, query, lambda result: result.sum.value) == pytest.approx(truth, abs=1e-9)  # type: ignore[union-attr]
    assert expected(laws, query, lambda result: result.answered.value) == pytest.approx(2, abs=1e-9)


def test_a_mean_over_nobody_is_none() -> None:
    query = Query(Sum("delay", 0.0, 1.0, optional=True), HALF, levels=2)
    result = estimate(query, counts(0, 0, 0, 50))
    assert isinstance(result, SumEstimate)
    assert result.answered.value <= 0
    assert result.mean is None
    nobody = estimate(Query(Sum("delay", 0.0, 1.0), HALF, levels=2), counts(0, 0, 0))
    assert isinstance(nobody, SumEstimate)
    assert (nobody.mean, nobody.sum.value, nobody.sum.standard_error) == (None, 0.0, 0.0)


@given(st.lists(st.integers(0, 10**6), min_size=9, max_size=9), st.integers(1, 2**32 - 1), st.booleans())
def test_no_counts_make_an_error_that_is_no_number(found: list[int], gamma: int, optional: bool) -> None:
    levels = 7 if optional else 8
    result = estimate(Query(Sum("delay", -30.0, 180.0, optional=optional), gamma, levels), counts(*found))
    assert isinstance(result, SumEstimate)
    for number in (result.answered, result.sum, result.mean):
        assert number is None or (math.isfinite(number.value) and number.standard_error >= 0)


# Dummies


def test_dummies_leave_estimates_unbiased_and_are_no_reports() -> None:
    """Three devices and two dummies, over every outcome: the means are the truth, to rounding."""
    query = Query(Sum("delay", 0.0, 1.0, optional=True), HALF, levels=2)
    laws = [rounded(x, 2) for x in (Fraction(1, 3), Fraction(1), None)]
    uniform = [Fraction(1, 4)] * 4
    gamma, dummies = query.gamma_fraction, 2
    reports = [reported(law, gamma) for law in laws] + [uniform] * dummies
    sums, answered = [], []
    for symbols in itertools.product(range(4), repeat=5):
        p = float(math.prod((law[y] for law, y in zip(reports, symbols, strict=True)), start=Fraction(1)))
        result = estimate(query, np.bincount(symbols, minlength=4).astype(np.int64), dummies)
        assert isinstance(result, SumEstimate)
        sums.append(p * result.sum.value)
        answered.append(p * result.answered.value)
    assert math.isclose(math.fsum(sums), 4 / 3, rel_tol=1e-12)
    assert math.isclose(math.fsum(answered), 2.0, rel_tol=1e-12)


@pytest.mark.parametrize("symbols", [2, 3, 10])
def test_each_dummy_adds_the_variance_of_a_uniform_symbol(symbols: int) -> None:
    gamma, dummies = 0.25, 60
    found = np.full(symbols, 100, dtype=np.int64)
    without, added = Debiased(gamma, found), Debiased(gamma, found + dummies // symbols, dummies)
    assert added.reports == without.reports
    assert np.allclose(added.estimates, without.estimates, rtol=1e-12)
    each = (1 - 1 / symbols) / symbols / (1 - gamma) ** 2
    assert np.allclose(added.indicator_variances() - without.indicator_variances(), dummies * each, rtol=1e-9)
    weights = np.arange(symbols, dtype=np.float64)
    difference = added.variance(weights) - without.variance(weights)
    assert math.isclose(difference, dummies * float(weights.var()) / (1 - gamma) ** 2, rel_tol=1e-9)


@pytest.mark.parametrize("dummies", [-1, 3])
def test_more_dummies_than_counted_are_refused(dummies: int) -> None:
    with pytest.raises(ValueError, match="dummies"):
        estimate(Query(Histogram("carrier", ("AA", "B6")), HALF), counts(1, 1), dummies)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(Histogram("carrier", ("AA", "B6")), 2**32), counts(1, 1)),
        (Query(Histogram("carrier", ("AA", "B6")), HALF), counts(1, 1, 1)),
        (Query(Histogram("carrier", ("AA", "B6")), HALF), counts(1, -1)),
    ],
)
def test_impossible_counts_are_refused(query: Query, found: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"gamma|counts"):
        estimate(query, found)
