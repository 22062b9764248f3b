"""Against enumeration of small batches, and against the fast path, which shares nothing."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import factorial, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.mechanisms import RAPPOR, exp_decimal
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.pairs import Part
from hubbub.accountant.rigorous.balls import ball, precision
from hubbub.accountant.rigorous.composition import prove_composed
from hubbub.accountant.rigorous.proof import NotProvenError
from hubbub.accountant.rigorous.prove import prove
from hubbub.accountant.rigorous.rappor import rappor_delta
from hubbub.accountant.rigorous.tails import BinomialTail

SYMMETRIC = RAPPOR.from_numerators(5, 3 * 2**30, 2**30)
TWO = RAPPOR.from_numerators(2, 3 * 2**30, 2**30)
OPTIMIZED = RAPPOR.from_numerators(20, 2**31, 2**28)


def exact_delta(mechanism: RAPPOR, reports: int, epsilon: float) -> Fraction:
    """(1/n)·E[(ΣY)₊] over all counts of the four kinds, in fractions but for e^ε."""
    factor = Fraction(exp_decimal(epsilon))
    steps = [(first - factor * second, mass) for first, second, mass in mechanism.kinds]
    steps.append((Fraction(0), 1 - sum((mass for _, mass in steps), Fraction(0))))
    total = Fraction(0)
    for counts in product(range(reports + 1), repeat=5):
        if sum(counts) == reports:
            seen = list(zip(steps, counts, strict=True))
            ways = factorial(reports) // prod(factorial(count) for count in counts)
            chance = ways * prod((mass**count for (_, mass), count in seen), start=Fraction(1))
            total += chance * max(Fraction(0), sum((count * step for (step, _), count in seen), Fraction(0)))
    return total / reports


@pytest.mark.parametrize("mechanism", [SYMMETRIC, TWO, OPTIMIZED], ids=repr)
@pytest.mark.parametrize("reports", [1, 2, 5])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_small_batches_are_bounded_as_enumeration_says(mechanism: RAPPOR, reports: int, share: float) -> None:
    """Every number of each kind is a node here, so nothing but rounding lies between the two."""
    epsilon = share * mechanism.epsilon_local
    found = rappor_delta(mechanism, reports, Fraction(epsilon), Fraction(1, 10**6), 24)
    exact = float(exact_delta(mechanism, reports, epsilon))
    assert float(found.upper) == pytest.approx(exact, rel=1e-12)


@settings(deadline=None, max_examples=15)
@given(
    categories=st.sampled_from([2, 3, 40]),
    numerators=st.tuples(st.integers(2**24, 2**32 - 2**24), st.integers(2**24, 2**32 - 2**24)),
    reports=st.floats(0, 3).map(lambda exponent: int(10**exponent)),
    share=st.floats(0, 1),
    dummies=st.sampled_from([0, 30]),
)
def test_the_fast_delta_is_never_above_what_balls_bound(
    categories: int, numerators: tuple[int, int], reports: int, share: float, dummies: int
) -> None:
    mechanism = RAPPOR.from_numerators(categories, max(numerators), min(numerators))
    epsilon = share * mechanism.epsilon_local
    lower, upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon, dummies)
    scale = Fraction(min(max(upper, 1e-80), 0.5))
    found = rappor_delta(mechanism, reports + dummies, Fraction(epsilon), scale, 6)
    with precision(400):
        assert not bool(found.upper < ball(Fraction(lower)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mechanism", "reports", "dummies"), [(TWO, 1_000, 0), (OPTIMIZED, 150, 40), (SYMMETRIC, 100, 0)], ids=repr
)
def test_what_is_certified_is_proven_and_less_is_not(
    mechanism: RAPPOR, reports: int, dummies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = round_up_significant(epsilon_bracket(mechanism, reports, 1e-6, dummies=dummies).epsilon_upper)
    found = prove(mechanism, reports, stated, 1e-6, dummies=dummies)
    assert found.route == "whole-law"
    assert 0 <= found.looser <= 0.01 + 1e-12
    monkeypatch.setattr("hubbub.accountant.rigorous.prove.TERMS", 4_000)
    with pytest.raises(NotProvenError, match="neither proves nor refutes") as refusal:
        prove(mechanism, reports, stated * 0.98, 1e-6, dummies=dummies)
    assert not refusal.value.refuted


def test_beyond_the_local_epsilon_there_is_nothing_to_sum() -> None:
    assert prove(TWO, 10, 2.19723, 1e-15).route == "local"
    assert float(rappor_delta(TWO, 10, Fraction(3), Fraction(1, 10**6), 6).upper) == 0.0


def test_rounds_of_unary_encoding_compose_in_balls() -> None:
    part = Part(TWO, 100, rounds=2)
    assert prove_composed([part], 2.4, 1e-6).route == "composition"
    with pytest.raises(NotProvenError):
        prove_composed([part], 1.2, 1e-6)


@pytest.mark.parametrize("at", [-1, 0, 1, 5, 30, 31])
def test_dropping_a_trial_keeps_mass_and_tail(at: int) -> None:
    with precision(280):
        law = BinomialTail(Fraction(1, 3), 30, at)
        for trials in range(29, 3, -1):
            law.drop()
            afresh = BinomialTail(Fraction(1, 3), trials, at)
            assert law.mass.overlaps(afresh.mass)
            assert law.tail.overlaps(afresh.tail)
            assert float(law.tail.rad()) < 1e-60
