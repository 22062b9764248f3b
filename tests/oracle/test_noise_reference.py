"""Noise of the shuffler, against divergences that were computed in fractions by other code."""

from __future__ import annotations

from fractions import Fraction
from math import log

import pytest

from hubbub.accountant.bounds import delta_bracket
from hubbub.accountant.composition import compose_delta
from hubbub.accountant.mechanisms import KRR, WithNoise
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part

NEARLY_PLAIN = Fraction(1, 2**60)
"""A γ so small that only the noise hides anyone."""

ALONE = [
    # Categories, ratio, reach, ε, δ, variance of one count.
    (3, "3/5", 25, 0.5, 0.15877476712540262, 7.498395462198),
    (3, "3/5", 25, 1.0, 0.008368027496585212, 7.498395462198),
    (3, "3/5", 25, 1.03, 1.4215169273797858e-06, 7.498395462198),
    (3, "4/5", 60, 0.2, 0.06737755056536185, 39.99427186441984),
    (3, "4/5", 60, 0.45, 3.4055499955271027e-07, 39.99427186441984),
    (2, "2/5", 20, 0.5, 0.24322249765175913, 2.222219279719657),
    (2, "2/5", 20, 0.92, 4.712192720074918e-09, 2.222219279719657),
]

COMPOSED = [
    # Categories, ratio, reach, rounds, ε, δ.
    (3, "3/5", 25, 4, 1.0, 0.2778546417713565),
    (3, "3/5", 25, 4, 2.0, 0.10357504869227828),
    (3, "3/5", 25, 4, 3.0, 0.02246226525933361),
    (3, "4/5", 60, 16, 1.0, 0.22606140384629012),
    (3, "4/5", 60, 16, 2.0, 0.07152211913546394),
    (3, "4/5", 60, 16, 4.0, 0.0010387875096552748),
    (3, "9/10", 120, 16, 0.5, 0.08451173575313216),
    (3, "9/10", 120, 16, 1.0, 0.01812925594597462),
    (3, "9/10", 120, 16, 2.0, 0.00011744586150412554),
    (3, "2/3", 12, 2, 0.5, 0.18482626476328648),
    (3, "2/3", 12, 2, 1.0, 0.06583024020968517),
    (3, "2/3", 12, 2, 1.7, 0.006189711918211787),
    (2, "2/5", 20, 8, 1.0, 0.7017306280338149),
    (2, "2/5", 20, 8, 3.0, 0.4133383315113156),
]

BESIDE = [
    # Categories, γ, ratio, reach, ε, the exact δ, that if the report's being neither is told, and that of the total
    # variation times the noise's pair.
    (3, "1/4", "3/5", 6, 0.3, 0.1422538456705334, 0.14918614795594223, 0.16500307144391071),
    (3, "1/2", "1/2", 5, 0.8, 0.004735114535843526, 0.006258937799379594, 0.10707645810993315),
    (3, "1/10", "2/3", 7, 1.0, 0.019884895676627417, 0.02057110655855298, 0.02196922983288983),
]


ROUNDED = 1e-7
"""A law's ratio is a multiple of 2^-32: that moves these δ by so much of themselves, up or down."""


def is_reached(delta: float, upper: float, slack: float) -> bool:
    return delta * (1 - ROUNDED) <= upper <= delta * (1 + ROUNDED + slack)


@pytest.mark.parametrize(("categories", "ratio", "reach", "epsilon", "delta", "variance"), ALONE)
def test_noise_alone_has_the_divergence_of_the_reference(
    categories: int, ratio: str, reach: int, epsilon: float, delta: float, variance: float
) -> None:
    law = NoiseLaw.of("geometric", Fraction(ratio), reach)
    assert float(law.variance) == pytest.approx(variance, rel=1e-8)
    assert is_reached(delta, delta_bracket(WithNoise(KRR(categories, NEARLY_PLAIN), law), 1, epsilon).delta_upper, 1e-9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("categories", "ratio", "reach", "rounds", "epsilon", "delta"), COMPOSED)
def test_composed_noise_has_the_divergence_of_the_reference(
    categories: int, ratio: str, reach: int, rounds: int, epsilon: float, delta: float
) -> None:
    mechanism = WithNoise(KRR(categories, NEARLY_PLAIN), NoiseLaw.of("geometric", Fraction(ratio), reach))
    assert is_reached(delta, compose_delta([Part(mechanism, 1, rounds)], epsilon).delta_upper, 1e-5)


@pytest.mark.parametrize(
    ("categories", "gamma", "ratio", "reach", "epsilon", "exact", "told", "times_variation"), BESIDE
)
def test_noise_beside_krr_has_the_divergence_of_the_reference(
    categories: int,
    gamma: str,
    ratio: str,
    reach: int,
    epsilon: float,
    exact: float,
    told: float,
    times_variation: float,
) -> None:
    mechanism = WithNoise(KRR(categories, Fraction(gamma)), NoiseLaw.of("geometric", Fraction(ratio), reach))
    found = delta_bracket(mechanism, 1, epsilon)
    assert is_reached(exact, found.delta_upper, 1e-9)
    assert found.delta_upper < told < times_variation
    assert found.delta_lower is not None
    assert found.delta_lower <= exact * (1 + ROUNDED)
    assert is_reached(found.delta_lower, exact, 1e-4)


@pytest.mark.parametrize(
    ("ratio", "reach"),
    [("1/2", 5), ("1/2", 20), ("4/5", 5), ("4/5", 40), ("4/5", 90), ("19/20", 5), ("19/20", 40), ("19/20", 400)],
)
@pytest.mark.parametrize("categories", [3, 16])
def test_geometric_noise_alone_has_the_closed_form_of_its_ends(categories: int, ratio: str, reach: int) -> None:
    """From ε = 2·ln(1/q) on, only what the other answer cannot show counts: an empty symbol, or one that is too full.

    That is the argument for the two-sided geometric law in arXiv 2504.07362, with all reports kept. There the law has
    one end, so a symbol that is empty is all of δ, and δ is stated twice as large, as two counts compose.
    """
    law = NoiseLaw.of("geometric", Fraction(ratio), reach)
    q = Fraction(law.parameter, 2**32)
    end = q**reach * (1 - q) / (1 + q - 2 * q ** (reach + 1))
    epsilon = -2 * log(q) * (1 + 1e-12)
    exact = float(1 - (1 - end) ** 2)
    found = delta_bracket(WithNoise(KRR(categories, NEARLY_PLAIN), law), 1, epsilon)
    assert is_reached(exact, found.delta_upper, 1e-9)
    one_end = q**reach * (1 - q) / (1 + q - q ** (reach + 1))
    assert found.delta_upper <= 2 * float(one_end) * (1 + 2 * float(q) ** reach)
