"""Composition in balls against products of exact pairs, by enumeration; and against the fast path's composition."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, factorial

import pytest

from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.pairs import Part
from hubbub.accountant.rigorous.balls import ball, precision, written
from hubbub.accountant.rigorous.composition import Composed, prove_composed
from hubbub.accountant.rigorous.prove import NotProvenError
from support.thoroughness import usually

Pair = list[tuple[Fraction, Fraction]]


def blanket_pair(mechanism: KRR, reports: int) -> Pair:
    """P and Q of every (B, N₁, N₂), the victim's own report among the counts."""
    gamma, k = mechanism.gamma, mechanism.categories
    each = Fraction(1, k)
    pair = []
    for b in range(reports):
        chance = comb(reports - 1, b) * gamma**b * (1 - gamma) ** (reports - 1 - b)
        for first in range(b + 2):
            for second in range(b + 2 - first):
                rest = b + 1 - first - second
                ways = factorial(b + 1) // factorial(first) // factorial(second) // factorial(rest)
                uniform = chance * ways * each ** (first + second) * (1 - 2 * each) ** rest
                mix = [gamma + (1 - gamma) * k * Fraction(count, b + 1) for count in (first, second)]
                pair.append((uniform * mix[0], uniform * mix[1]))
    return pair


def binary_pair(mechanism: KRR, reports: int, ones: int) -> Pair:
    p = mechanism.other
    sides = []
    for victim in (1 - p, p):
        law = [Fraction(1)]
        for chance in [p] * (reports - 1 - ones) + [1 - p] * ones + [victim]:
            law = [
                (law[i] * (1 - chance) if i < len(law) else 0) + (law[i - 1] * chance if i else 0)
                for i in range(len(law) + 1)
            ]
        sides.append(law)
    return list(zip(*sides, strict=True))


def divergence(pairs: list[Pair], epsilon: float) -> Fraction:
    factor = Fraction(exp_decimal(epsilon))
    total = Fraction(0)
    for outcome in product(*pairs):
        first = second = Fraction(1)
        for a, b in outcome:
            first, second = first * a, second * b
        total += max(Fraction(0), first - factor * second)
    return total


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 1.9])
@pytest.mark.parametrize("step", [Fraction(1, 3), Fraction(1, 20)])
def test_composed_curves_lie_above_the_exact_product(step: Fraction, epsilon: float) -> None:
    """Few points or many, equal parts or not: never below, and close where there are many."""
    for parts in (
        [Part(KRR(3, Fraction(1, 2)), 3, 2)],
        [Part(KRR(3, Fraction(1, 2)), 3), Part(KRR(4, Fraction(2, 3)), 4)],
    ):
        composed = Composed(step, Fraction(1, 10**9))
        pairs = []
        for part in parts:
            composed.add(part, 10**6)
            assert isinstance(part.mechanism, KRR)
            pairs += [blanket_pair(part.mechanism, part.reports)] * part.rounds
        truth, found = divergence(pairs, epsilon), composed.delta(written(epsilon))
        with precision(400):
            assert bool(found >= ball(truth))
            assert step > Fraction(1, 10) or bool(found <= ball(truth * Fraction(102, 100)))


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
def test_composed_curves_of_binary_response_lie_above_every_input_of_the_others(epsilon: float) -> None:
    mechanism = KRR(2, Fraction(1, 2))
    composed = Composed(Fraction(1, 20), Fraction(1, 10**9))
    composed.add(Part(mechanism, 4, 2), 10**6)
    found = composed.delta(written(epsilon))
    cases = [binary_pair(mechanism, 4, ones) for ones in range(4)]
    worst = max(divergence([first, second], epsilon) for first, second in product(cases, repeat=2))
    with precision(400):
        assert bool(ball(worst) <= found)
        # The curve lies above every single input's, and at four reports noticeably above each.
        assert bool(found <= ball(worst * Fraction(6, 5)))


COMPOSED = [
    ([Part(KRR.from_numerator(3, 2**31), usually(100, 400), 5)], 1e-6),
    ([Part(KRR.from_numerator(3, 2**31), usually(60, 200)), Part(KRR.from_numerator(2, 2**31), usually(20, 50))], 1e-4),
    ([Part(KRR.from_numerator(5, 2**31), usually(50, 200), 3, usually(25, 100))], 1e-6),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("parts", "delta"), COMPOSED)
def test_what_the_fast_path_composes_is_proven_to_one_per_cent(parts: list[Part], delta: float) -> None:
    stated = round_up_significant(compose(tuple(parts), delta).epsilon_upper)
    found = prove_composed(parts, stated, delta)
    assert 0 <= found.looser <= 0.01 + 1e-12
    assert found.route == "composition"


@pytest.mark.parametrize(("parts", "delta"), COMPOSED[:1])
def test_a_composed_epsilon_that_an_attack_exceeds_is_not_proven(parts: list[Part], delta: float) -> None:
    bracket = compose(tuple(parts), delta)
    false = (bracket.epsilon_lower or bracket.epsilon_upper * 0.97) * 0.985
    with pytest.raises(NotProvenError):
        prove_composed(parts, false, delta)


def test_the_sum_of_local_epsilons_needs_no_curve() -> None:
    parts = [Part(KRR.from_numerator(3, 2**31), 4, 3)]
    assert prove_composed(parts, 10.0, 1e-9).route == "local"


def test_what_is_too_large_to_compose_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part(KRR.from_numerator(3, 2**30), 500, 2)
    with pytest.raises(NotProvenError, match="2000 batches are more than the 1000"):
        prove_composed([Part(part.mechanism, 500, 2000)], 0.1, 1e-6)
    monkeypatch.setattr("hubbub.accountant.rigorous.composition.COMPOSED_TERMS", 1000)
    with pytest.raises(NotProvenError, match="more than 1000 summands"):
        prove_composed([part], 0.1, 1e-6)
