from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import isclose, nextafter, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.bounds import delta_upper, epsilon_bracket
from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import NOISE_LEVELS, Calibration, Target, is_within
from hubbub.accountant.calibration.least_error import best_size
from hubbub.accountant.calibration.search import search_of
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import GAMMA_DENOMINATOR, KRR
from hubbub.accountant.pairs import Part
from hubbub.planning.comparison import question_for
from hubbub.queries.design import Design
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.randomizer import Randomizer, RandomizerFamily
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.registry import RANDOMIZERS
from support.krr_queries import (
    calibrate_histogram,
    calibrate_sum,
    histogram_design,
    histogram_mse,
    sum_mse,
)


def numerator(found: Calibration[Randomizer]) -> int:
    scaled = found.mechanism.gamma * GAMMA_DENOMINATOR
    assert scaled.denominator == 1
    return scaled.numerator


def assert_least(found: Calibration[Randomizer], epsilon: float, delta: float, reports: int) -> None:
    """The bound holds at γ, and fails at a γ one part in a thousand smaller."""
    assert found.epsilon_upper <= epsilon
    assert delta_upper(found.mechanism, reports, epsilon) <= delta
    assert epsilon_bracket(found.mechanism, reports, delta).epsilon_upper <= epsilon
    smaller = KRR.from_numerator(found.mechanism.categories, int(numerator(found) * 0.999))
    assert delta_upper(smaller, reports, epsilon) > delta


@pytest.mark.sampled(3)
@pytest.mark.parametrize("categories", [2, 3, 16, 1000])
@pytest.mark.parametrize("reports", [2000, 10**6])
def test_histogram_gets_the_least_gamma_that_the_bound_allows(categories: int, reports: int) -> None:
    found = calibrate_histogram(categories, 0.8, 1e-7, reports)
    assert_least(found, 0.8, 1e-7, reports)
    assert found.size == found.mechanism.categories == categories
    assert isclose(found.mse, histogram_mse(found.mechanism, reports))
    assert found.expected_standard_error == sqrt(found.mse)


@pytest.mark.parametrize("reports", [500, 10**6])
def test_sum_gets_the_levels_with_the_least_error(reports: int) -> None:
    found = calibrate_sum(0.5, 1e-8, reports)
    assert_least(found, 0.5, 1e-8, reports)
    best = found.size - 1
    for levels in {max(1, best - 1), best + 1, 2 * best} - {best}:
        other = calibrate_histogram(levels + 1, 0.5, 1e-8, reports)
        assert sum_mse(other.mechanism, levels, reports) >= found.mse * (1 - 1e-9)


def test_optional_queries_get_one_more_symbol() -> None:
    assert calibrate_histogram(4, 1.0, 1e-6, 10_000, optional=True).mechanism.categories == 5
    found = calibrate_sum(1.0, 1e-6, 10_000, optional=True)
    assert found.mechanism.categories == found.size + 1


def test_local_epsilon_is_capped() -> None:
    found = calibrate_histogram(16, 1.0, 1e-6, 10**6, epsilon_local_cap=3.0)
    assert 2.999 < found.epsilon_local <= 3.0
    assert found.epsilon_upper < 1.0


def test_few_reports_fall_back_on_local_privacy() -> None:
    found = calibrate_histogram(4, 1.0, 1e-9, 2)
    assert found.epsilon_local <= 1.0
    assert found.epsilon_local > 0.999


@pytest.mark.parametrize("categories", [2, 3, 50])
@pytest.mark.parametrize("reports", [2, 10, 15])
def test_no_more_noise_is_taken_than_local_privacy_needs(categories: int, reports: int) -> None:
    found = calibrate_histogram(categories, 0.5, 1e-8, reports)
    assert found.epsilon_local > 0.5 * (1 - 1e-5)


def test_dishonest_reports_do_not_hide_anyone() -> None:
    whole = calibrate_histogram(16, 1.0, 1e-6, 9_000)
    shared = calibrate_histogram(16, 1.0, 1e-6, 10_000, honest_share=0.9)
    assert shared.mechanism == whole.mechanism
    assert shared.mse > whole.mse


def test_dummies_allow_less_noise_in_each_report() -> None:
    plain = calibrate_histogram(4, 1.0, 1e-6, 2_000)
    helped = calibrate_histogram(4, 1.0, 1e-6, 2_000, dummies=100)
    assert helped.mechanism.gamma < 0.7 * plain.mechanism.gamma
    assert delta_upper(helped.mechanism, 2_000, 1.0, dummies=100) <= 1e-6


def test_targets_without_a_useful_mechanism_are_refused_with_a_remedy() -> None:
    with pytest.raises(AccountingError, match="collect more reports"):
        calibrate_histogram(4, 1e-12, 1e-15, 2)
    for arguments in [(4, 0.0, 1e-6, 100), (4, 1.0, 0.0, 100), (4, 1.0, 1e-6, 0), (1, 1.0, 1e-6, 100)]:
        with pytest.raises(AccountingError, match="; give "):
            calibrate_histogram(*arguments)
    with pytest.raises(AccountingError, match="leaves nobody"):
        calibrate_histogram(4, 1.0, 1e-6, 5, honest_share=0.1)
    with pytest.raises(AccountingError, match="cap is"):
        calibrate_sum(1.0, 1e-6, 100, epsilon_local_cap=0.0)


DESIGNS = [histogram_design(16), Design(Number("value", 0.0, 1.0, optional=True, weight=2.0))]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cap", [None, 6.0])
def test_several_queries_together_stay_within_the_budget(cap: float | None) -> None:
    found = calibrate(DESIGNS, 1.0, 1e-6, 18_000, epsilon_local_cap=cap)
    composed = compose([Part(each.mechanism, 18_000) for each in found], 1e-6)
    assert composed.epsilon_upper <= 1.0
    assert cap is None or sum(each.epsilon_local for each in found) <= cap
    assert [each.mechanism.categories - each.size for each in found] == [0, 1]
    assert found[0].size == 16
    if cap is None:
        assert composed.epsilon_upper > 0.99


def test_several_queries_may_share_the_largest_epsilon() -> None:
    found = calibrate(DESIGNS, 100.0, 1e-6, 10, epsilon_local_cap=16.0)
    assert sum(each.epsilon_local for each in found) <= 16.0


def test_one_query_gets_the_whole_budget() -> None:
    (found,) = calibrate(DESIGNS[:1], 1.0, 1e-6, 18_000)
    assert found == calibrate_histogram(16, 1.0, 1e-6, 18_000)


def test_impossible_queries_are_refused() -> None:
    with pytest.raises(AccountingError, match="there are no queries"):
        calibrate([], 1.0, 1e-6, 100)
    with pytest.raises(AccountingError, match="weight is"):
        calibrate([Design(Number("value", 0.0, 1.0, weight=0.0))], 1.0, 1e-6, 100)
    with pytest.raises(AccountingError, match="a histogram needs --categories"):
        question_for("histogram", None, False, "krr")
    with pytest.raises(AccountingError, match="a sum takes none"):
        question_for("sum", 4, False, "krr")
    with pytest.raises(AccountingError, match="categories is 1"):
        question_for("histogram", 1, False, "krr")


def written(numerator: int, denominator: int) -> Fraction:
    """A probability as a task writes it, over 2³²: the errors are those of what is drawn."""
    return Fraction(numerator * GAMMA_DENOMINATOR // denominator, GAMMA_DENOMINATOR)


def debiased_variance(gamma: Fraction, symbols: int, levels: int, truth: dict[int, Fraction]) -> Fraction:
    """Variance of one debiased report, enumerated over the symbol before and after kRR; symbol levels+1 is worth 0."""
    worth = [Fraction(j, levels) if j <= levels else Fraction(0) for j in range(symbols)]
    law = [gamma / symbols + (1 - gamma) * truth.get(j, Fraction(0)) for j in range(symbols)]
    mean = sum((p * w for p, w in zip(law, worth, strict=True)), Fraction(0))
    second = sum((p * w * w for p, w in zip(law, worth, strict=True)), Fraction(0))
    return (second - mean**2) / (1 - gamma) ** 2


@pytest.mark.sampled(6)
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("levels", [1, 2, 7])
@pytest.mark.parametrize(
    "gamma", [written(1, 50), written(2, 5), written(9, 10)], ids=lambda gamma: f"{float(gamma):.2g}"
)
def test_worst_case_error_of_a_sum_is_the_maximum_over_all_inputs(gamma: Fraction, levels: int, optional: bool) -> None:
    symbols = levels + (2 if optional else 1)
    grid = 400 * levels
    variances = [debiased_variance(gamma, symbols, levels, {levels + 1: Fraction(1)})] if optional else []
    for cell, part in product(range(levels), range(0, 401, 4)):
        f = Fraction(part * levels, grid)
        variances.append(debiased_variance(gamma, symbols, levels, {cell: 1 - f, cell + 1: f}))
    found = sum_mse(KRR(symbols, gamma), levels, 1, optional=optional)
    assert float(max(variances)) <= found * (1 + 1e-12)
    assert found <= float(max(variances)) * (1 + 1e-3)


def test_worst_case_error_of_a_histogram_is_the_maximum_over_counts() -> None:
    mechanism = KRR(5, written(1, 3))
    q, r = mechanism.truthful, mechanism.other
    exact = max((c * q * (1 - q) + (10 - c) * r * (1 - r)) / (1 - mechanism.gamma) ** 2 for c in range(11))
    assert histogram_mse(mechanism, 10) == pytest.approx(float(exact), rel=1e-12)
    assert histogram_mse(mechanism, 10, 3) > histogram_mse(mechanism, 10)


class OneOfTwo(Design):
    """A histogram through unary encoding of two families, of which the first never gives enough privacy."""

    def families(self, size: int) -> Sequence[RandomizerFamily]:
        first, second = super().families(size)
        return Weak(first.at(1)), second


@dataclass(frozen=True)
class Weak:
    only: Randomizer

    def at(self, noise_level: int) -> Randomizer:  # noqa: ARG002 - no noise level helps
        return self.only


def test_a_family_that_cannot_meet_the_target_leaves_the_others() -> None:
    question = question_for("histogram", 3, False, "unary")
    (found,) = calibrate([OneOfTwo(question)], 1.0, 1e-6, 10_000)
    assert found.epsilon_upper <= 1.0
    assert isinstance(found.randomizer, UnaryEncoding)
    assert found.randomizer.truthful + found.randomizer.other == GAMMA_DENOMINATOR


@given(fall=st.integers(0, 40), sizes=st.integers(1, 60), ripples=st.lists(st.integers(0, 3), min_size=60, max_size=60))
def test_a_size_is_found_though_larger_errors_are_not_known(fall: int, sizes: int, ripples: list[int]) -> None:
    """An error above the least one so far may be any number above it: the path to the least is the same."""
    errors = [10 + abs(size - fall) + ripple for size, ripple in enumerate(ripples)]

    def known(size: int, most: float) -> float:
        return errors[size] if errors[size] <= most else most + 0.5

    assert best_size(known, range(sizes)) == best_size(lambda size, _: errors[size], range(sizes))


@pytest.mark.parametrize("randomizer", ["krr", "unary", "hashed"])
def test_a_search_ends_at_a_level_that_is_beaten_and_else_where_it_would_end(randomizer: str) -> None:
    target = Target.of(1.0, 1e-6, 5000, 8.0, 1.0, 0)
    family = Design(question_for("histogram", 5, False, randomizer)).families(5)[0]
    search = search_of(family)
    level = search.quick(family, target, lambda _: False)
    assert search.quick(family, target, lambda found: found > level) == level
    beaten = search.quick(family, target, lambda found: found > level // 2)
    assert level // 2 < beaten < level


@pytest.mark.parametrize(
    "question",
    [
        question_for("histogram", 5, False, "krr"),
        Number("value", 0.0, 1.0, optional=True),
        Distribution("value", (0.0, 1.0, 2.0, 5.0, 9.0)),
        Variance("value", 0.0, 1.0),
    ],
    ids=lambda question: question.kind,
)
@pytest.mark.parametrize("randomizer", RANDOMIZERS)
def test_errors_rise_with_the_level_of_noise(question: Any, randomizer: str) -> None:
    """The search for a size or a family relies on it: it leaves those that are beaten at a level that is too low."""
    design = Design(replace(question, randomizer=randomizer))
    for family in design.families(design.sizes[0])[::9]:
        levels = [int(NOISE_LEVELS * share) for share in (1e-6, 1e-3, 0.02, 0.1, 0.3, 0.6, 0.9, 0.99)]
        errors = [design.mse(design.sizes[0], family.at(level), 1000, 10) for level in levels]
        assert errors == sorted(errors)


def test_a_local_epsilon_is_compared_to_the_last_digit() -> None:
    for mechanism in (KRR.from_numerator(5, 10**9), KRR.from_numerator(2, 1), KRR.from_local_epsilon(3, 2.0)):
        local = mechanism.epsilon_local
        assert is_within(mechanism, local)
        assert not is_within(mechanism, nextafter(local, 0.0))


def test_a_share_to_plan_for_changes_the_error_though_the_question_is_the_same() -> None:
    """The share is no part of a question, so two designs that are equal may have different errors."""
    names = tuple(map(str, range(16)))
    (worst,) = calibrate([Design(Histogram("theme", names))], 1.0, 1e-6, 100_000)
    (usual,) = calibrate([Design(Histogram("theme", names, share=0.01))], 1.0, 1e-6, 100_000)
    assert usual.expected_standard_error < worst.expected_standard_error
