"""The attack on noise beside honest people: never above the exact divergence of the worst data set, and near it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb, exp

import numpy as np
import pytest

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.divergence import noise_beside_people
from hubbub.accountant.divergence.binomials import Array, fair_mass
from hubbub.accountant.divergence.noise_beside_people import _near, _signs, _with_rest, people_attack
from hubbub.accountant.mechanisms import KRR, NoiseLaw, WithNoise, exp_decimal
from hubbub.accountant.pairs import Part
from support.noise_views import View, answers_of, divergence, released

HALF, FLAT = NoiseLaw("geometric", 2**31, 2), NoiseLaw("geometric", 2**32 - 2**28, 3)
BELL, ONE = NoiseLaw("gaussian", 3 * 2**31, 2), NoiseLaw("geometric", 2**31, 1)

CASES = [
    (2, "1/100", HALF, 3, 0),
    (2, "1/2", FLAT, 4, 0),
    (2, "1/3", BELL, 2, 2),
    (3, "1/10", ONE, 2, 0),
    (3, "1/2", BELL, 2, 0),
    (3, "1/3", ONE, 1, 1),
    (3, "1/3", ONE, 2, 1),
    (4, "1/3", ONE, 2, 0),
]


def views(mechanism: WithNoise, people: int, dummies: int) -> list[tuple[View, View]]:
    laws = answers_of(mechanism.krr)
    uniform = (Fraction(1, len(laws)),) * len(laws)
    found = []
    for others in itertools.combinations_with_replacement(laws, people - 1):
        held = [*others, *[uniform] * dummies]
        pair = released(mechanism, [*held, laws[0]]), released(mechanism, [*held, laws[1]])
        found += [pair, pair[::-1]]
    return found


@pytest.fixture(params=[False, True])
def difference_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """As if both counts had too many values: only their difference is told."""
    people_attack.cache_clear()
    if request.param:
        monkeypatch.setattr(noise_beside_people, "_MOST_TOLD", 0)
    return bool(request.param)


@pytest.mark.parametrize(("categories", "gamma", "law", "people", "dummies"), CASES)
def test_no_attack_is_above_the_exact_divergence(
    categories: int, gamma: str, law: NoiseLaw, people: int, dummies: int, difference_only: bool
) -> None:
    mechanism = WithNoise(KRR(categories, Fraction(gamma)), law)
    pairs = views(mechanism, people, dummies)
    for share in (0.0, 0.1, 0.4, 0.7):
        epsilon = share * mechanism.epsilon_local
        truth = max(divergence(*pair, epsilon) for pair in pairs)
        found = delta_bracket(mechanism, people, epsilon, dummies=dummies)
        assert found.delta_lower is not None
        assert Fraction(found.delta_lower) <= truth <= Fraction(found.delta_upper)
        if share < 0.2 and not difference_only:
            assert found.delta_lower > 0.4 * truth
        reached = BOUNDS["noise-lower"].epsilon(mechanism, people, float(truth), dummies).lower
        assert reached <= epsilon * (1 + 1e-9) + 1e-12
    people_attack.cache_clear()


def test_no_attack_on_two_rounds_is_above_the_exact_divergence() -> None:
    for categories, law, people, dummies in ((2, HALF, 2, 0), (2, ONE, 1, 1)):
        mechanism = WithNoise(KRR(categories, Fraction(1, 10)), law)
        pairs = views(mechanism, people, dummies)
        for share in (0.05, 0.3, 0.5):
            epsilon = share * 2 * mechanism.epsilon_local
            power = Fraction(exp_decimal(epsilon))
            truth = max(
                sum(
                    (max(Fraction(0), p[a] * r[b] - power * q.get(a, 0) * s.get(b, 0)) for a in p for b in r),
                    Fraction(0),
                )
                for (p, q), (r, s) in itertools.product(pairs, pairs)
            )
            found = compose_delta([Part(mechanism, people, 2, dummies)], epsilon)
            assert found.delta_lower is not None
            assert found.delta_lower <= float(truth) * (1 + 1e-12)
            assert float(truth) <= found.delta_upper * (1 + 1e-12)


def test_beside_a_few_honest_people_the_attack_nearly_reaches_the_noise() -> None:
    mechanism = WithNoise(KRR.from_local_epsilon(16, 8.0), NoiseLaw.of("geometric", Fraction(3, 5), 27))
    one, ten = epsilon_bracket(mechanism, 1000, 1e-6), compose([Part(mechanism, 1000, 10)], 1e-6)
    assert one.epsilon_lower is not None
    assert ten.epsilon_lower is not None
    assert 0.99 * one.epsilon_upper < one.epsilon_lower <= one.epsilon_upper
    assert 0.9 * ten.epsilon_upper < ten.epsilon_lower <= ten.epsilon_upper


def test_what_was_cut_is_added_where_the_ratio_is_largest() -> None:
    """At every ratio the joined cells give at most what the cells give less the cut mass."""
    lesser, gap = np.array([0.2, 1e-9, 0.1, 0.05]), np.array([0.1, 1e-8, 0.2, 0.01])
    for rest in (0.0, 1e-12, 1e-9, 1e-3, 0.5):
        below, over = _with_rest(lesser, gap, rest)
        for rate in (0.0, 0.1, 0.5, 1.0, 3.0, 12.0):
            whole = np.maximum(gap - rate * lesser, 0).sum() - (1 + rate) * rest
            assert np.maximum(over - rate * below, 0).sum() <= max(whole, 0.0) + 1e-15


@pytest.mark.parametrize(("few", "more"), [(0, 0), (0, 5), (3, 4), (40, 12)])
def test_a_random_number_of_signs_has_its_exact_law(few: int, more: int) -> None:
    masses = [Fraction(i + 1, (more + 1) * (more + 2) // 2) for i in range(more + 1)]
    exact: dict[int, Fraction] = dict.fromkeys(range(-few - more, few + more + 1), Fraction(0))
    for added, mass in enumerate(masses):
        for ones in range(few + added + 1):
            exact[2 * ones - few - added] += mass * comb(few + added, ones) / 2 ** (few + added)
    found = _signs(few, _near(few), np.array([float(mass) for mass in masses]))
    assert found == pytest.approx([float(mass) for mass in exact.values()], rel=1e-12, abs=0)


def test_what_is_cut_of_many_signs_is_less_than_is_charged() -> None:
    """Two tails of the others' number, and both of their signs, by Hoeffding: 3·e^-90 in all."""
    for few in (10**4, 10**6, 10**12 + 1):
        assert 2 * exp(-((_near(few) + 1) ** 2) / (2 * few)) <= exp(-noise_beside_people._LOG_TAIL)


def test_the_difference_beside_many_people_needs_one_binomial_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each number of others' reports took half a minute at a million people."""
    asked = []

    def counted(x: Array, trials: Array) -> Array:
        asked.append(len(x))
        return fair_mass(x, trials)

    monkeypatch.setattr(noise_beside_people, "fair_mass", counted)
    mechanism = WithNoise(KRR(16, Fraction(1, 3)), NoiseLaw.of("geometric", Fraction(3, 5), 27))
    found = people_attack.__wrapped__(mechanism, 20_000, 10)
    assert found is not None
    assert found.delta(0.1) > 1e-7
    assert len(asked) == 1
