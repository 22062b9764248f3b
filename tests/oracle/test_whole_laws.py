"""The bound by all that others send, of unknown randomizers, finite laws and noise: against every data set."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.composition import compose
from hubbub.accountant.divergence import whole_laplace
from hubbub.accountant.divergence.whole_law import WholeLaw
from hubbub.accountant.divergence.whole_laws import finite_whole_laws, law_of
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import RAPPOR, Common, Finite, Generic, Laplace, LocalMechanism, exp_decimal
from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.pairs import Part
from support.exact_batches import Law, View, batch_view

Array = NDArray[np.float64]

QUARTER = Fraction(1, 4)
TWO_OF_THREE = Finite(((2 * QUARTER, QUARTER, QUARTER), (QUARTER, 2 * QUARTER, QUARTER)))


def divergence(first: View, second: View, epsilon: float) -> Fraction:
    factor = Fraction(exp_decimal(epsilon))
    return sum(
        (max(Fraction(0), mass - factor * second.get(at, Fraction(0))) for at, mass in first.items()), Fraction()
    )


def batches(laws: Sequence[Law], reports: int) -> Iterator[tuple[View, View]]:
    for others in combinations_with_replacement(range(len(laws)), reports - 1):
        held = [laws[each] for each in others]
        for one, two in permutations(range(len(laws)), 2):
            yield batch_view((laws[one], *held)), batch_view((laws[two], *held))


def extreme(draw: random.Random, ratio: Fraction, outputs: int, inputs: int) -> list[Law]:
    """Draw a law of which every entry of a column is one of two, `ratio` apart: equal numbers of large ones a row."""
    large = draw.randint(1, outputs - 1)
    total = large * ratio + outputs - large
    rows = [set(draw.sample(range(outputs), large)) for _ in range(inputs)]
    return [tuple((ratio if y in row else Fraction(1)) / total for y in range(outputs)) for row in rows]


@pytest.mark.parametrize("reports", [1, 2, 3, 4])
@pytest.mark.parametrize("ratio", [Fraction(21, 20), Fraction(2), Fraction(6)], ids=str)
def test_no_randomizer_common_to_few_shows_more(ratio: Fraction, reports: int) -> None:
    draw, mechanism = random.Random(7), Common(log_above(ratio))
    for _ in range(4):
        laws = extreme(draw, ratio, draw.choice((2, 3, 4)), 3)
        for share in (0.0, 0.4, 0.9):
            epsilon = share * mechanism.epsilon_local
            upper = Fraction(BOUNDS["whole-law"].delta(mechanism, reports, epsilon)[1])
            assert all(divergence(*views, epsilon) <= upper for views in batches(laws, reports))


def test_no_places_with_randomizers_fixed_beforehand_show_more() -> None:
    draw, ratio = random.Random(3), Fraction(11, 10)
    mechanism = Common(log_above(ratio))
    for reports in (2, 3):
        rows = [extreme(draw, ratio, 3, 3) for _ in range(reports)]
        for others in product(range(3), repeat=reports - 1):
            views = [ordered(rows, (x, *others)) for x in range(3)]
            for one, two in permutations(range(3), 2):
                for epsilon in (0.0, 0.03):
                    upper = BOUNDS["whole-law"].delta(mechanism, reports, epsilon)[1]
                    assert divergence(views[one], views[two], epsilon) <= Fraction(upper)


def ordered(rows: Sequence[Sequence[Law]], answers: tuple[int, ...]) -> View:
    found: View = {}
    orders = list(permutations(answers))
    for order, outputs in product(orders, product(range(3), repeat=len(rows))):
        mass = Fraction(1, len(orders))
        for laws, answer, output in zip(rows, order, outputs, strict=True):
            mass *= laws[answer][output]
        found[outputs] = found.get(outputs, Fraction(0)) + mass
    return found


def count(chances: Sequence[float]) -> Array:
    """The law of the number of ones among independent bits."""
    found = np.ones(1)
    for chance in chances:
        found = np.convolve(found, [1 - chance, chance])
    return found


def of_bits(victims: tuple[float, float], others: Sequence[float], epsilon: float) -> float:
    held = count(others)
    first, second = (np.convolve(held, [1 - chance, chance]) for chance in victims)
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def worst_of_bits(chances: Sequence[float], people: int, epsilon: float) -> float:
    """The largest divergence, over mixes of two values of the others, of a report of one bit."""
    return max(
        of_bits((chances[x], chances[other]), [chances[one]] * some + [chances[two]] * (people - 1 - some), epsilon)
        for x, other in permutations(range(len(chances)), 2)
        for one, two in combinations(range(len(chances)), 2)
        for some in range(0, people, max(1, people // 5))
    )


@pytest.mark.parametrize("local", [0.1, 0.7, 1.5])
def test_no_bit_of_many_people_shows_more(local: float) -> None:
    """Two answers of binary response; a third is one of them, or the coin."""
    high, mechanism, people = math.exp(local) / (1 + math.exp(local)), Common(local), 240
    for share in (0.02, 0.1, 0.25):
        epsilon = share * local
        truth = worst_of_bits((high, 1 - high, 0.5), people, epsilon)
        upper = BOUNDS["whole-law"].delta(mechanism, people, epsilon)[1]
        assert truth * (1 - 1e-9) <= upper
        # Of so few a tenth is hidden; and response on three values shows more than one bit.
        assert upper <= 10 * truth


def test_weights_of_an_extreme_randomizer_are_mixtures_of_six() -> None:
    """The vanishing positive combinations of seven pairs: every other one is a sum of the six that are named."""
    pairs = {"100": (1, 0), "010": (0, 1), "101": (0, -1), "011": (-1, 0), "001": (-1, -1), "110": (1, 1)}
    minimal = []
    for size in (2, 3):
        for chosen in combinations(pairs, size):
            if any(set(one) < set(chosen) for one in minimal):
                continue
            vectors = np.array([pairs[each] for each in chosen], dtype=float).T
            _, values, last = np.linalg.svd(vectors)
            if int((values > 1e-9).sum()) == size - 1 and (np.all(last[-1] > 1e-9) or np.all(last[-1] < -1e-9)):
                minimal.append(chosen)
    expected = [{"100", "011"}, {"010", "101"}, {"001", "110"}, {"100", "010", "001"}, {"101", "011", "110"}]
    assert {frozenset(each) for each in minimal} == {frozenset(each) for each in expected}


@pytest.mark.parametrize("reports", [1, 2, 3])
def test_no_data_set_of_a_finite_law_shows_more(reports: int) -> None:
    draw = random.Random(11)
    for _ in range(6):
        inputs, outputs = draw.choice((2, 3)), draw.choice((2, 3))
        weights = [[draw.randint(1, 9) for _ in range(outputs)] for _ in range(inputs)]
        weights[0][0] += 3
        mechanism = Finite(tuple(tuple(Fraction(each, sum(row)) for each in row) for row in weights))
        if mechanism.likelihood_ratio == 1:
            continue
        for share in (0.0, 0.3, 0.8):
            epsilon = share * mechanism.epsilon_local
            upper = Fraction(BOUNDS["whole-law"].delta(mechanism, reports, epsilon)[1])
            assert all(divergence(*views, epsilon) <= upper for views in batches(mechanism.law, reports))


@pytest.mark.parametrize("chances", [("1/2", "1/4", "1/3"), ("9/10", "1/2", "1/5"), ("1/100", "1/50", "1/40")])
def test_no_bit_of_a_finite_law_of_many_shows_more(chances: tuple[str, ...]) -> None:
    ones = [Fraction(chance) for chance in chances]
    mechanism, people = Finite(tuple((one, 1 - one) for one in ones)), 200
    for share in (0.0, 0.05, 0.2):
        epsilon = share * mechanism.epsilon_local
        truth = worst_of_bits([float(one) for one in ones], people, epsilon)
        assert truth * (1 - 1e-9) <= BOUNDS["whole-law"].delta(mechanism, people, epsilon)[1]


def test_the_revealed_sum_is_above_every_data_set_of_three() -> None:
    """The proof's own sum, (1 − β)ⁿ + E*[(ΣV)₊], in fractions, for others of different values and any small M."""
    rows = [tuple(Fraction(each, 12) for each in row) for row in ((6, 3, 3), (3, 6, 3), (4, 2, 6))]
    for share, epsilon in product((Fraction(1, 10), Fraction(1, 3)), (0.0, 0.2)):
        factor = Fraction(exp_decimal(epsilon))
        hidden = tuple(share * (a + b) / 2 for a, b in zip(rows[0], rows[1], strict=True))
        beta = sum(hidden)
        for others in combinations_with_replacement(range(3), 2):
            total = Fraction(0)
            # Who of the others is hidden; one more always is. ∫ t^(c−1) dt = 1/c.
            for unseen in product((True, False), repeat=2):
                places = [
                    [(None, beta)]
                    if is_hidden
                    else [(y, rows[z][y] - hidden[y]) for y in range(3) if rows[z][y] > hidden[y]]
                    for z, is_hidden in zip(others, unseen, strict=True)
                ]
                for outputs in product(*places):
                    mass, value = beta / (1 + sum(unseen)), 1 - factor
                    for (y, chance), z in zip(outputs, others, strict=True):
                        mass *= chance
                        value += (
                            1 - factor
                            if y is None
                            else (rows[0][y] - factor * rows[1][y] - (1 - factor) * hidden[y])
                            / (rows[z][y] - hidden[y])
                        )
                    total += mass * max(value, Fraction(0))
            held = [rows[z] for z in others]
            truth = divergence(batch_view((rows[0], *held)), batch_view((rows[1], *held)), epsilon)
            assert truth <= (1 - beta) ** 3 + total


def test_values_are_those_of_the_laws() -> None:
    first, second, third = ((Fraction(each, 8) for each in row) for row in ((4, 2, 2), (2, 4, 2), (2, 2, 4)))
    law = law_of(tuple(first), tuple(second), (Fraction(1, 8),) * 3, [tuple(third)])
    assert isinstance(law, WholeLaw)
    assert law.hidden == Fraction(3, 8)
    for points in law.values:
        assert sum(at.mass for at in points) == 1 - law.hidden
        assert sum(at.mass * at.first for at in points) == sum(at.mass * at.second for at in points) == 0


MECHANISMS: list[LocalMechanism] = [Common(0.1), Common(0.25), Common(1.0), TWO_OF_THREE, Laplace(1.0), Laplace(4.0)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("reports", [10_000, 100_000])
def test_it_is_close_to_the_attack(mechanism: LocalMechanism, reports: int) -> None:
    found = epsilon_bracket(mechanism, reports, 1e-6)
    assert found.bound == "whole-law"
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon_upper <= 1.03 * found.epsilon_lower


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_rounds_are_close_to_the_attack(mechanism: LocalMechanism) -> None:
    composed = compose([Part(mechanism, 10_000, 100)], 1e-6)
    assert composed.epsilon_lower is not None
    assert composed.epsilon_lower <= composed.epsilon_upper <= 1.06 * composed.epsilon_lower
    assert composed.numerical_slack < 2e-3


@pytest.mark.parametrize("mechanism", [RAPPOR(2, Fraction(1, 2), Fraction(1, 5)), Common(0.5), TWO_OF_THREE], ids=repr)
def test_more_people_never_raise_it(mechanism: LocalMechanism) -> None:
    """One report more is a post-processing; among few an even number was above the odd one before it."""
    for share in (0.0, 0.05):
        epsilon = share * mechanism.epsilon_local
        found = [BOUNDS["whole-law"].delta(mechanism, reports, epsilon)[1] for reports in range(1, 60)]
        assert all(more <= fewer * (1 + 1e-9) for fewer, more in pairwise(found))


def test_places_that_may_choose_have_the_stronger_clones_still() -> None:
    assert epsilon_bracket(Generic(0.25), 10_000, 1e-6).bound == "stronger-clones"
    with pytest.raises(OutsideConditions, match="common to all"):
        BOUNDS["whole-law"].epsilon(Generic(0.25), 10_000, 1e-6)


def test_a_law_of_few_of_its_inputs_is_not_covered() -> None:
    """Three of its inputs at once need not look like three others, so the others' values are not known."""
    sixths = [tuple(Fraction(each, 6) for each in row) for row in ((3, 2, 1), (2, 3, 1))]
    assert finite_whole_laws(Finite(tuple(sixths))) is not None
    for least in (Fraction(1, 9), Fraction(1, 6)):
        assert finite_whole_laws(Finite(tuple(sixths), (Fraction(1, 3), Fraction(1, 3), least))) is None


EDGES: list[LocalMechanism] = [
    Common(1e-16),
    Common(20.0),
    Finite(((Fraction(1, 2**56), 1 - Fraction(1, 2**56)), (Fraction(2, 2**56), 1 - Fraction(2, 2**56)))),
    Finite(
        ((Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 2) + Fraction(1, 2**60), Fraction(1, 2) - Fraction(1, 2**60)))
    ),
    Laplace(0.1),
    Laplace(8.0),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mechanism", EDGES, ids=repr)
@pytest.mark.parametrize("reports", [1, 2, 3, 10**12])
def test_edges_are_answered_and_above_the_attack(mechanism: LocalMechanism, reports: int) -> None:
    # A probability of 2⁻⁵⁶ among so many leaves no double to the blanket, which refuses.
    if isinstance(mechanism, Finite) and min(mechanism.law[0]) < 1e-12 and reports > 3:
        return
    for delta in (1e-30, 1e-6, 0.5):
        found = epsilon_bracket(mechanism, reports, delta)
        assert found.epsilon_lower is not None
        assert 0 <= found.epsilon_lower <= found.epsilon_upper <= mechanism.epsilon_local
    for share in (0.0, 1e-9, 0.5, 0.999):
        upper = BOUNDS["whole-law"].delta(mechanism, reports, share * mechanism.epsilon_local)[1]
        attack = {Common: "krr-lower", Finite: "finite-lower", Laplace: "ends-lower"}[type(mechanism)]
        assert BOUNDS[attack].delta(mechanism, reports, share * mechanism.epsilon_local)[0] <= upper


# Laplace noise


def density(answer: float, report: Array) -> Array:
    found: Array = np.exp(-np.abs(report - answer)) / 2
    return found


def integral(x: float, other: float, z: float, kappa: float, power: float) -> float:
    """∫ (R_x − αR_x' − κR_z)₊, by the areas below 0, above 1 (one exponential each) and a fine grid between."""
    top = max(x, other, z)
    grid = np.linspace(-45.0, top + 45.0, 400_001)
    values = np.maximum(density(x, grid) - power * density(other, grid) - kappa * density(z, grid), 0.0)
    return float(np.trapezoid(values, grid))


@settings(deadline=None, max_examples=60)
@given(
    length=st.sampled_from([0.1, 1.0, 4.0, 8.0]),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
    level=st.floats(-1, 1),
    strength=st.floats(0, 1),
)
def test_every_data_set_is_below_a_cell(
    length: float, shares: tuple[float, float, float], level: float, strength: float
) -> None:
    """For any two answers of the victim and any of another person, at any place of the potential."""
    x, other, z = (share * length for share in shares)
    epsilon = strength * length
    power = math.exp(epsilon)
    cells = whole_laplace._CellPotentials.of(length, power)
    low, high = float(cells.grid[0]), float(cells.grid[-1])
    at = level**3 * (high if level > 0 else -low)
    truth = integral(x, other, z, at + 1 - power, power)
    assert truth <= float(max(np.interp(at, cells.grid, each) for each in cells.heights)) + 1e-7 * (1 + power + abs(at))
    kind, parameter = family(x, other, z, length)
    edges = whole_laplace._EDGES
    place = min(int(np.searchsorted(edges, parameter, side="right")) - 1, len(edges) - 2)
    height = float(np.interp(at, cells.grid, cells.heights[kind * (len(edges) - 1) + place]))
    assert truth <= height + 1e-7 * (1 + power + abs(at))


@settings(deadline=None, max_examples=200)
@given(
    length=st.sampled_from([0.1, 0.5, 2.0, 8.0]),
    shares=st.tuples(*[st.sampled_from([0.0, 1.0]) | st.floats(0, 1)] * 4),
    strength=st.floats(0, 1),
)
def test_no_report_is_beyond_the_grid(
    length: float, shares: tuple[float, float, float, float], strength: float
) -> None:
    """By the densities alone; if two of the others' places are 0 or L, one of its ends is reached."""
    power = math.exp(strength * length)
    x, other, z, report = (share * length for share in shares)
    likely, less, theirs = (math.exp(-abs(report - answer)) for answer in (x, other, z))
    grid = whole_laplace._CellPotentials.of(length, power).grid
    moved = (likely - power * less) / theirs - (1 - power)
    assert grid[0] <= moved <= grid[-1]
    assert grid[-1] <= math.expm1(length) * (1 + 1e-8)
    assert grid[0] >= -power * math.expm1(length) * (1 + 1e-8)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4, 0.5, 0.8, 0.99])
def test_a_small_local_epsilon_is_answered_far_beyond_what_any_attack_reaches(share: float) -> None:
    """Among so many, mass that rounding puts beyond the largest V was once more than all of δ."""
    mechanism, people = Laplace(0.1), 10_000
    low, high = BOUNDS["whole-law"].delta(mechanism, people, share * 0.1)
    attack, others = (BOUNDS[name].delta(mechanism, people, share * 0.1) for name in ("ends-lower", "stronger-clones"))
    assert attack[0] <= high
    assert low <= high <= max(others[1], 1e-300)


def family(x: float, other: float, z: float, length: float) -> tuple[int, float]:
    """Which family the stretched answers belong to, and the parameter as a share of L."""
    span = max(x, other, z) - min(x, other, z)
    if span == 0:
        return 1, 1.0
    if min(x, other) <= z <= max(x, other):
        return 0, abs(z - x) / span
    return (1, abs(x - z) / span) if abs(other - z) >= abs(x - z) else (2, abs(other - z) / span)


@pytest.mark.parametrize("length", [0.3, 1.0, 4.0])
def test_laws_of_cells_are_above_all_that_they_cover(length: float) -> None:
    """The atoms' own potential: no rounding and no hull has lowered it below that of a parameter in the cell."""
    power = math.exp(length / 50)
    cells, edges = whole_laplace._CellPotentials.of(length, power), length * whole_laplace._EDGES
    kappa = cells.grid + 1 - power
    families = (whole_laplace.between, whole_laplace.before, whole_laplace.beyond)
    for (kind, exact), (place, low) in product(enumerate(families), enumerate(edges[:-1])):
        steps, masses = cells.law([kind * (len(edges) - 1) + place])
        reached = np.maximum(steps[None, :] - cells.grid[:, None], 0.0) @ masses
        reached += (1 - masses.sum()) * np.maximum(-cells.grid, 0.0)
        for share in (0.0, 0.4, 1.0):
            at = low + share * (edges[place + 1] - low)
            truth = exact(kappa, np.full(1, at), length, power)
            assert np.all(reached >= truth - 1e-14 * (1 + power + np.abs(kappa)))
        assert masses @ steps >= -1e-12
        assert masses.sum() <= 1 + 1e-12


@pytest.mark.parametrize("length", [0.5, 1.0, 4.0])
def test_no_split_of_noisy_reports_of_many_shows_more(length: float) -> None:
    """Whether a report is beyond a place, with others of any two answers: a post-processing of the batch."""
    people, mechanism = 150, Laplace(length)
    answers = (0.0, 0.3, 0.6, 1.0)
    for cut, share in product((0.2, 0.5, 1.0), (0.0, 0.03)):
        chances = [float(1 - Fraction(mechanism.below(Fraction(str(each)), Fraction(str(cut))))) for each in answers]
        epsilon = share * length
        upper = BOUNDS["whole-law"].delta(mechanism, people, epsilon)[1]
        assert worst_of_bits(chances, people, epsilon) * (1 - 1e-9) <= upper
