"""Balls of the proof mode against exact sums over all outcomes, in rational arithmetic: both ends, at small n."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from math import comb

import pytest

from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.rigorous.balls import Enclosure, ball, cut, precision, window, written
from hubbub.accountant.rigorous.blanket import blanket_delta
from hubbub.accountant.rigorous.tails import BinomialTail
from hubbub.accountant.rigorous.two_rr import Effort, two_rr_delta

TINY = Fraction(1, 10**30)
ALL = Effort(10**6, decisive=False)
CASES = [(1, 2.0, 0.5), (2, 2.0, 0.5), (3, 1.0, 0.2), (5, 2.0, 0.7), (9, 3.0, 1.5), (12, 0.5, 0.0), (12, 5.0, 3.0)]


def power(epsilon: float) -> Fraction:
    """e to the decimal that `epsilon` is written as, to 60 digits: far closer than any width that is compared here."""
    return Fraction(Context(prec=60).exp(Decimal(str(epsilon))))


def mass(trials: int, chance: Fraction, at: int) -> Fraction:
    return comb(trials, at) * chance**at * (1 - chance) ** (trials - at) if 0 <= at <= trials else Fraction(0)


@cache
def exact_blanket(mechanism: KRR, reports: int, epsilon: float, dummies: int = 0) -> Fraction:
    """The average over B of E[(L₁ + … + L_m)₊]/m, m = B + D + 1, over the counts of L's three values."""
    gamma, k, factor = mechanism.gamma, mechanism.categories, power(epsilon)
    base, lift = gamma * (1 - factor), (1 - gamma) * k
    each = Fraction(1, k)
    total = Fraction(0)
    for blankets in range(reports):
        m = blankets + dummies + 1
        inner = sum(
            (
                mass(m, 2 * each, s)
                * mass(s, Fraction(1, 2), first)
                * max(Fraction(0), m * base + lift * (first - factor * (s - first)))
                for s in range(m + 1)
                for first in range(s + 1)
            ),
            Fraction(0),
        )
        total += mass(reports - 1, gamma, blankets) * inner / m
    return total


def with_bit(law: list[Fraction], chance: Fraction) -> list[Fraction]:
    grown = [Fraction(0)] * (len(law) + 1)
    for ones, weight in enumerate(law):
        grown[ones] += weight * (1 - chance)
        grown[ones + 1] += weight * chance
    return grown


def exact_two_rr(mechanism: KRR, reports: int, epsilon: float, dummies: int = 0) -> Fraction:
    """The largest divergence of the number of ones over all that the others may hold, both ways round."""
    p, factor, best = mechanism.other, power(epsilon), Fraction(0)
    for ones in range(reports):
        law = [Fraction(1)]
        for chance in [p] * (reports - 1 - ones) + [1 - p] * ones + [Fraction(1, 2)] * dummies:
            law = with_bit(law, chance)
        sides = with_bit(law, 1 - p), with_bit(law, p)
        for first, second in (sides, sides[::-1]):
            gains = (max(Fraction(0), a - factor * b) for a, b in zip(first, second, strict=True))
            best = max(best, sum(gains, Fraction(0)))
    return best


def assert_encloses(found: Enclosure, truth: Fraction, width: Fraction | None = None) -> None:
    """Both ends hold, and they are as close as `width`, relatively."""
    with precision(400):
        assert not bool(found.lower > ball(truth + TINY))
        assert not bool(found.upper < ball(truth - TINY))
        assert width is None or bool(found.upper - found.lower <= ball(truth * width + TINY))


@pytest.mark.parametrize("categories", [2, 3, 7, 10**5])
@pytest.mark.parametrize(("reports", "epsilon_local", "epsilon"), CASES)
def test_blanket_with_a_node_for_every_number_is_the_exact_value(
    categories: int, reports: int, epsilon_local: float, epsilon: float
) -> None:
    mechanism = KRR.from_local_epsilon(categories, epsilon_local)
    truth = exact_blanket(mechanism, reports, epsilon)
    found = blanket_delta(mechanism, reports, written(epsilon), Fraction(1, 10**40), 64)
    assert_encloses(found, truth, Fraction(1, 10**20))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
@pytest.mark.parametrize("gamma", [Fraction(1, 9), Fraction(1, 2), 1 - Fraction(1, 2**32)])
@pytest.mark.parametrize("epsilon_share", [0.0, 0.3, 0.9])
def test_chords_lie_above_and_tangents_below_however_few_the_nodes(
    nodes: int, gamma: Fraction, epsilon_share: float
) -> None:
    mechanism = KRR(4, gamma)
    epsilon = float(epsilon_share * mechanism.epsilon_local)
    truth = exact_blanket(mechanism, 30, epsilon)
    found = blanket_delta(mechanism, 30, written(epsilon), Fraction(1, 10**6), nodes)
    assert_encloses(found, truth)


@pytest.mark.parametrize("categories", [2, 3, 50])
@pytest.mark.parametrize("dummies", [1, 6])
@pytest.mark.parametrize("bins", [1, 3, 64])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.2])
def test_bins_of_blankets_and_dummies_enclose_the_exact_value(
    categories: int, dummies: int, bins: int, epsilon: float
) -> None:
    mechanism = KRR(categories, Fraction(1, 4))
    truth = exact_blanket(mechanism, 9, epsilon, dummies)
    found = blanket_delta(mechanism, 9, written(epsilon), Fraction(1, 10**30), bins, dummies)
    assert_encloses(found, truth, Fraction(1, 10**20) if bins == 64 else None)


@pytest.mark.parametrize("dummies", [0, 3])
@pytest.mark.parametrize(("reports", "epsilon_local", "epsilon"), CASES)
def test_binary_response_split_to_the_end_is_the_exact_maximum(
    reports: int, epsilon_local: float, epsilon: float, dummies: int
) -> None:
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    truth = exact_two_rr(mechanism, reports, epsilon, dummies)
    found = two_rr_delta(mechanism, reports, written(epsilon), Fraction(1, 10**40), ALL, dummies)
    assert_encloses(found, truth, Fraction(1, 10**20))


@pytest.mark.parametrize("gamma", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.8])
def test_whole_blocks_of_binary_response_lie_above_the_exact_maximum(gamma: Fraction, epsilon: float) -> None:
    mechanism = KRR(2, gamma)
    truth = exact_two_rr(mechanism, 25, epsilon)
    found = two_rr_delta(mechanism, 25, written(epsilon), Fraction(1, 10**6), Effort(1, decisive=False))
    assert_encloses(found, truth)


@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 7), Fraction(99, 100), Fraction(1, 2**40)])
@pytest.mark.parametrize(("trials", "at"), [(0, 0), (10, 3), (10, 9), (40, 2), (5, 7), (5, -2), (30, 30)])
def test_tails_hold_the_exact_values_wherever_they_are_moved(chance: Fraction, trials: int, at: int) -> None:
    with precision(200):
        law = BinomialTail(chance, trials, at)
        for move in ["grow", "advance", "grow", "shrink", "advance", "advance", "grow", "shrink", "shrink"] * 3:
            getattr(law, move if law.trials else "grow")()
            n, j = law.trials, law.at
            tail = sum((mass(n, chance, x) for x in range(max(j, 0), n + 1)), Fraction(0))
            excess = sum((max(0, x - j) * mass(n, chance, x) for x in range(n + 1)), Fraction(0))
            for found, truth in ((law.mass, mass(n, chance, j)), (law.tail, tail), (law.excess(), excess)):
                assert found.overlaps(ball(truth))
                assert bool(found.rad() <= ball(TINY))


@pytest.mark.parametrize("chance", [Fraction(1, 2), Fraction(1, 30), Fraction(29, 30)])
@pytest.mark.parametrize("trials", [0, 1, 7, 60])
def test_what_a_window_leaves_out_is_charged(trials: int, chance: Fraction) -> None:
    low, high = window(trials, chance, 4.0)
    outside = sum((mass(trials, chance, x) for x in range(trials + 1) if not low <= x <= high), Fraction(0))
    with precision(100):
        assert bool(cut(trials, chance, low, high) >= ball(outside))


def test_a_written_number_is_its_decimal_not_its_double() -> None:
    assert written(0.1) == Fraction(1, 10)
    assert written(1e-06) == Fraction(1, 10**6)
