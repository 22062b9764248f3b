"""The law of what all other symbols tell: a spread above the exact one, a contraction below it, and no mean is lost."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.divergence.noise_atoms import (
    delta_near,
    dominated_atoms,
    dominating_atoms,
    order_above,
    order_below,
    others_above,
    others_below,
)
from hubbub.accountant.divergence.other_symbols import OtherSymbols, contracted_sum, spread_sum
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise
from hubbub.accountant.rigorous.other_symbols import MASS_BITS, SUM_BITS, other_symbols
from support.noise_pairs import coordinate_of, others_of

LAWS = [
    NoiseLaw("geometric", 2**31, 4),
    NoiseLaw("geometric", 2**29, 3),
    NoiseLaw.of("geometric", Fraction(3, 5), 27),
    NoiseLaw("gaussian", 3 * 2**31, 3),
]
CASES = [(law, categories) for law in LAWS for categories in (3, 4, 6)]


def exact_law(law: NoiseLaw, categories: int) -> dict[Fraction, Fraction]:
    return others_of(coordinate_of(WithNoise(KRR(categories, Fraction(1, 2)), law)), categories - 2)


def shortfalls(values: np.ndarray, masses: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The mean of (limit − S)₊: every hockey stick is a mean of these."""
    found: np.ndarray = (np.maximum(limits[:, None] - values, 0.0) * masses).sum(1)
    return found


def as_arrays(law: Mapping[Fraction, Fraction]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([float(each) for each in law]), np.array([float(each) for each in law.values()])


def mean_of(found: OtherSymbols) -> float:
    return float((found.values * found.masses).sum())


@pytest.mark.parametrize(("law", "categories"), CASES)
def test_a_spread_is_above_the_exact_law_and_a_contraction_below_it(law: NoiseLaw, categories: int) -> None:
    values, masses = as_arrays(exact_law(law, categories))
    limits = np.linspace(0, values.max() * 1.1, 200)
    truth = shortfalls(values, masses, limits)
    above, below = others_above(law, categories), others_below(law, categories)
    upper, lower = (shortfalls(each.values, each.masses, limits) for each in (above, below))
    assert (upper >= truth * (1 - 1e-12)).all()
    assert (lower <= truth * (1 + 1e-12) + 1e-15).all()
    # Both are close to the truth, and they differ.
    assert (upper <= truth + 2e-3).all()
    assert upper.sum() > lower.sum()


@pytest.mark.parametrize(("law", "categories"), CASES)
def test_no_mean_is_lost_but_that_of_a_top_count(law: NoiseLaw, categories: int) -> None:
    mean = (categories - 2) * (1 - law.weights[-1] / 2**128)
    for found in (others_above(law, categories), others_below(law, categories)):
        assert found.masses.sum() == pytest.approx(1, abs=1e-11)
        assert mean_of(found) == pytest.approx(mean, rel=1e-10)


@pytest.mark.parametrize("terms", [1, 2, 7, 14, 998, 40_000])
@pytest.mark.parametrize("most", [3, 9, 40, 513])
def test_a_sum_of_many_keeps_its_mean_in_few_points(terms: int, most: int) -> None:
    one = coordinate_of(WithNoise(KRR(3, Fraction(1, 2)), LAWS[2]))
    p, q = (np.array([float(each[side]) for each in one]) for side in (0, 1))
    top = float(LAWS[2].weights[-1] / 2**128)
    half = float(q[len(q) // 2 :].sum())
    above = spread_sum(p, q, terms, most)
    ratio = 1.5
    below = contracted_sum(((1 - top - half * ratio) / (1 - half), ratio), half, terms, most)
    for found in (above, below):
        assert len(found.values) <= most + 1
        assert (found.masses > 0).all()
        assert found.masses.sum() == pytest.approx(1, rel=1e-8)
        assert mean_of(found) == pytest.approx(terms * (1 - top), rel=1e-8)
    # Fewer points are a wider spread, or less that is told.
    limits = np.linspace(0, 2 * terms, 100)
    upper, lower = spread_sum(p, q, terms, 10**6), contracted_sum((0.5, ratio), half, terms, 10**6)
    assert (
        shortfalls(above.values, above.masses, limits)
        >= shortfalls(upper.values, upper.masses, limits) * (1 - 1e-8) - 1e-12
    ).all()
    fewest = contracted_sum((0.5, ratio), half, terms, most)
    assert (
        shortfalls(fewest.values, fewest.masses, limits)
        <= shortfalls(lower.values, lower.masses, limits) * (1 + 1e-8) + 1e-9
    ).all()


@pytest.mark.parametrize("most", [8, 10**6])
@pytest.mark.parametrize(("law", "categories"), CASES)
def test_whole_numbers_are_a_spread_and_an_attack_too(law: NoiseLaw, categories: int, most: int) -> None:
    exact = exact_law(law, categories)
    found = other_symbols(law, categories - 2, most)
    above, below = (
        [(Fraction(at, 2**SUM_BITS), Fraction(mass, 2**MASS_BITS)) for at, mass in each]
        for each in (found.spread, found.gathered)
    )
    excess = Fraction(found.excess, 2**MASS_BITS)
    assert 1 <= sum(mass for _, mass in above) <= 1 + Fraction(1, 10**15)
    assert 0 <= excess <= Fraction(1, 10**15)
    for part in range(1, 20):
        limit = max(exact) * Fraction(part, 19)
        upper, truth, lower = (
            sum(mass * max(Fraction(0), limit - value) for value, mass in law_of)
            for law_of in (above, exact.items(), below)
        )
        assert lower - excess * limit <= truth <= upper


@pytest.mark.parametrize(("law", "others"), [("0.6053", 14), ("0.6053", 998), ("0.3", 9998)])
def test_counts_of_nearly_one_ratio_are_not_taken_for_counts_of_0(law: str, others: int) -> None:
    """Floats sort them wrongly. Those below the lattice were laid at 0, and masses added up to 10²⁵."""
    found = other_symbols(NoiseLaw.of("geometric", Fraction(law), 27 if others < 9000 else 2), others, 40)
    assert sum(mass for _, mass in found.spread) <= 2 << MASS_BITS
    if others < 9000:
        assert Fraction(sum(mass for at, mass in found.spread if at == 0), 2**MASS_BITS) < Fraction(1, 10**9)


def test_two_symbols_have_no_others() -> None:
    law = LAWS[0]
    for found in (others_above(law, 2), others_below(law, 2)):
        assert (found.values.tolist(), found.masses.tolist()) == ([0.0], [1.0])


@pytest.mark.parametrize("local", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("categories", [3, 16, 1000])
def test_quick_sums_and_atoms_are_of_the_same_pairs(categories: int, local: float) -> None:
    krr, law = KRR.from_local_epsilon(categories, local), NoiseLaw.of("gaussian", Fraction(36), 37)
    for atoms, order in ((dominating_atoms, order_above), (dominated_atoms, order_below)):
        pair = atoms(krr, law, False)
        for share in (0.05, 0.3, 0.9):
            rate = float(np.expm1(share * local))
            whole = sum(float(np.maximum(part.gap - rate * part.q, 0.0).sum()) for part in pair.parts)
            low, high = delta_near(krr, order(law, categories), share * local)
            assert low <= whole * (1 + 1e-12) + 1e-15
            assert whole <= high * (1 + 1e-12) + 1e-15
