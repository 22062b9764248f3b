"""Lines of the papers that must not be copied: each, as printed, claims more privacy than there is, or is not proven.

docs/explanation/bounds.md quotes these numbers.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, floor, log, log1p, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import binom, norm

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.renyi import converted, interpolated
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import amplification
from hubbub.accountant.pairs.renyi import rdp_lower, rdp_upper
from support.thoroughness import spread

BINARY = KRR.from_local_epsilon(2, 1.0)


def phi(u: float) -> float:
    return (1 + u) * log1p(u) - u


def positive_sum(mechanism: KRR, draws: int, epsilon: float) -> float:
    """E[(L₁ + … + L_m)₊] of kRR, from the counts of the victim's two values, all but 1e-20 of them."""
    gamma, k = float(mechanism.gamma), mechanism.categories
    total = 0.0
    for hits, chance in enumerate(binom.pmf(np.arange(draws + 1), draws, 2 / k)):
        if chance > 1e-25:
            first = np.arange(hits + 1)
            value = draws * gamma * -expm1(epsilon) + (1 - gamma) * k * (first - exp(epsilon) * (hits - first))
            total += chance * float(binom.pmf(first, hits, 0.5) @ np.maximum(value, 0.0))
    return total


def test_bennett_as_printed_is_below_the_exact_value_and_as_derived_above() -> None:
    mechanism, draws, epsilon = KRR.from_local_epsilon(4, 1.0), 2000, 0.1
    known, a = amplification(mechanism, epsilon), expm1(epsilon)
    b, c = known.highest, known.second_moment
    derived = b / log1p(a * b / c) * exp(-draws * c / b**2 * phi(a * b / c))
    exact = positive_sum(mechanism, draws, epsilon)
    assert exact == pytest.approx(4.900e-7, rel=1e-3)
    assert derived / (a * draws) == pytest.approx(8.92e-8, rel=1e-3)
    assert derived == pytest.approx(1.876e-5, rel=1e-3)


def test_similarity_of_gaussian_noise_is_the_tail_below_minus_a_half() -> None:
    """σ = 1: ∫ min over x in [0, 1] of the densities, which the ends 0 and 1 attain."""
    overlap, _ = quad(lambda y: min(norm.pdf(y), norm.pdf(y - 1)), -12, 13, limit=400, points=[0.5])
    assert overlap == pytest.approx(2 * norm.cdf(-0.5), rel=1e-8)
    assert overlap == pytest.approx(0.617, abs=1e-3)
    assert 2 * norm.sf(-0.5) == pytest.approx(1.383, abs=1e-3)


def test_reports_are_true_with_the_complement_of_gamma() -> None:
    truthful = KRR(4, Fraction(1, 4)).law(0)[0]
    assert truthful == Fraction(3, 4) + Fraction(1, 16)
    assert Fraction(1, 4) + Fraction(3, 4) / 4 == Fraction(7, 16) != truthful


def test_generic_hoeffding_with_gamma_in_the_range_too_is_below_an_attack() -> None:
    people, local, epsilon = 20_000, 2.5, 0.15
    gamma, a = exp(-local), expm1(epsilon)
    width = gamma * (exp(epsilon) + 1) * (exp(local) - exp(-local))
    mixed = (1 - gamma * -expm1(-2 * (a / width) ** 2)) ** people * width**2 / (4 * a) / (gamma * people)
    attack = BOUNDS["krr-lower"].delta(Generic(local), people, epsilon)[0]
    assert mixed == pytest.approx(3.80e-11, rel=1e-2)
    assert attack == pytest.approx(1.364e-9, rel=1e-3)
    for name in ("balle-hoeffding", "balle-bennett", "balle-generic"):
        assert CATALOG[name].delta(Generic(local), people, epsilon)[0] > attack


def test_simplified_renyi_bound_needs_its_proofs_second_condition() -> None:
    """n = 150, ε₀ = 1e-4, λ = 2 meets the printed condition; the (5) it simplifies is 30 times larger."""
    people, local, order = 150, 1e-4, 2
    assert order**4 * exp(5 * local) < people / 9
    printed = log1p(4 * expm1(local) ** 2 / people)
    whole = CATALOG["girgis-upper-1"].rdp(Generic(local), people, order)
    assert printed == pytest.approx(2.667e-10, rel=1e-3)
    assert whole == pytest.approx(8.302e-9, rel=1e-3)
    with pytest.raises(OutsideConditions, match=r"by \(47\)"):
        CATALOG["girgis-simplified"].rdp(Generic(local), people, order)


def test_first_renyi_bound_with_half_the_order_as_coefficient_is_below_the_truth() -> None:
    people, local, order = 10**9, 1.0, 10
    e, crowd = exp(local), floor((10**9 - 1) / (2 * exp(local))) + 1
    x = (e - 1 / e) ** 2 / 2 / crowd
    choose = [gammaln(order + 1) - gammaln(i + 1) - gammaln(order - i + 1) for i in range(3, order + 1)]
    rest = sum(exp(c + log(i) + gammaln(i / 2) + i / 2 * log(x)) for i, c in enumerate(choose, 3))
    printed = log1p(order / 2 * (e - 1) ** 2 / (crowd * e)) / (order - 1) + rest
    truth = rdp_lower(BINARY, people, order)
    assert truth is not None
    assert printed == pytest.approx(3.9e-9, rel=0.05)
    assert truth == pytest.approx(5.43e-9, rel=1e-2)
    assert truth < CATALOG["girgis-upper-1"].rdp(BINARY, people, order)


def test_second_renyi_bound_as_stored_is_zero_where_there_is_a_divergence() -> None:
    people, local, order = 10_000, 1.0, 10
    rare = exp(local * order - (people - 1) / (8 * local))
    printed = log(exp(order**2 * (local - 1) ** 2 / people) + rare) / (order - 1)
    truth = rdp_lower(BINARY, people, order)
    assert truth is not None
    assert printed == 0.0
    assert truth == pytest.approx(5.4348e-4, rel=1e-4)
    assert truth < CATALOG["girgis-upper-2"].rdp(BINARY, people, order)


def test_real_orders_with_floor_and_ceiling_swapped_fall_below_the_truth() -> None:
    def divergence(order: float) -> float:
        return rdp_lower(BINARY, 10_000, order) or 0.0

    order, swapped = 2.9, (0.9 * divergence(2) + 0.1 * 2 * divergence(3)) / 1.9
    assert swapped == pytest.approx(6.861e-5, rel=1e-3)
    assert divergence(order) == pytest.approx(1.5753e-4, rel=1e-3)
    assert divergence(order) <= interpolated(divergence, order)


@pytest.mark.parametrize("categories", [10, 100])
def test_renyi_lower_bounds_of_binary_response_do_not_hold_for_more_categories(categories: int) -> None:
    many = KRR.from_local_epsilon(categories, 1.0)
    assert rdp_upper(many, 10_000, 10) < CATALOG["girgis-lower-simple"].rdp(Generic(1.0), 10_000, 10)
    for name in ("girgis-lower", "girgis-lower-simple"):
        with pytest.raises(OutsideConditions, match="2 categories"):
            CATALOG[name].rdp(many, 10_000, 10)


def test_converting_a_renyi_lower_bound_gives_no_lower_bound_on_epsilon() -> None:
    people, delta = 10_000, 1e-6
    below = CATALOG["girgis-lower"]
    least = min(converted(below.rdp(BINARY, people, order), order, delta) for order in spread(range(2, 690), 100))
    certified = BOUNDS["2rr"].epsilon(BINARY, people, delta).upper
    assert certified == pytest.approx(0.03566, rel=1e-3)
    assert least == pytest.approx(0.03822, rel=1e-3)
    assert least > certified


def test_second_renyi_bound_is_asked_below_order_two_only_by_the_chord() -> None:
    bound = CATALOG["girgis-upper-2"]
    assert bound.rdp(BINARY, 10_000, 2) <= bound.rdp(BINARY, 10_000, 1.5) <= bound.rdp(BINARY, 10_000, 2) * (1 + 1e-12)


def test_advanced_composition_covers_the_exact_composition_of_binary_response() -> None:
    """T rounds of one report each, ε₀ = 0.3: the exact δ from the binomial law of losses."""
    from hubbub.accountant.bounds.renyi import advanced

    rounds, local = 40, 0.3
    for slack in (1e-2, 1e-6):
        epsilon = advanced(local, rounds, slack)
        hits = np.arange(rounds + 1)
        losses = local * (2 * hits - rounds)
        p = binom.pmf(hits, rounds, exp(local) / (1 + exp(local)))
        assert float(p @ np.maximum(-np.expm1(epsilon - losses), 0.0)) <= slack
        assert epsilon < rounds * local + sqrt(rounds)


def test_the_variation_ratio_bound_is_below_an_attack_on_few_reports() -> None:
    """kRR, k = 3, ε₀ = 1, n = 30: 28 others hold the victim's second value and one the third, counted exactly."""
    mechanism, people, delta = KRR.from_local_epsilon(3, 1.0), 30, 1e-7
    variation_ratio = 0.8087
    second, third = np.array(mechanism.law(1), float), np.array(mechanism.law(2), float)
    view = np.zeros((people + 1, people + 1))
    view[0, 0] = 1.0
    for law in [second] * 28 + [third]:
        view = with_report(view, law)
    p, q = with_report(view, second), with_report(view, np.array(mechanism.law(0), float))
    needed = brentq(lambda epsilon: np.maximum(p - exp(epsilon) * q, 0.0).sum() - delta, 0.5, 0.95)
    assert needed == pytest.approx(0.87050, abs=1e-5)
    assert variation_ratio < needed
    found = epsilon_bracket(mechanism, people, delta)
    assert found.epsilon_lower is not None
    assert needed <= found.epsilon_lower == pytest.approx(0.87923, abs=1e-5)
    assert found.epsilon_upper == pytest.approx(0.8866, abs=1e-4)


def with_report(view: np.ndarray, law: np.ndarray) -> np.ndarray:
    """Counts of the first two values, and one more report."""
    grown = view * law[2]
    grown[1:] += law[0] * view[:-1]
    grown[:, 1:] += law[1] * view[:, :-1]
    return grown
