"""The bound of RAPPOR by all that the others send: against every data set, its proof's view, and proof mode."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.composition import compose
from hubbub.accountant.divergence.whole_law import rappor_whole_law
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import RAPPOR, exp_decimal
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.grids import dominating_grid
from hubbub.accountant.rigorous.rappor import whole_law_delta
from support.exact_batches import Law, View, batch_view

Counts = NDArray[np.float64]
"""Probabilities of the numbers of reports with the first bit alone, and with the second alone."""

SPARSE = RAPPOR(3, Fraction(3, 10), Fraction(1, 20))
PLAIN = RAPPOR(3, Fraction(1, 5), Fraction(1, 10))


def divergence(first: View, second: View, epsilon: float) -> Fraction:
    factor = Fraction(exp_decimal(epsilon))
    return sum(
        (max(Fraction(0), mass - factor * second.get(at, Fraction(0))) for at, mass in first.items()), Fraction()
    )


@pytest.mark.parametrize("mechanism", [SPARSE, PLAIN, RAPPOR(3, Fraction(1, 2), Fraction(1, 20))], ids=repr)
@pytest.mark.parametrize("reports", [1, 2, 4])
def test_no_data_set_of_few_shows_more(mechanism: RAPPOR, reports: int) -> None:
    laws = [mechanism.law(x) for x in range(3)]
    for others in combinations_with_replacement(range(3), reports - 1):
        held = tuple(laws[z] for z in others)
        first, second = batch_view((laws[0], *held)), batch_view((laws[1], *held))
        for share in (0.0, 0.3, 0.7):
            epsilon = share * mechanism.epsilon_local
            upper = BOUNDS["whole-law"].delta(mechanism, reports, epsilon)[1]
            assert Fraction(upper) >= min(divergence(first, second, epsilon), Fraction(1))


def counts(alone: float, other: float, people: int) -> Counts:
    found = np.ones((1, 1))
    for _ in range(people):
        grown = np.zeros((len(found) + 1, len(found) + 1))
        grown[:-1, :-1] = found * (1 - alone - other)
        grown[1:, :-1] += found * alone
        grown[:-1, 1:] += found * other
        found = grown
    return found


def with_one(law: Counts, alone: float, other: float) -> Counts:
    return together(law, counts(alone, other, 1))


def together(one: Counts, other: Counts) -> Counts:
    size = len(one) + len(other) - 1
    found = np.zeros((size, size))
    for (i, j), mass in np.ndenumerate(other):
        found[i : i + len(one), j : j + len(one)] += mass * one
    return found


@pytest.mark.parametrize(
    ("truthful", "other", "close"),
    [(Fraction(1, 2), Fraction(1, 5), 1.15), (Fraction(5, 8), Fraction(3, 8), 1.12)],
    ids=["skewed", "symmetric"],
)
def test_two_categories_are_bounded_closely_whatever_the_others_have(
    truthful: Fraction, other: Fraction, close: float
) -> None:
    """All numbers of the others' first values among 40 people; reports of both or no bits say nothing."""
    mechanism, people = RAPPOR(2, truthful, other), 40
    own, seldom = float(truthful * (1 - other)), float(other * (1 - truthful))
    largest = dict.fromkeys((0.0, 0.1, 0.2, 0.3), 0.0)
    for ones in range(0, people, 3):
        held = together(counts(own, seldom, ones), counts(seldom, own, people - 1 - ones))
        first, second = with_one(held, own, seldom), with_one(held, seldom, own)
        for share in largest:
            factor = math.exp(share * mechanism.epsilon_local)
            largest[share] = max(largest[share], float(np.maximum(first - factor * second, 0).sum()))
    law = rappor_whole_law(mechanism)
    for share, truth in largest.items():
        found = math.exp(law.log_delta(people, share * mechanism.epsilon_local).upper)
        assert truth <= found * (1 + 1e-9)
        assert found - math.exp(law.log_charge(people)) <= close * truth


def revealed(mechanism: RAPPOR, others: tuple[int, ...], x: int) -> dict[tuple[object, ...], Fraction]:
    """What the proof gives the observer: names and reports of those not hidden, and the hidden ones, sorted."""
    laws = [mechanism.law(z) for z in range(3)]
    hidden = tuple(min(laws[0][y], laws[1][y]) if y < 2 else Fraction(0) for y in range(8))
    found: dict[tuple[object, ...], Fraction] = {}
    people = len(others)
    for chosen in product(range(16), repeat=people + 1):
        chance, named, unseen = Fraction(1), [], []
        for who, (place, z) in enumerate(zip(chosen, (*others, x), strict=True)):
            output, is_hidden = place % 8, place < 8
            chance *= hidden[output] if is_hidden else laws[z][output] - hidden[output]
            (unseen if is_hidden else named).append((who, output))
        if chance == 0:
            continue
        kept = tuple(sorted(output for _, output in unseen))
        named_others = tuple((who, output) for who, output in named if who < people)
        victim = [output for who, output in named if who == people]
        if not victim:
            _add(found, (named_others, kept), chance)
            continue
        free = [who for who in range(people) if who not in dict(named_others)]
        for who in free:
            _add(found, (tuple(sorted([*named_others, (who, victim[0])])), kept), chance / len(free))
        if not free:
            _add(found, ("lost",), chance)
    return found


def _add(found: dict[tuple[object, ...], Fraction], at: tuple[object, ...], chance: Fraction) -> None:
    found[at] = found.get(at, Fraction(0)) + chance


@pytest.mark.parametrize("others", [(2, 2), (0, 2), (0, 1)])
def test_the_revealed_view_has_the_density_of_the_proof(others: tuple[int, int]) -> None:
    """For all views: ways · (Σ of the named densities + the hidden) · the product of all laws / number of places."""
    laws = [SPARSE.law(z) for z in range(3)]
    hidden = tuple(min(laws[0][y], laws[1][y]) if y < 2 else Fraction(0) for y in range(8))
    assert sum(hidden) == rappor_whole_law(SPARSE).hidden
    for x in (0, 1):
        found = revealed(SPARSE, others, x)
        lost = found.pop(("lost",), Fraction(0))
        assert lost == (1 - sum(hidden)) ** 3
        for (named, kept), chance in found.items():
            assert isinstance(named, tuple)
            assert isinstance(kept, tuple)
            ways = math.factorial(len(kept)) // math.prod(math.factorial(kept.count(y)) for y in set(kept))
            rest = [laws[others[who]][output] - hidden[output] for who, output in named]
            densities = [
                (laws[x][output] - hidden[output], mass) for (_, output), mass in zip(named, rest, strict=True)
            ]
            total = sum((own / mass for own, mass in densities if mass), Fraction(len(kept)))
            whole = math.prod(rest, start=Fraction(1)) * math.prod((hidden[y] for y in kept), start=Fraction(1))
            places = len(others) + 1 - len(named)
            if places:
                assert chance == whole * ways * total / places


@settings(deadline=None, max_examples=40)
@given(
    categories=st.sampled_from([2, 3, 40]),
    numerators=st.tuples(st.integers(2**20, 2**32 - 2**20), st.integers(2**20, 2**32 - 2**20)),
    exponent=st.floats(0, 12),
    share=st.floats(0, 0.999),
    dummies=st.sampled_from([0, 30]),
)
def test_no_attack_is_above_it_and_it_falls_in_the_reports(
    categories: int, numerators: tuple[int, int], exponent: float, share: float, dummies: int
) -> None:
    mechanism = RAPPOR.from_numerators(categories, max(numerators), min(numerators))
    reports, epsilon = int(10**exponent), share * mechanism.epsilon_local
    if epsilon > 100:
        return
    upper = BOUNDS["whole-law"].delta(mechanism, reports, epsilon, dummies)[1]
    assert BOUNDS["rappor-lower"].delta(mechanism, reports + dummies, epsilon)[0] <= upper
    assert BOUNDS["whole-law"].delta(mechanism, 3 * reports, epsilon, dummies)[1] <= upper * 1.02


@settings(deadline=None, max_examples=12)
@given(
    categories=st.sampled_from([2, 3, 40]),
    numerators=st.tuples(st.integers(2**28, 2**32 - 2**28), st.integers(2**28, 2**32 - 2**28)),
    exponent=st.floats(2, 7),
    deviations=st.floats(0, 6),
)
def test_balls_find_no_more_than_doubles(
    categories: int, numerators: tuple[int, int], exponent: float, deviations: float
) -> None:
    """Both are upper ends; that of balls is finer, so what doubles state is proven."""
    mechanism = RAPPOR.from_numerators(categories, max(numerators), min(numerators))
    law, reports = rappor_whole_law(mechanism), int(10**exponent)
    epsilon = min(deviations * math.sqrt(law.variance() / reports), 0.9 * mechanism.epsilon_local)
    found = law.log_delta(reports, epsilon)
    if found.upper < 0:
        proven = float(whole_law_delta(mechanism, reports, Fraction(epsilon)).upper)
        assert math.exp(found.upper) * 0.97 <= proven <= math.exp(found.upper) * (1 + 5e-3)


@pytest.mark.parametrize(("categories", "local"), [(4, 1.0), (4, 2.0), (2, 2.0), (100, 4.0)])
@pytest.mark.parametrize("reports", [1000, 100_000])
def test_it_is_close_to_the_attack(categories: int, local: float, reports: int) -> None:
    mechanism = RAPPOR.from_local_epsilon(categories, local)
    found = epsilon_bracket(mechanism, reports, 1e-6)
    assert found.epsilon_lower is not None
    assert found.bound == "whole-law"
    assert found.epsilon_upper <= 1.005 * found.epsilon_lower
    composed = compose([Part(mechanism, reports, 100)], 1e-6)
    assert composed.epsilon_lower is not None
    assert composed.epsilon_upper <= 1.03 * composed.epsilon_lower


def test_each_value_of_the_others_is_needed() -> None:
    """A third value is worst among many; among few, the victim's other value is: no law may be left out."""
    values = rappor_whole_law(RAPPOR.from_local_epsilon(4, 2.0)).values
    moments = [[sum(at.mass * (at.first - at.second) ** power for at in each) for power in (2, 4)] for each in values]
    assert moments[0][0] > max(each[0] for each in moments[1:])
    assert max(at.first - at.second for at in values[2]) >= max(at.first - at.second for at in values[1])


def test_all_pairs_of_values_are_alike() -> None:
    laws: list[Law] = [PLAIN.law(x) for x in range(3)]
    views = {
        frozenset(
            (divergence(batch_view((laws[x], laws[z])), batch_view((laws[y], laws[z])), 0.2), z in (x, y))
            for z in range(3)
        )
        for x, y in combinations(range(3), 2)
    }
    assert len(views) == 1


@pytest.mark.parametrize(("local", "reports"), [(1e-7, 1), (1e-10, 10**12), (1e-12, 10**8)])
def test_rounds_of_a_tiny_signal_are_not_below_an_attack_on_one(local: float, reports: int) -> None:
    """δ is far below 1e-16 here: no step may compute it as a difference of numbers near 1."""
    share = Fraction(round(local / 4 * 2**70), 2**70)
    mechanism = RAPPOR(3, Fraction(1, 2) + share, Fraction(1, 2) - share)
    for part in (0.5, 0.9):
        epsilon = part * mechanism.epsilon_local / math.sqrt(reports)
        attack = BOUNDS["rappor-lower"].delta(mechanism, reports, epsilon)[0]
        grid = dominating_grid(Part(mechanism, reports), 40.0)
        assert 0 < attack <= grid.delta(epsilon) * (1 + 1e-12)


def test_the_chance_that_nobody_is_hidden_is_rounded_up() -> None:
    mechanism = RAPPOR(2, Fraction(30440, 7845099747), Fraction(5, 2178284556))
    law = rappor_whole_law(mechanism)
    assert law.log_charge(33) >= 33 * math.log(1 - law.hidden)


def test_rounds_of_probabilities_that_no_grid_resolves_are_refused_before_memory_is_taken() -> None:
    part = Part(RAPPOR(3, Fraction(1, 2**55), Fraction(1, 2**56)), 1, 3)
    with pytest.raises(AccountingError, match=r"losses need a grid of \d+ points, and at most 67108864 are computed"):
        compose([part], 1e-6)
