"""Attacks on batches with dummies: none is above the exact divergence of the worst data set, in one round or two."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.composition import compose_delta
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite, Hashed, exp_decimal
from hubbub.accountant.pairs import Part
from support.exact_batches import Law, View, batch_view

ROWS = (
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)),
    (Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)),
    (Fraction(1, 8), Fraction(1, 8), Fraction(3, 4)),
)
MEAN = tuple(sum(column) / 3 for column in zip(*ROWS, strict=True))

Dummied = KRR | RAPPOR | Finite | Hashed

CASES: list[tuple[Dummied, int, int]] = [
    (KRR(2, Fraction(1, 3)), 3, 2),
    (KRR(3, Fraction(1, 5)), 1, 3),
    (KRR(3, Fraction(2, 3)), 3, 1),
    (KRR(4, Fraction(1, 2)), 2, 2),
    (Hashed(3, 1, Fraction(1, 4)), 2, 2),
    (RAPPOR.from_numerators(2, 3 * 2**30, 2**30), 2, 2),
    (RAPPOR.from_numerators(3, 2**31, 2**29), 1, 1),
    (Finite(ROWS, dummy=ROWS[2]), 2, 2),
    (Finite(ROWS, dummy=MEAN), 1, 2),
]


def laws_of(mechanism: Dummied) -> tuple[list[Law], Law]:
    """Return the law of each answer's report, and that of a dummy."""
    if isinstance(mechanism, Finite):
        assert mechanism.dummy is not None
        return list(mechanism.law), mechanism.dummy
    if isinstance(mechanism, Hashed):
        # Three answers that collide in no row.
        laws: list[Law] = [mechanism.law((each,)) for each in range(mechanism.cells)]
    else:
        laws = [mechanism.law(x) for x in range(mechanism.categories)]
    return laws, tuple(sum(column) / len(laws) for column in zip(*laws, strict=True))


def data_sets(mechanism: Dummied, people: int, dummies: int) -> Iterator[tuple[View, View]]:
    laws, dummy = laws_of(mechanism)
    for others in itertools.combinations_with_replacement(laws, people - 1):
        held = [*others, *[dummy] * dummies]
        for one, other in itertools.permutations(laws, 2):
            yield batch_view((one, *held)), batch_view((other, *held))


def worst(pairs: list[tuple[View, View]], epsilon: float) -> Fraction:
    power = Fraction(exp_decimal(epsilon)) if epsilon else Fraction(1)
    return max(sum((max(Fraction(0), p[at] - power * q[at]) for at in p), Fraction(0)) for p, q in pairs)


@pytest.mark.parametrize(("mechanism", "people", "dummies"), CASES)
def test_no_attack_is_above_the_exact_divergence(mechanism: Dummied, people: int, dummies: int) -> None:
    pairs = list(data_sets(mechanism, people, dummies))
    for share in (0.0, 0.1, 0.4, 0.8):
        epsilon = share * mechanism.epsilon_local
        truth = worst(pairs, epsilon)
        found = delta_bracket(mechanism, people, epsilon, dummies=dummies)
        assert found.delta_lower is not None
        assert Fraction(found.delta_lower) <= truth <= Fraction(found.delta_upper)
        assert found.delta_lower > 0 or share > 0.4
        composed = compose_delta([Part(mechanism, people, dummies=dummies)], epsilon)
        assert composed.delta_lower == found.delta_lower


@pytest.mark.parametrize(("mechanism", "people", "dummies"), [CASES[0], CASES[1], CASES[5], CASES[8]])
def test_no_attack_on_two_rounds_is_above_the_exact_divergence(mechanism: Dummied, people: int, dummies: int) -> None:
    """The other people may have other answers in the second round."""
    pairs = list(data_sets(mechanism, people, dummies))
    part = Part(mechanism, people, 2, dummies)
    for share in (0.05, 0.3, 0.6):
        epsilon = share * 2 * mechanism.epsilon_local
        power = Fraction(exp_decimal(epsilon))
        truth = max(
            sum((max(Fraction(0), p[a] * r[b] - power * q[a] * s[b]) for a in p for b in r), Fraction(0))
            for (p, q), (r, s) in itertools.product(pairs[:2], pairs)
        )
        found = compose_delta([part], epsilon)
        assert found.delta_lower is not None
        assert 0 <= found.delta_lower <= float(truth) * (1 + 1e-12)
        assert float(truth) <= found.delta_upper * (1 + 1e-12)


def test_alone_beside_uniform_dummies_the_attack_reaches_the_bound() -> None:
    """What is certified if everybody else lies: the victim's report and the shuffler's dummies are all there is."""
    for categories in (3, 16):
        found = epsilon_bracket(KRR.from_local_epsilon(categories, 2.0), 1, 1e-6, dummies=1000)
        assert found.epsilon_lower is not None
        assert 0.999 * found.epsilon_upper <= found.epsilon_lower <= found.epsilon_upper


def test_no_attack_is_stated_if_no_answer_is_known_to_look_like_a_dummy() -> None:
    mixed = tuple((a + 3 * b) / 4 for a, b in zip(*ROWS[:2], strict=True))
    mechanism = Finite(ROWS, dummy=mixed)
    assert epsilon_bracket(mechanism, 100, 1e-6, dummies=10).epsilon_lower is None
    assert epsilon_bracket(mechanism, 100, 1e-6).epsilon_lower is not None
    with pytest.raises(OutsideConditions, match="covers dummies whose law is a row of the law"):
        BOUNDS["finite-lower"].epsilon(mechanism, 100, 1e-6, 10)
