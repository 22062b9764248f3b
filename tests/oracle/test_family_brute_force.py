"""Rounds of binary response against an adversary who chooses the others' answers each round, after seeing the last."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from hubbub.accountant.composition import compose, compose_delta, compose_upper
from hubbub.accountant.losses import family as losses_family
from hubbub.accountant.losses import largest_curve, two_rr_family
from hubbub.accountant.losses.family import play
from hubbub.accountant.losses.two_rr_family import POINTS, _block_family, _coarser, _family, _pairs, two_rr_rounds
from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.pairs import Part
from support.thoroughness import spread

Pair = tuple[tuple[Fraction, Fraction], ...]
"""(P-mass, Q-mass) of each number of ones."""


def report(law: list[Fraction], one: Fraction) -> list[Fraction]:
    return [a * (1 - one) + b * one for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]


def views(mechanism: KRR, reports: int, dummies: int = 0) -> tuple[Pair, ...]:
    p, truthful = mechanism.other, mechanism.truthful
    found = []
    for ones in range(reports):
        law = [Fraction(1)]
        for one in [truthful] * ones + [p] * (reports - 1 - ones) + [Fraction(1, 2)] * dummies:
            law = report(law, one)
        found.append(tuple(zip(report(law, truthful), report(law, p), strict=True)))
    return tuple(found)


def worst(rounds: tuple[tuple[Pair, ...], ...], epsilon: float) -> Fraction:
    """The largest E_Q(r − e^ε)₊ over all strategies: every choice of a pair after every history, exactly."""
    factor = Fraction(exp_decimal(epsilon))

    @cache
    def value(played: int, ratio: Fraction) -> Fraction:
        if played == len(rounds):
            return max(Fraction(0), ratio - factor)
        return max(sum(q * value(played + 1, ratio * p / q) for p, q in pair) for pair in rounds[played])

    return value(0, Fraction(1))


CASES = [(2, 3, 1.0), (3, 3, 0.5), (3, 2, 3.0), (4, 3, 2.0), (5, 2, 1.0), (8, 2, 0.2)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("share", spread([0.0, 0.15, 0.4, 0.8], 2))
@pytest.mark.parametrize(("reports", "rounds", "epsilon_local"), CASES)
def test_rounds_cover_every_strategy_and_hardly_more(
    reports: int, rounds: int, epsilon_local: float, share: float
) -> None:
    mechanism, epsilon = KRR.from_local_epsilon(2, epsilon_local), share * rounds * epsilon_local
    truth = worst((views(mechanism, reports),) * rounds, epsilon)
    found = compose_delta([Part(mechanism, reports, rounds)], epsilon)
    assert truth <= Fraction(found.delta_upper)
    # Losses sit on few points here, where a grid costs most: a part of its step.
    assert found.delta_upper <= float(worst((views(mechanism, reports),) * rounds, epsilon * 0.998)) * 1.02 + 1e-9


def test_dummies_are_fair_coins() -> None:
    mechanism = KRR.from_local_epsilon(2, 1.5)
    truth = worst((views(mechanism, 3, 2),) * 2, 0.7)
    found = compose_delta([Part(mechanism, 3, 2, dummies=2)], 0.7).delta_upper
    assert truth <= Fraction(found) <= truth * Fraction(102, 100)


@pytest.mark.sampled("order1", "order2", "order3", "order4")
@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)])
def test_rounds_of_two_queries_are_covered_in_any_order(order: tuple[int, ...]) -> None:
    mechanisms = KRR.from_local_epsilon(2, 1.0), KRR.from_local_epsilon(2, 2.0)
    kinds = tuple(views(each, 3) for each in mechanisms)
    parts = [Part(each, 3, order.count(place)) for place, each in enumerate(mechanisms)]
    for epsilon in (0.3, 1.0, 2.0):
        assert worst(tuple(kinds[place] for place in order), epsilon) <= Fraction(
            compose_delta(parts, epsilon).delta_upper
        )


@pytest.mark.parametrize(
    ("reports", "epsilon_local", "rounds", "hull", "truth"),
    [(10, 1.0, 20, 9.1307, 8.9384), (20, 2.0, 50, 35.914, 34.310), (60, 1.0, 10, 2.0458, 2.0362)],
)
def test_composed_bounds_are_near_the_worst_strategy(
    reports: int, epsilon_local: float, rounds: int, hull: float, truth: float
) -> None:
    """`truth`: the same program on a grid of a sixty-fourth of a deviation; `hull`: composing one round's envelope."""
    found = compose_upper([Part(KRR.from_local_epsilon(2, epsilon_local), reports, rounds)], 1e-6)
    assert truth * (1 - 1e-4) <= found <= truth * 1.001 < hull


@pytest.mark.sampled("2-3-1.0", "4-3-2.0")
@pytest.mark.parametrize(("reports", "rounds", "epsilon_local"), CASES)
def test_transforms_cover_every_strategy(
    monkeypatch: pytest.MonkeyPatch, reports: int, rounds: int, epsilon_local: float
) -> None:
    """What many rounds need, on few."""
    monkeypatch.setattr(losses_family, "WORK", 0.0)
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    family = _family(_pairs(mechanism, reports, 0), mechanism.epsilon_local, POINTS[1])
    values = play(family, [rounds], 40.0)[rounds]
    for place in (0, len(values) // 7, len(values) // 2):
        truth = worst((views(mechanism, reports),) * rounds, place * family.step)
        assert truth <= Fraction(float(values[place])) <= truth * Fraction(103, 100) + Fraction(1, 10**6)


@pytest.mark.parametrize(("log_tail", "rounds"), [(40.0, 25), (90.0, 60)])
def test_transforms_are_hardly_above_multiplications(
    monkeypatch: pytest.MonkeyPatch, log_tail: float, rounds: int
) -> None:
    """And nowhere below them, however small δ is: each place is charged with the error of its transform."""
    mechanism = KRR.from_local_epsilon(2, 4.0)
    family = _block_family(_coarser(largest_curve.block_curves(mechanism, 250, 0, log_tail)))
    exact = play(family, [rounds - 1, rounds], log_tail)
    monkeypatch.setattr(losses_family, "WORK", 0.0)
    found = play(family, [rounds - 1, rounds], log_tail)
    for each, values in exact.items():
        some = found[each][: len(values)]
        values = values[: len(some)]
        assert np.all(some >= values * (1 - 1e-10))
        relevant = values > np.exp(8 - log_tail)
        assert np.all(some[relevant] <= values[relevant] * (1 + 1e-5))


def test_squares_of_tilted_values_do_not_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinite loss of much P-mass stays far out, where a tilt weighs e^{θε}. A warning fails this test."""
    reach, rounds, step, infinite = 8, 300, 2.0**-6, 1e-2
    rise = np.exp(step * reach)
    masses = np.zeros((2 * reach + 1, 1))
    masses[0], masses[-1] = (1 - infinite) / (1 + rise), (1 - infinite) * rise / (1 + rise)
    family = losses_family.Family(step, reach, masses, np.array([infinite]), 0.0, 0.0)
    exact = play(family, [rounds], 260.0)[rounds]
    monkeypatch.setattr(losses_family, "WORK", 0.0)
    found = play(family, [rounds], 260.0)[rounds]
    assert np.all(found >= exact[: len(found)] * (1 - 1e-10))
    assert np.all(found <= exact[: len(found)] * (1 + 1e-8))


def test_a_finer_grid_only_lowers_the_curve() -> None:
    mechanism, rounds = KRR.from_local_epsilon(2, 1.0), 8
    pairs = _pairs(mechanism, 12, 0)
    fine, coarse = (play(_family(pairs, mechanism.epsilon_local, points), [rounds], 40.0)[rounds] for points in POINTS)
    size = int(np.argmax(coarse < 1e-12))
    assert np.all(fine[::2][:size] <= coarse[:size] * (1 + 1e-9))


def test_more_rounds_than_are_played_at_once_are_composed_of_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses_family, "MOST_ROUNDS", 64)
    mechanism = KRR.from_local_epsilon(2, 1.0)
    grids = two_rr_rounds(mechanism, 40, 0, 3 * 64 + 5, 40.0)
    assert sorted(times for _, times in grids) == [1, 3]
    # Where all numbers of ones are alike, one round is all that is needed.
    assert [times for _, times in two_rr_rounds(mechanism, 10**5, 0, 10, 40.0)] == [10]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("blocks", "grouped", "coarsely"), [(1024, 2, False), (1024, 1, True), (3, 2, True), (2, 1, False)]
)
@pytest.mark.parametrize(
    ("reports", "rounds", "epsilon_local", "dummies"), [(5, 2, 1.0, 0), (4, 3, 3.0, 0), (6, 2, 0.4, 1)]
)
def test_groups_of_blocks_cover_every_strategy(
    monkeypatch: pytest.MonkeyPatch,
    blocks: int,
    grouped: int,
    coarsely: bool,
    reports: int,
    rounds: int,
    epsilon_local: float,
    dummies: int,
) -> None:
    """What many people need, on few: bounds on blocks, hulls of several blocks, losses that end as infinite ones."""
    monkeypatch.setattr(largest_curve, "BLOCKS", blocks)
    if grouped == 1:
        monkeypatch.setattr(two_rr_family, "_groups", lambda blocks: np.zeros(min(blocks, 1), dtype=np.int64))
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    curves = largest_curve.block_curves.__wrapped__(mechanism, reports, dummies, 25.0)
    family = _block_family(_coarser(curves) if coarsely else curves)
    values = play(family, [rounds], 25.0)[rounds]
    for place in spread((0, len(values) // 9, len(values) // 4, len(values) // 2), 2):
        truth = worst((views(mechanism, reports, dummies),) * rounds, place * family.step)
        assert truth <= Fraction(float(values[place]))
        if blocks > reports and grouped > 1 and not coarsely:
            assert values[place] <= float(truth) * 1.03 + 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("reports", "epsilon_local", "rounds", "hull", "truth"),
    [
        (1000, 4.0, 10, 4.0995, 4.07577),
        (130, 1.0, 10, 1.3056, 1.30160),
        (250, 1.0, 10, 0.9033, 0.90122),
        (30, 1.0, 1000, 50.29, 47.61),
        (1000, 4.0, 1000, 67.29, 63.302),
    ],
)
def test_composed_bounds_of_many_are_near_the_worst_strategy(
    reports: int, epsilon_local: float, rounds: int, hull: float, truth: float
) -> None:
    """`truth`: the same program with some of the numbers of ones, each as it is, on steps of 2⁻⁹ if rounds are many."""
    found = compose([Part(KRR.from_local_epsilon(2, epsilon_local), reports, rounds)], 1e-6)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= truth
    assert truth * (1 - 1e-4) <= found.epsilon_upper <= truth * 1.001
    assert found.epsilon_upper < hull


@pytest.mark.sampled(1)
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_attack_stays_below(delta: float) -> None:
    for reports, epsilon_local, rounds in [
        (2, 1.0, 5),
        (17, 4.0, 3),
        (64, 0.3, 40),
        (128, 6.0, 20),
        (129, 6.0, 20),
        (5000, 3.0, 4),
    ]:
        found = compose([Part(KRR.from_local_epsilon(2, epsilon_local), reports, rounds)], delta)
        assert found.epsilon_lower is not None
        assert found.epsilon_lower <= found.epsilon_upper
