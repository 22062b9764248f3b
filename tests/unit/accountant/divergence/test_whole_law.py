"""The sums of the bound by all that others send: what is left out of them is charged, and what is joined is above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.divergence import whole_laplace, whole_law
from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.losses.grid import lower_hull

HIDDEN = 0.01

LIMIT = 1e-9
"""What the plain sums below may be wrong by, relatively."""

DRAWN = st.tuples(
    st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=8),
    st.lists(st.floats(0.01, 1.0), min_size=9, max_size=9),
)
"""Steps of V, and weights: the first one is that of no step."""

PEOPLE = st.sampled_from([3, 20, 300, 10**4, 10**6])


def value(drawn: tuple[list[float], list[float]], people: int) -> IidSum:
    steps, weights = drawn
    chances = np.array(weights[: len(steps) + 1]) / sum(weights[: len(steps) + 1])
    masses, left = tuple(map(float, chances[1:])), float(chances[0])
    return IidSum(people, tuple(steps), masses, -0.1, left, max(0.0, *steps), 1 / people)


def nodes_of(sums: IidSum, share: float) -> whole_law._WeightedNodes:
    spread = math.sqrt(sums.draws * sum(mass * step**2 for mass, step in zip(sums.masses, sums.steps, strict=True)))
    return whole_law._WeightedNodes.of(share / max(spread, 1e-3), max(spread, 1e-3))


def plain(nodes: whole_law._WeightedNodes, sums: IidSum) -> Array:
    """The larger of |G| and |h| over G(0) at every node, from the masses alone."""
    masses = np.array(sums.masses) * np.exp(nodes.tilt * np.array(sums.steps))
    rest = 1 - sum(sums.masses)
    waves = np.exp(1j * np.multiply.outer(nodes.places, sums.steps)) @ masses + rest
    found: Array = np.maximum(np.abs(waves), np.abs(waves - HIDDEN)) / (masses.sum() + rest)
    return found


@settings(deadline=None, max_examples=60)
@given(DRAWN, PEOPLE, st.floats(0.1, 8.0))
def test_a_node_that_is_left_out_is_below_what_is_charged(
    drawn: tuple[list[float], list[float]], people: int, share: float
) -> None:
    sums = value(drawn, people)
    nodes, power = nodes_of(sums, share), (people - 1) // 2 * 2
    draws = whole_law._TiltedValues.of(nodes.tilt, HIDDEN, [sums])
    loud, quiet = nodes._loud(draws, power)
    sizes = power * np.log(np.maximum(plain(nodes, sums)[~loud], 1e-300))
    assert np.all(sizes <= whole_law._QUIET + LIMIT * power)
    assert loud[0]
    # β·A^N, N + 1 times divided by G(0), is charged at each.
    each = HIDDEN * math.exp(whole_law._QUIET - float(draws.log_top[0]))
    assert float(quiet[0]) >= each * float(nodes.weights[~loud].sum()) * (1 - LIMIT)


def everything(nodes: whole_law._WeightedNodes, draws: whole_law._TiltedValues, power: int) -> tuple[Array, Array]:
    return np.ones(len(nodes.places), dtype=bool), np.zeros(len(draws.steps))


LATTICE = ([1.0, -1.0], [0.2, 0.4, 0.4] + [0.1] * 6)
SPREAD = ([0.31, -0.74, 1.13, -0.2], [0.1, 0.2, 0.3, 0.2, 0.2] + [0.1] * 4)


@pytest.mark.parametrize("people", [2, 3, 30, 1000, 10**5])
@pytest.mark.parametrize("drawn", [LATTICE, SPREAD], ids=["a lattice", "no lattice"])
def test_nodes_that_are_left_out_change_nothing_that_counts(
    monkeypatch: pytest.MonkeyPatch, drawn: tuple[list[float], list[float]], people: int
) -> None:
    sums = value(drawn, people)
    nodes = nodes_of(sums, 4.0)
    draws = whole_law._TiltedValues.of(nodes.tilt, HIDDEN, [sums])
    loud, _ = nodes._loud(draws, (people - 1) // 2 * 2)
    # On a lattice |G| returns to 1, so most nodes of a few people are looked at.
    assert loud.all() or people > 3
    assert loud.sum() < len(loud) / 3 or people < 1000
    (found,) = nodes.parts([sums], HIDDEN)
    monkeypatch.setattr(whole_law._WeightedNodes, "_loud", everything)
    (whole,) = nodes.parts([sums], HIDDEN)
    assert found.upper >= whole.upper - 1e-14 * abs(whole.upper)
    assert found.upper == pytest.approx(whole.upper, rel=1e-12, abs=1e-12)


def test_values_that_are_evaluated_together_are_each_as_alone() -> None:
    """Also if one has fewer steps, or is not known: its charge is far too large."""
    few, many = (value(drawn, 1000) for drawn in (LATTICE, SPREAD))
    # A step of 10¹⁵ is lost in the rounding of its phase.
    wild = replace(few, steps=(1e-3, -1e15))
    nodes = nodes_of(many, 4.0)
    together = nodes.parts([few, wild, many], HIDDEN)
    assert together[1].upper == math.inf
    for found, each in zip(together[::2], (few, many), strict=True):
        (alone,) = nodes.parts([each], HIDDEN)
        assert found.upper == pytest.approx(alone.upper, rel=1e-12)
        assert found.lower == pytest.approx(alone.lower, rel=1e-12)
        assert found.lower < found.upper


def test_values_whose_steps_are_of_one_grid_share_its_sines() -> None:
    every = (-1.5, -0.7, -0.2, 0.3, 0.9, 1.6)
    some = [every[1:], every[:-1], every[:3] + every[4:]]
    sums = [value((list(steps), [1.0, *(0.1 + 0.05 * place for place in range(len(steps)))]), 999) for steps in some]
    nodes = nodes_of(sums[0], 4.0)
    shared = whole_law._TiltedValues.of(nodes.tilt, HIDDEN, sums)
    assert shared.steps.tolist() == [list(every)]
    assert shared.masses.shape == (3, 6)
    for found, each in zip(nodes.parts(sums, HIDDEN), sums, strict=True):
        (alone,) = nodes.parts([each], HIDDEN)
        assert found.upper == pytest.approx(alone.upper, rel=1e-12)
        assert found.lower == pytest.approx(alone.lower, rel=1e-12)
        assert found.lower < found.upper


HEIGHTS = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=30)


@given(HEIGHTS)
def test_corners_are_those_of_the_hull(heights: list[float]) -> None:
    x, y = np.arange(len(heights), dtype=float), np.array(heights)
    corners = whole_laplace._corners(x, y)
    exact = lower_hull(x, y)
    # Points on the hull's edges may be corners of either: so what counts is the function.
    assert np.interp(x, x[corners], y[corners]) == pytest.approx(np.interp(x, x[exact], y[exact]), abs=1e-12)
    assert corners[0] == 0
    assert corners[-1] == len(heights) - 1


def potential(values: whole_laplace._Values, places: list[int]) -> Array:
    """E(U − s)₊ of the law of these cells, at every s of the grid."""
    steps, masses = values.cells.law(places)
    at = values.cells.grid
    found: Array = np.maximum(steps[None, :] - at[:, None], 0.0) @ masses
    return found + (1 - masses.sum()) * np.maximum(-at, 0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.9])
def test_the_law_of_several_cells_is_above_that_of_each(epsilon: float) -> None:
    values = whole_laplace._Values(whole_laplace._cells(1.0, epsilon), 1000, epsilon, 0.01)
    for group in ([0, 1, 2], [4, 15], list(range(len(values.cells.heights)))):
        joined = potential(values, group)
        for place in group:
            assert np.all(joined >= potential(values, [place]) - 1e-13)


class GuessesNothing(whole_laplace._Values):
    """Values that recommend to join all cells, whatever that adds."""

    def merged_top(self, places: Sequence[int], tilt: float) -> float:  # noqa: ARG002 - it looks at nothing
        return -1e6


def largest_of_all(law: whole_laplace.HiddenLaplace, values: whole_laplace._Values) -> float:
    """The largest sum of each cell by itself, at the tilt that the bound takes."""
    people, cells = values.people, len(whole_laplace._EDGES) - 1
    ends = [values.merged([0]), values.merged([cells - 1])]
    laws = [(np.array(each.steps), np.array(each.masses)) for each in ends]
    most = max(float(masses @ steps**2) for steps, masses in laws)
    highest = max(abs(step) for each in ends for step in each.steps)
    top = min(whole_law._LARGEST_EXPONENT / highest, whole_law._FARTHEST / math.sqrt(people * most))
    nodes = whole_law._WeightedNodes.of(*whole_law._tilt(ends, laws, top))
    tops = [nodes.at_most(each, people, -math.expm1(values.epsilon)) for each in values.tops(nodes.tilt).tolist()]
    alone = [values.merged([place]) for place in range(len(values.cells.heights))]
    parts = nodes.parts(alone, float(law.hidden))
    return max(min(each.upper, known) for each, known in zip(parts, tops, strict=True))


@pytest.mark.parametrize("of", [whole_laplace._Values, GuessesNothing])
@pytest.mark.parametrize(("local", "people"), [(1.0, 101), (1.0, 10**5), (4.0, 10**4), (0.3, 10**3)])
@pytest.mark.parametrize("deviations", [0.0, 1.0, 4.0])
def test_cells_that_are_joined_are_above_each_of_them_and_add_little(
    of: type[whole_laplace._Values], local: float, people: int, deviations: float
) -> None:
    """A wrong guess of what may be joined costs time, and nothing else."""
    law = whole_laplace.HiddenLaplace(local, Fraction(30, 10**6) if people > 10**4 else Fraction(1, 100))
    epsilon = deviations * math.sqrt(law.variance() / people)
    values = of(whole_laplace._cells(local, epsilon), people, epsilon, law.share)
    ends = [values.merged([0]), values.merged([len(whole_laplace._EDGES) - 2])]
    found = whole_law.bound(float(law.hidden), ends, -math.inf, values)
    largest = largest_of_all(law, values)
    assert largest - LIMIT <= found.upper <= largest + whole_law._ENOUGH + LIMIT
