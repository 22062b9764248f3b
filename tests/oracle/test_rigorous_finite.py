"""Against enumeration of small batches, and against the fast path, which shares nothing."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import log, prod

import pytest

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import KRR, Finite, exp_decimal
from hubbub.accountant.mechanisms.laws import hadamard_response, subset_selection
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.pairs import Part
from hubbub.accountant.rigorous.balls import ball, precision
from hubbub.accountant.rigorous.composition import prove_composed
from hubbub.accountant.rigorous.finite import finite_delta
from hubbub.accountant.rigorous.proof import NotProvenError
from hubbub.accountant.rigorous.prove import prove, prove_local
from support.thoroughness import EXHAUSTIVE

WRITTEN = (("0.9", "0.08", "0.02"), ("0.1", "0.8", "0.1"), ("0.02", "0.08", "0.9"))
ROWS = tuple(tuple(map(Fraction, row)) for row in WRITTEN)
TERNARY, NEAR = Finite(ROWS, dummy=ROWS[1]), Finite(ROWS, neighbors=((0, 1), (1, 2)))
SUBSETS = subset_selection(20, 3, Fraction(20))


def exact_delta(mechanism: Finite, reports: int, epsilon: float) -> Fraction:
    """The largest (1/n)·E[(ΣY)₊], output by output, in fractions but for e^ε."""
    factor, worst = Fraction(exp_decimal(epsilon)), Fraction(0)
    for x, other in mechanism.neighboring:
        columns = zip(mechanism.law[x], mechanism.law[other], mechanism.masses, strict=True)
        steps = [((first - factor * second) / mass, mass) for first, second, mass in columns]
        steps.append((Fraction(0), 1 - mechanism.gamma))
        total = Fraction(0)
        for drawn in product(steps, repeat=reports):
            chance = prod((mass for _, mass in drawn), start=Fraction(1))
            total += chance * max(Fraction(0), sum((step for step, _ in drawn), Fraction(0)))
        worst = max(worst, total / reports)
    return worst


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", [TERNARY, NEAR], ids=["all", "near"])
@pytest.mark.parametrize(("reports", "share"), [(1, 0.4), (4, 0.05), (4, 0.8)])
def test_small_batches_are_bounded_and_hardly_more(mechanism: Finite, reports: int, share: float) -> None:
    epsilon = share * mechanism.epsilon_local
    exact = exact_delta(mechanism, reports, epsilon)
    found = finite_delta(mechanism, reports, Fraction(epsilon), Fraction(0), 0.03)
    with precision(300):
        assert bool(found.upper >= ball(exact) * (1 - ball(Fraction(1, 10**60))))
        assert bool(found.upper <= ball(exact) * ball(Fraction(115, 100)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("mechanism", [TERNARY, NEAR, SUBSETS, hadamard_response(50, Fraction(5))], ids=range(4))
@pytest.mark.parametrize(("reports", "share"), [(30, 0.3), (10**6, 0.004), (10**9, 1e-4)])
def test_the_fast_delta_is_never_above_what_balls_bound(mechanism: Finite, reports: int, share: float) -> None:
    epsilon = share * mechanism.epsilon_local
    lower, upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon)
    found = finite_delta(mechanism, reports, Fraction(epsilon), Fraction(0), 0.03)
    with precision(300):
        assert not bool(found.upper < ball(Fraction(lower)))
        assert bool(found.upper < ball(Fraction(upper)) * ball(Fraction(11, 10)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mechanism", "reports", "dummies"),
    [(TERNARY, 1000, 0), (NEAR, 1000, 0), (TERNARY, 600, 400), (SUBSETS, 10**6, 0)],
    ids=range(4),
)
def test_what_is_certified_is_proven_and_less_is_not(mechanism: Finite, reports: int, dummies: int) -> None:
    stated = round_up_significant(epsilon_bracket(mechanism, reports, 1e-6, dummies=dummies).epsilon_upper)
    proof = prove(mechanism, reports, stated, 1e-6, dummies=dummies)
    assert proof.looser == 0.0
    assert proof.route == ("blanket" if mechanism.blanket else "whole-law")
    less = finite_delta(mechanism, reports + dummies, Fraction(stated) * Fraction(98, 100), Fraction(0), 0.03)
    with precision(300):
        assert bool(less.upper > ball(Fraction(1, 10**6)))


def test_local_epsilons_are_those_of_neighbors() -> None:
    assert prove_local((TERNARY, NEAR), log(45) + log(10) + 1e-9).route == "local"
    with pytest.raises(NotProvenError, match="must be at least") as refuted:
        prove_local((TERNARY, NEAR), log(45) + log(10) - 1e-9)
    assert refuted.value.refuted


# tests/oracle/test_rigorous_composition.py proves different rounds together, and the test above what is certified of
# one.
@pytest.mark.exhaustive
def test_rounds_of_different_neighbors_are_proven_together() -> None:
    parts = [Part(NEAR, 100, 2), Part(TERNARY, 100, 1)]
    if EXHAUSTIVE:
        parts = [Part(NEAR, 10**5, 3), Part(TERNARY, 10**5, 1), Part(KRR(3, Fraction(1, 2)), 1000, 1)]
    stated = round_up_significant(compose(parts, 1e-6).epsilon_upper)
    assert prove_composed(parts, stated, 1e-6).looser <= 0.01 + 1e-12


def test_inputs_that_are_alike_are_proven_to_tell_nothing() -> None:
    alike = (Fraction(1, 4), Fraction(3, 4))
    law = Finite((alike, alike, (Fraction(3, 8), Fraction(5, 8))))
    assert prove(law, 100, 0.0, 0.2).route == "whole-law"
    assert finite_delta(Finite((alike, alike)), 100, Fraction(0), Fraction(0), 0.01).upper == 0
