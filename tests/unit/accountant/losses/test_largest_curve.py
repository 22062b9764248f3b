"""The largest curve of binary randomized response: its blocks cover every number of ones, and lose little."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant.composition import compose
from hubbub.accountant.losses import largest_curve
from hubbub.accountant.losses.largest_curve import _edges, two_rr_grid
from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.pairs import Part


def ones(chances: list[Fraction]) -> list[Fraction]:
    found = [Fraction(1)]
    for chance in chances:
        found = [stay * (1 - chance) + come * chance for stay, come in zip([*found, 0], [0, *found], strict=True)]
    return found


def worst(mechanism: KRR, reports: int, dummies: int, epsilon: float) -> Fraction:
    """The largest divergence over all numbers of ones among the others, exactly."""
    power, coins = Fraction(exp_decimal(epsilon)) if epsilon else Fraction(1), [Fraction(1, 2)] * dummies
    found = Fraction(0)
    for held in range(reports):
        others = [mechanism.truthful] * held + [mechanism.other] * (reports - 1 - held) + coins
        p, q = ones([*others, mechanism.truthful]), ones([*others, mechanism.other])
        for one, two in ((p, q), (q, p)):
            over = (a - power * b for a, b in zip(one, two, strict=True))
            found = max(found, sum((max(Fraction(0), each) for each in over), Fraction(0)))
    return found


@pytest.mark.parametrize(("reports", "dummies"), [(2, 0), (9, 0), (25, 0), (7, 3)])
@pytest.mark.parametrize("local", [0.3, 2.0])
def test_wide_blocks_are_never_below_the_exact_divergence(
    monkeypatch: pytest.MonkeyPatch, reports: int, dummies: int, local: float
) -> None:
    """As if so few people were many: blocks of their own at each ε, several people wide."""
    monkeypatch.setattr(largest_curve, "ALIKE", 0)
    monkeypatch.setattr(largest_curve, "BLOCKS", 4)
    monkeypatch.setattr(largest_curve, "NARROWEST", 8)
    mechanism = KRR(2, KRR.from_local_epsilon(2, local).gamma.limit_denominator(1000))
    grid = two_rr_grid(mechanism, reports, dummies, 30.0)
    for share in (0.0, 0.05, 0.3, 0.7, 0.95):
        epsilon = share * mechanism.epsilon_local
        assert grid.delta(epsilon) >= float(worst(mechanism, reports, dummies, epsilon)) * (1 - 1e-12)


@pytest.mark.parametrize("reports", [1, 2, 1000, 10**5, 10**9])
@pytest.mark.parametrize("spread", [1e-6, 1e-3, 3.0])
@pytest.mark.parametrize("away", [0.0, 0.3, 1.0, 5.0, 40.0])
def test_blocks_cover_all_numbers_of_ones_and_are_few(reports: int, spread: float, away: float) -> None:
    edges = _edges(reports, spread, away)
    assert (edges[0], edges[-1]) == (0, reports)
    assert np.all(np.diff(edges) >= 1)
    assert np.all(edges == np.floor(edges))
    assert len(edges) <= 2 * largest_curve.BLOCKS + 3


@pytest.mark.parametrize("reports", [10**5, 10**6])
def test_a_hundred_rounds_are_within_a_thousandth_of_an_attack(reports: int) -> None:
    found = compose([Part(KRR.from_local_epsilon(2, 1.0), reports, 100)], 1e-6)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon_upper <= 1.001 * found.epsilon_lower
