"""What three inputs say is what the whole matrix says."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite
from hubbub.accountant.mechanisms.laws import (
    hadamard_response,
    local_hashing,
    optimized_unary,
    simplest,
    subset_selection,
)
from hubbub.accountant.pairs.finite import finite_points

RATIO = Fraction(6)


def listed(likelier: Callable[[int, int], bool], categories: int, outputs: int) -> Finite:
    """The whole matrix: an output is RATIO times as likely for the inputs that it counts for."""
    weights = [[RATIO if likelier(x, y) else Fraction(1) for y in range(outputs)] for x in range(categories)]
    return Finite(tuple(tuple(weight / sum(row) for weight in row) for row in weights))


def every_subset(categories: int, size: int) -> Finite:
    subsets = list(combinations(range(categories), size))
    return listed(lambda x, y: x in subsets[y], categories, len(subsets))


def every_place(categories: int) -> Finite:
    """Hadamard's matrix: row x and column y have +1 where they share an even number of bits."""
    return listed(lambda x, y: ((x + 1) & y).bit_count() % 2 == 0, categories, 1 << categories.bit_length())


def every_function(values: int, categories: int) -> Finite:
    """All functions, and reports of each of their values."""
    reports = [(hashes, y) for hashes in product(range(values), repeat=categories) for y in range(values)]
    return listed(lambda x, at: reports[at][0][x] == reports[at][1], categories, len(reports))


def every_string(categories: int) -> Finite:
    unary = RAPPOR(categories, Fraction(1, 2), 1 / (RATIO + 1))
    return Finite(tuple(map(unary.law, range(categories))))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("short", "whole"),
    [
        (subset_selection(6, 2, RATIO), every_subset(6, 2)),
        (subset_selection(5, 4, RATIO), every_subset(5, 4)),
        (subset_selection(2, 1, RATIO), every_subset(2, 1)),
        *((hadamard_response(k, RATIO), every_place(k)) for k in (2, 3, 4, 7, 8)),
        *((optimized_unary(k, RATIO), every_string(k)) for k in (2, 3, 5)),
    ],
    ids=range(11),
)
def test_three_inputs_say_what_the_whole_matrix_says(short: Finite, whole: Finite) -> None:
    assert short.gamma == whole.gamma
    assert short.epsilon_local == whole.epsilon_local
    assert set(map(frozenset, finite_points(short).pairs)) == set(map(frozenset, finite_points(whole).pairs))
    # Of the whole matrix all that others send is known, too.
    ours, theirs = (epsilon_bracket(each, 400, 1e-6, bound="blanket") for each in (short, whole))
    assert ours.epsilon_upper == theirs.epsilon_upper
    assert ours.bound == epsilon_bracket(short, 400, 1e-6).bound == "blanket"
    assert ours.epsilon_lower == pytest.approx(theirs.epsilon_lower, rel=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("values", "categories"), [(2, 2), (3, 3), (2, 4), (4, 3)])
def test_hashing_is_bounded_from_above_and_nearly_so_where_there_are_many_categories(
    values: int, categories: int
) -> None:
    short, whole = local_hashing(values, RATIO, categories), every_function(values, categories)
    assert short.gamma <= whole.gamma
    ours, theirs = (epsilon_bracket(each, 400, 1e-6, bound="blanket") for each in (short, whole))
    assert theirs.epsilon_upper <= ours.epsilon_upper <= theirs.epsilon_upper * 1.3
    assert ours.epsilon_lower == pytest.approx(theirs.epsilon_lower, rel=1e-6)
    # Where x and x' collide both are hit at once, which is below kRR on the hashes in the convex order.
    krr = KRR(values, values / (RATIO + values - 1))
    assert ours.epsilon_upper <= epsilon_bracket(krr, 400, 1e-6, bound="blanket").epsilon_upper


def test_they_stay_small_whatever_the_number_of_categories() -> None:
    for law in (
        subset_selection(10**6, 10**5, RATIO),
        hadamard_response(10**6, RATIO),
        optimized_unary(10**6, RATIO),
        local_hashing(7, RATIO),
    ):
        assert len(law.law) == 3
        assert len(law.law[0]) <= 9
        assert law.likelihood_ratio == RATIO
        assert 0 < epsilon_bracket(law, 10**6, 1e-6).epsilon_upper < 0.02
    unary = RAPPOR(4, Fraction(1, 2), 1 / (RATIO + 1))
    assert optimized_unary(4, RATIO).gamma == unary.gamma


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda: subset_selection(4, 4, RATIO), "size is 4; give a number from 1 to 3"),
        (lambda: subset_selection(4, 0, RATIO), "size is 0"),
        (lambda: hadamard_response(1, RATIO), "categories is 1"),
        (lambda: optimized_unary(4, Fraction(1, 2)), "at least 1"),
        (lambda: local_hashing(2, 2.0), "exact Fraction"),  # type: ignore[arg-type]
    ],
    ids=range(5),
)
def test_what_is_no_such_randomizer_is_refused(law: Callable[[], Finite], message: str) -> None:
    with pytest.raises(AccountingError, match=message):
        law()


def test_a_law_that_is_krr_is_told_apart_from_one_that_is_not() -> None:
    krr = KRR(4, Fraction(1, 3))
    rows = tuple(map(krr.law, (2, 0, 3, 1)))
    assert simplest(Finite(rows)) == krr
    assert simplest(Finite(rows, dummy=(Fraction(1, 4),) * 4)) == krr
    assert simplest(Finite(((Fraction(1, 2),) * 2,) * 2)) == KRR(2, Fraction(1))
    for other in (
        Finite(rows, neighbors=((0, 1),)),
        Finite(rows, dummy=rows[0]),
        Finite((rows[0], *rows[:3])),
        Finite(rows[:3]),
        Finite(
            ((Fraction(1, 4), Fraction(3, 4)), (Fraction(3, 4), Fraction(1, 4))), dummy=(Fraction(1, 4), Fraction(3, 4))
        ),
    ):
        assert simplest(other) is other


def test_of_two_inputs_the_law_that_is_krr_has_the_tighter_bound() -> None:
    """`2rr` has no hidden part; all that others send is counted for either."""
    law = Finite(((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
    own, whole = (epsilon_bracket(each, 1000, 1e-6).epsilon_upper for each in (simplest(law), law))
    assert 0.97 * whole < own < whole
