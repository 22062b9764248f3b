"""Hashed kRR, whatever the hash functions: no upper end is below the exact divergence, one round and composed.

And the attack: three answers that collide in no row reach it.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from hubbub.accountant.bounds import delta_bracket
from hubbub.accountant.composition import compose_delta
from hubbub.accountant.mechanisms import Hashed
from hubbub.accountant.mechanisms.exact import exp_decimal
from hubbub.accountant.pairs import Part
from support.exact_batches import Law, View, batch_view

APART = ((0, 1), (1, 2), (2, 0))
"""Hashes of three answers in two rows: no two collide anywhere."""

ONCE = ((0, 1), (1, 1), (2, 0))
"""The first two collide in the second row."""

ALWAYS = ((0, 1), (0, 1), (2, 2))
"""The first two collide in both rows: nothing tells them apart."""

THREE_ROWS = ((0, 0, 1), (1, 0, 1), (1, 2, 0))

SHARES = (0.0, 0.3, 0.7, 0.95)
"""Of the local ε: where the divergence is looked at."""


def views(mechanism: Hashed, family: tuple[tuple[int, ...], ...], people: int, dummies: int) -> list[tuple[View, View]]:
    """What is seen with one answer of the victim and with another, over all data sets of the others."""
    laws = [mechanism.law(places) for places in family]
    uniform = (Fraction(1, mechanism.cells * mechanism.rows),) * (mechanism.cells * mechanism.rows)
    return [
        (batch_view((*others, *[uniform] * dummies, one)), batch_view((*others, *[uniform] * dummies, another)))
        for others in itertools.combinations_with_replacement(laws, people - 1)
        for one, another in itertools.permutations(laws, 2)
    ]


def divergence(p: View, q: View, epsilon: float) -> Fraction:
    power = Fraction(exp_decimal(epsilon))
    return sum((max(Fraction(0), p[at] - power * q[at]) for at in p), Fraction(0))


def twice(p: View, q: View, epsilon: float) -> Fraction:
    """The divergence of two independent rounds."""
    power = Fraction(exp_decimal(epsilon))
    cells = [(p[at], q[at]) for at in p]
    pairs = itertools.product(cells, cells)
    return sum((max(Fraction(0), a * c - power * b * d) for (a, b), (c, d) in pairs), Fraction(0))


def truths(mechanism: Hashed, family: tuple[tuple[int, ...], ...], people: int, dummies: int) -> list[Fraction]:
    both = views(mechanism, family, people, dummies)
    return [max(divergence(p, q, share * mechanism.epsilon_local) for p, q in both) for share in SHARES]


def bounds(mechanism: Hashed, people: int, dummies: int) -> list[float]:
    epsilons = [share * mechanism.epsilon_local for share in SHARES]
    return [delta_bracket(mechanism, people, epsilon, dummies=dummies).delta_upper for epsilon in epsilons]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("gamma", [2**30, 2**31, 2**32 - 2**29])
@pytest.mark.parametrize(("people", "dummies"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize("family", [APART, ONCE, ALWAYS], ids=["apart", "once", "always"])
def test_no_upper_end_is_below_the_exact_divergence(
    family: tuple[tuple[int, ...], ...], people: int, dummies: int, gamma: int
) -> None:
    mechanism = Hashed.from_numerator(3, 2, gamma)
    found = bounds(mechanism, people, dummies)
    for share, truth, upper in zip(SHARES, truths(mechanism, family, people, dummies), found, strict=True):
        least = float(truth) * (1 - 1e-12)
        assert upper >= least
        part = Part(mechanism, people, dummies=dummies)
        assert compose_delta([part], share * mechanism.epsilon_local).delta_upper >= least


def test_no_upper_end_is_below_it_with_more_rows() -> None:
    mechanism = Hashed.from_numerator(3, 3, 2**31)
    for upper, truth in zip(bounds(mechanism, 2, 0), truths(mechanism, THREE_ROWS, 2, 0), strict=True):
        assert upper >= float(truth) * (1 - 1e-12)


@pytest.mark.parametrize(("family", "people", "dummies"), [(APART, 2, 0), (ONCE, 1, 1)])
def test_two_rounds_compose_to_no_less_than_the_exact_divergence(
    family: tuple[tuple[int, ...], ...], people: int, dummies: int
) -> None:
    mechanism = Hashed.from_numerator(3, 2, 2**31)
    part = Part(mechanism, people, 2, dummies)
    both = views(mechanism, family, people, dummies)
    for share in (0.3, 1.2):
        epsilon = share * mechanism.epsilon_local
        truth = max(twice(p, q, epsilon) for p, q in both)
        assert compose_delta([part], epsilon).delta_upper >= float(truth) * (1 - 1e-12)


def test_one_report_attains_the_bound_and_a_blanket_too_large_is_seen() -> None:
    """The comparison has power: it is an equality somewhere, and a claim of a little more blanket fails it."""
    mechanism, claimed = Hashed.from_numerator(3, 2, 2**31), Hashed.from_numerator(3, 2, 2**31 + 2**27)
    truth = float(max(divergence(p, q, 0.5) for p, q in views(mechanism, APART, 1, 0)))
    assert delta_bracket(mechanism, 1, 0.5).delta_upper == pytest.approx(truth, rel=1e-9)
    assert delta_bracket(claimed, 1, 0.5).delta_upper < truth


@pytest.mark.parametrize("family", [ONCE, ALWAYS, THREE_ROWS], ids=["once", "always", "three rows"])
def test_a_collision_hides_more(family: tuple[tuple[int, ...], ...]) -> None:
    """With answers that never collide the divergence is the largest: the convex order that the proof rests on."""
    rows = len(family[0])
    mechanism = Hashed.from_numerator(3, rows, 2**31)
    apart = tuple((x,) * rows for x in range(3))
    for people in (1, 2):
        pairs = zip(truths(mechanism, family, people, 0), truths(mechanism, apart, people, 0), strict=True)
        assert all(some <= most for some, most in pairs)


@pytest.mark.parametrize("people", [1, 2, 3])
def test_three_answers_that_collide_in_no_row_reach_the_attack(people: int) -> None:
    mechanism = Hashed.from_numerator(3, 2, 2**31)
    for share, truth in zip(SHARES, truths(mechanism, APART, people, 0), strict=True):
        found = delta_bracket(mechanism, people, share * mechanism.epsilon_local)
        assert found.delta_lower is not None
        assert 0.9 * float(truth) - 1e-3 <= found.delta_lower <= truth


def test_two_rounds_of_such_answers_reach_the_attack_on_both() -> None:
    mechanism = Hashed.from_numerator(3, 2, 2**31)
    both = views(mechanism, APART, 2, 0)
    for share in (0.3, 1.2):
        epsilon = share * mechanism.epsilon_local
        truth = max(twice(p, q, epsilon) for p, q in both)
        found = compose_delta([Part(mechanism, 2, 2)], epsilon)
        assert found.delta_lower is not None
        assert 0.9 * float(truth) - 1e-3 <= found.delta_lower <= truth


@pytest.mark.parametrize("cells", [3, 5])
def test_counting_the_cells_of_two_answers_makes_the_laws_of_the_attack_on_krr(cells: int) -> None:
    mechanism = Hashed.from_numerator(cells, 3, 2**30)
    krr = mechanism.krr
    places = ((0, 1, 2), (1, 2, 0), (2, 0, 1))

    def counted(law: Law) -> Law:
        first, second = (sum(law[row * cells + answer[row]] for row in range(3)) for answer in places[:2])
        return (Fraction(first), Fraction(second), 1 - first - second)

    found = [counted(mechanism.law(answer)) for answer in places]
    one, other = krr.truthful, krr.other
    assert found == [
        (one, other, 1 - one - other),
        (other, one, 1 - one - other),
        (other, other, 1 - 2 * other),
    ]
