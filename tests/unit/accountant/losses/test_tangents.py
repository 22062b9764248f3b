"""Pairs on a grid from below: no curve is above that of the atoms, in either direction, and hardly any is far below."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import LossGrid, connect_dots
from hubbub.accountant.losses.tangents import coarser_below, tangent_grid, tangent_grid_of

MASS = st.floats(1e-12, 1.0)
ATOMS = st.lists(st.tuples(MASS, st.floats(1e-6, 8.0)), min_size=1, max_size=12)
"""Weights, and losses above 0."""


def sides(drawn: list[tuple[float, float]], share: float) -> tuple[Array, Array]:
    """Q-masses and P − Q of atoms whose P-masses add up to `share`."""
    weights = np.array([weight for weight, _ in drawn])
    p = share * weights / weights.sum()
    losses = np.array([loss for _, loss in drawn])
    return p * np.exp(-losses), p * -np.expm1(-losses)


def hockey_stick(p: Array, q: Array, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def places(drawn: list[tuple[float, float]], grid: LossGrid) -> list[float]:
    """Where curves bend, and between."""
    losses = np.array([loss for _, loss in drawn])
    near = np.concatenate([losses, -losses, losses + grid.step / 2, losses - grid.step / 2])
    return [*near.tolist(), *np.linspace(-9, 9, 37).tolist(), 0.0]


@given(ATOMS, st.floats(0.01, 1.0))
@example([(1.0, 1.0)], 0.5)
@example([(1.0, 1e-6), (1e-9, 8.0)], 0.5)
def test_a_symmetric_pair_dominates_its_grid(drawn: list[tuple[float, float]], share: float) -> None:
    # With its mirror image an atom takes p + q of each law.
    q, gap = sides(drawn, share / 2)
    even = 1 - float((2 * q + gap).sum())
    below, above = (make([Atoms(q, gap, even, 0.0)]) for make in (tangent_grid, connect_dots))
    p, q = np.concatenate([q + gap, q, [even]]), np.concatenate([q, q + gap, [even]])
    assert below.masses.min() >= 0
    assert below.masses.sum() == pytest.approx(1, abs=1e-9)
    for epsilon in places(drawn, below):
        exact = hockey_stick(p, q, epsilon)
        assert below.delta(epsilon) <= exact * (1 + 1e-13) + 1e-16
        # The other grid has the same step, so each is about as far from the truth as they are from each other.
        assert exact - below.delta(epsilon) <= 2 * share * below.step + 1e-9
        assert above.delta(epsilon) >= exact * (1 - 1e-13) - 1e-15


@given(ATOMS, ATOMS, st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_any_pair_dominates_its_grid(
    drawn: list[tuple[float, float]], mirrored: list[tuple[float, float]], share: float, other: float
) -> None:
    q, gap = sides(drawn, share)
    low, excess = sides(mirrored, other)
    even = 1 - max(float((q + gap).sum() + low.sum()), float(q.sum() + (low + excess).sum()))
    # Both laws have the rest at ratio 1, but for what one has more than the other: that is at an infinite ratio.
    p = np.concatenate([q + gap, low, [even, 1 - even - float((q + gap).sum() + low.sum()), 0.0]])
    against = np.concatenate([q, low + excess, [even, 0.0, 1 - even - float(q.sum() + (low + excess).sum())]])
    below = tangent_grid_of((q, gap), (low, excess))
    for epsilon in places(drawn + mirrored, below):
        assert below.delta(epsilon) <= hockey_stick(p, against, epsilon) * (1 + 1e-12) + 1e-15


@given(st.lists(st.one_of(st.just(0.0), MASS), min_size=1, max_size=60), st.floats(1e-4, 0.5), st.integers(-40, 3))
@example([1.0], 0.1, 0)
@example([1.0, 0.5, 1.0], 2.0**-60, -1)
@example([1.0, 1.0], 0.1, 1)
@example([0.0, 1.0, 0.0, 1e-12], 0.3, -2)
@example([0.125, 0.99999, 0.0, 1e-12], 0.03125, 0)
def test_a_law_dominates_itself_on_every_other_point(drawn: list[float], step: float, first: int) -> None:
    p = np.concatenate([[0.0, 0.0], drawn, np.zeros(3 - len(drawn) % 2)])
    p = p / max(float(p.sum()), 1e-300)
    losses = (first + np.arange(len(p))) * step
    found = coarser_below(p, losses)
    at = losses[::2]
    assert len(found) == len(at)
    assert found.min() >= 0
    for epsilon in [*losses.tolist(), *(losses + step / 2).tolist(), -30.0, 30.0]:
        exact = hockey_stick(p, p * np.exp(-losses), epsilon)
        assert hockey_stick(found, found * np.exp(-at), epsilon) <= exact + 1e-15


def test_a_lattice_is_made_coarser_without_a_drift() -> None:
    """Atoms a hundred points from each other, all at odd points: merged with neighbors they would lose a step each."""
    count, spacing, step = 40, 100, 1e-4
    p = np.zeros(count * spacing + 4)
    places = 3 + spacing * np.arange(count)
    weights = np.exp(-(((np.arange(count) - 20) / 6) ** 2))
    p[places] = weights / weights.sum()
    p = np.append(p, [0.0] * (1 - len(p) % 2))
    losses = (np.arange(len(p)) - 2000) * step
    drift = float(p @ losses) - float(coarser_below(p, losses) @ losses[::2])
    assert 0 <= drift < step / 30
