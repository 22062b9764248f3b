"""Attacks that compose: both curves of a data set against exact enumeration, and two rounds of real batches."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hubbub.accountant.composition import compose_delta
from hubbub.accountant.divergence.attacks import rappor_attack_points
from hubbub.accountant.divergence.sums import SumPoints, binary_points
from hubbub.accountant.losses.attack_curves import DataSetCurve, attack_curves_grid
from hubbub.accountant.losses.curves import blanket_curve
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import RAPPOR, AnyMechanism, Finite, Generic, Laplace, exp_decimal
from hubbub.accountant.pairs import Part, attack_grid, local_pairs
from support.exact_batches import View, batch_view

LOPSIDED = Finite(
    (
        (Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)),
        (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)),
        (Fraction(1, 16), Fraction(11, 16), Fraction(1, 4)),
    )
)
ATTACKED: tuple[AnyMechanism, ...] = (
    RAPPOR(3, Fraction(3, 4), Fraction(1, 4)),
    RAPPOR(5, Fraction(1, 2), Fraction(1, 30)),
    RAPPOR(2, Fraction(1, 2), Fraction(1, 8)),
    LOPSIDED,
    Finite(((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 10), Fraction(9, 10)))),
    Generic(0.5),
)
POWERS = np.exp(np.linspace(-3.5, 3.5, 141))
"""Values of e^ε, of both signs of ε."""


def views(points: SumPoints, people: int) -> tuple[View, View]:
    """The batch with each of the victim's two laws among others of law ω, from the points (μ/ω, μ'/ω, ω)."""
    masses = [Fraction(mass) for mass in points.masses]
    first, second = (
        tuple(mass * Fraction(each, below) for mass, each, below in zip(masses, side, points.denominators, strict=True))
        for side in (points.firsts, points.seconds)
    )
    others = (tuple(masses),) * (people - 1)
    return batch_view((*others, first)), batch_view((*others, second))


def hockey_sticks(p: View, q: View) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Σ (p − αq)₊ at every α of `POWERS`: the masses are exact, and rounded once."""
    first, second = (np.array([float(side[at]) for at in p]) for side in (p, q))
    return np.array([np.maximum(first - power * second, 0.0).sum() for power in POWERS])


def on_the_grid(grid: LossGrid) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    ratios = np.exp(-grid.losses)
    return np.array([np.maximum(grid.masses * (1 - power * ratios), 0.0).sum() for power in POWERS])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("people", [1, 3, 6])
@pytest.mark.parametrize("mechanism", ATTACKED, ids=repr)
def test_both_curves_of_the_grid_are_below_the_data_sets_own(mechanism: AnyMechanism, people: int) -> None:
    """For every factor e^ε, also below 1: that is what products with other pairs rest on."""
    points = local_pairs(mechanism).attacking_points(Part(mechanism, people))
    assert points is not None
    p, q = views(points, people)
    grid = attack_curves_grid(points, local_pairs(mechanism).local_epsilon, people, 40.0)
    found = on_the_grid(grid)
    # Either law may be the first, but the same one for every factor.
    ways = [hockey_sticks(*each) for each in ((p, q), (q, p))]
    assert any(np.all(found <= exact * (1 + 1e-12) + 1e-15) for exact in ways)
    assert np.all(found >= 0.95 * np.minimum(*ways) - 1e-3)


@pytest.mark.parametrize("people", [2, 5, 12])
@pytest.mark.parametrize("local", [0.1, 0.69])
def test_both_curves_of_binary_response_are_below_its_own(local: float, people: int) -> None:
    """An unknown randomizer is attacked so among many; here among few, where its curves are known exactly."""
    points = binary_points(Generic(local))
    p, q = views(points, people)
    found = on_the_grid(attack_curves_grid(points, local, people, 40.0))
    ways = [hockey_sticks(*each) for each in ((p, q), (q, p))]
    assert any(np.all(found <= exact * (1 + 1e-12) + 1e-15) for exact in ways)
    assert np.all(found >= 0.95 * np.minimum(*ways) - 1e-3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize("mechanism", ATTACKED[2:], ids=repr)
def test_two_rounds_of_the_attack_are_below_two_real_batches(mechanism: AnyMechanism, people: int) -> None:
    points = local_pairs(mechanism).attacking_points(Part(mechanism, people))
    assert points is not None
    p, q = views(points, people)
    cells = [(p[at], q[at]) for at in p]
    for share in (0.0, 0.5, 1.3):
        epsilon = share * local_pairs(mechanism).local_epsilon
        power = Fraction(exp_decimal(epsilon))
        both = list(product(cells, cells))
        truths = (
            sum(max(Fraction(0), a * c - power * b * d) for (a, b), (c, d) in both),
            sum(max(Fraction(0), b * d - power * a * c) for (a, b), (c, d) in both),
        )
        found = compose_delta([Part(mechanism, people, 2)], epsilon)
        assert found.delta_lower is not None
        assert 0.9 * float(min(truths)) - 2e-3 <= found.delta_lower <= max(truths) <= found.delta_upper


@pytest.mark.parametrize("local", [0.4, 2.0])
def test_laplace_noise_in_cells_is_below_two_reports_in_cells(local: float) -> None:
    mechanism = Laplace(local)
    points = local_pairs(mechanism).attacking_points(Part(mechanism, 2))
    grid = attack_grid(Part(mechanism, 2), 40.0)
    assert points is not None
    assert grid is not None
    masses = np.array(points.masses)
    first, second = (
        np.array([each / below for each, below in zip(side, points.denominators, strict=True)])
        for side in (points.firsts, points.seconds)
    )
    p, q = (side[:, None] + side[None, :] for side in (first, second))
    together = masses[:, None] * masses[None, :] / 2
    ways = [
        np.array([(together * np.maximum(a - power * b, 0.0)).sum() for power in POWERS]) for a, b in ((p, q), (q, p))
    ]
    found = on_the_grid(grid)
    assert any(np.all(found <= exact * (1 + 1e-9)) for exact in ways)
    assert np.all(found >= 0.95 * np.minimum(*ways) - 1e-3)


def test_a_local_epsilon_a_million_deviations_away_takes_few_points() -> None:
    """Hardly any report says anything here, but one that does says all."""
    mechanism = RAPPOR(3, 1 - Fraction(1, 2 * 10**10), 1 - Fraction(1, 10**9))
    points = rappor_attack_points(mechanism)
    for each in (points, points.exchanged()):
        curve = blanket_curve(DataSetCurve(each), mechanism.epsilon_local, 2, 60.0)
        assert int(curve.places[-1]) > 10**5
        assert len(curve.places) < 2000
