"""Rounds of real attacks by exact binomial sums, and Rényi divergences of the pairs by high precision."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.signal import fftconvolve

from hubbub.accountant.composition import compose_delta
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.renyi import rdp_lower, rdp_upper

Law = np.ndarray[tuple[int], np.dtype[np.float64]]
STEP = 5e-4
"""Losses of one round are rounded to it, down and up."""

ROUNDING = 1e-13
"""More than a transform's rounding, in a δ of at most 1."""


def ones(reports: int, holding: int, other: float) -> Law:
    """The law of the number of ones in the batch, `holding` of its people holding a one."""
    law = np.ones(1)
    for person in range(reports):
        law = np.convolve(law, [other, 1 - other] if person < holding else [1 - other, other])
    return law


def composed(rounds: list[tuple[Law, Law]], epsilon: float) -> tuple[float, float]:
    """Return δ of the rounds together, below and above: losses rounded down, then up."""
    ends = []
    for rounding in (np.floor, np.ceil):
        total, first = np.ones(1), 0
        for p, q in rounds:
            places = rounding(np.log(p / q) / STEP).astype(int)
            first += int(places.min())
            total = fftconvolve(total, np.bincount(places - places.min(), p))
        losses = (first + np.arange(len(total))) * STEP
        ends.append(float(total @ -np.expm1(np.minimum(epsilon - losses, 0))))
    return ends[0], ends[1]


@pytest.mark.parametrize("epsilon_local", [0.5, 2.0])
def test_binary_rounds_cover_others_who_hold_something_else_each_round(epsilon_local: float) -> None:
    reports, rounds = 40, 4
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    other = float(mechanism.other)
    held = [(0, 0, 0, 0), (20, 20, 20, 20), (0, 10, 20, 39), (1, 2, 1, 2), (39, 0, 39, 0)]
    for epsilon in (0.1, 0.3, 1.0):
        bracket = compose_delta([Part(mechanism, reports, rounds)], epsilon)
        for numbers in held:
            run = [(ones(reports, number, other), ones(reports, number + 1, other)) for number in numbers]
            for views in (run, [(q, p) for p, q in run]):
                assert composed(views, epsilon)[0] <= bracket.delta_upper + ROUNDING
        zeros = [(ones(reports, 0, other), ones(reports, 1, other))] * rounds
        assert bracket.delta_lower is not None
        assert 0 < bracket.delta_lower <= composed(zeros, epsilon)[1] + ROUNDING


def blanket_renyi(reports: int, categories: int, gamma: Fraction, order: float) -> float:
    """Rényi divergence of the blanket pair, all outcomes, 40 digits."""
    with mpmath.workdps(40):
        g, total = mpmath.mpf(gamma.numerator) / gamma.denominator, mpmath.mpf(0)
        for shown in range(1, reports + 1):
            blankets = shown - 1
            weight = mpmath.binomial(reports - 1, blankets) * g**blankets * (1 - g) ** (reports - shown)
            for first in range(shown + 1):
                for second in range(shown - first + 1):
                    rest = shown - first - second
                    if rest and categories == 2:
                        continue
                    ways = mpmath.binomial(shown, first) * mpmath.binomial(shown - first, second)
                    mass = weight * ways * mpmath.mpf(categories - 2) ** rest / mpmath.mpf(categories) ** shown
                    p, q = (g + (1 - g) * categories * mpmath.mpf(count) / shown for count in (first, second))
                    total += mass * p**order * q ** (1 - mpmath.mpf(order))
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize("order", [1.01, 2.0, 19.0, 500.0])
@pytest.mark.parametrize(("reports", "categories", "gamma"), [(12, 3, "1/2"), (12, 50, "1/8")])
def test_renyi_upper_covers_the_pair_and_lower_stays_below(
    reports: int, categories: int, gamma: str, order: float
) -> None:
    mechanism = KRR(categories, Fraction(gamma))
    exact = blanket_renyi(reports, categories, mechanism.gamma, order)
    upper, lower = rdp_upper(mechanism, reports, order), rdp_lower(mechanism, reports, order)
    assert lower is not None
    assert lower <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= upper
    too_large = order * mechanism.epsilon_local > 690  # there the local ε answers
    assert upper == mechanism.epsilon_local if too_large else upper <= exact * (1 + 1e-6)
