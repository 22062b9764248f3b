import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hubbub.accountant.divergence import binomials
from hubbub.accountant.divergence.binomials import Binomial, fair_mass
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.convolution import coarsen, log_moment, power, tilted
from hubbub.accountant.losses.grid import LossGrid, connect_dots, symmetric_grid
from hubbub.accountant.losses.largest_curve import grid_from_curve
from hubbub.accountant.losses.tangents import tangent_grid
from hubbub.accountant.losses.walks import attack_walk, blanket_walk, contracted_atoms, spread_atoms
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part, attack_grid, dominated_grid, dominating_grid

SETTINGS = [
    Part(KRR.from_local_epsilon(4, 2.0), 1000),
    Part(KRR.from_local_epsilon(16, 4.0), 10**6),
    Part(KRR.from_local_epsilon(10**6, 5.0), 10**12),
    Part(KRR.from_local_epsilon(2, 1.0), 3000),
    Part(Generic(0.5), 10**9),
    Part(Generic(20.0), 10**6),
    Part(KRR.from_local_epsilon(3, 1.0), 500, dummies=200),
    Part(KRR.from_local_epsilon(3, 1.0), 500, clients=2000),
    Part(KRR.from_local_epsilon(16, 2.0), 10**10, dummies=10**10),
    Part(KRR.from_local_epsilon(16, 2.0), 2, dummies=10**10),
]


@pytest.mark.parametrize(
    ("trials", "chance"), [(10, "1/3"), (1000, "1/7"), (10**6, "1/3"), (10**12, "7/10"), (10**12, "1/1000000000")]
)
def test_masses_are_accurate_at_any_size(trials: int, chance: str) -> None:
    law = Binomial(trials, Fraction(chance))
    low, high = law.window(90.0)
    with mpmath.workdps(60):
        p = mpmath.mpf(law.probability.numerator) / law.probability.denominator
        for x in np.unique(np.linspace(low, high, 9).astype(np.int64)).tolist():
            ways = mpmath.loggamma(trials + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(trials - x + 1)
            exact = mpmath.exp(ways + x * mpmath.log(p) + (trials - x) * mpmath.log(1 - p))
            assert float(law.mass(np.array(float(x)))) == pytest.approx(float(exact), rel=1e-12)


def test_bins_by_quadrature_are_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Binomial(10**6, Fraction(1, 3))
    low, high = law.window(90.0)
    edges = low + 20 * np.arange((high - low) // 20 + 2)
    monkeypatch.setattr(binomials, "DIRECT_POINTS", 10**9)
    summed = law.bins(edges)
    monkeypatch.setattr(binomials, "DIRECT_POINTS", 0)
    for found, expected in zip(law.bins(edges), summed, strict=True):
        np.testing.assert_allclose(found, expected, rtol=binomials.MASS_ERROR)


def test_a_window_holds_all_but_the_tail() -> None:
    law = Binomial(500, Fraction(1, 100))
    low, high = law.window(20.0)
    outside = [x for x in range(501) if not low <= x <= high]
    assert 0 < float(law.mass(np.array(outside, dtype=float)).sum()) <= 2 * math.exp(-20)


def test_fair_masses_sum_to_one() -> None:
    assert float(fair_mass(np.arange(12.0), np.array(11.0)).sum()) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("part", SETTINGS, ids=repr)
def test_a_pair_keeps_all_mass_and_is_symmetric(part: Part) -> None:
    grid = dominating_grid(part, 40.0)
    assert float(grid.masses.sum()) + grid.infinite == pytest.approx(1.0, abs=1e-9)
    assert grid.infinite <= 1e-14
    mirrored = grid.masses * np.exp(-grid.losses)
    np.testing.assert_allclose(mirrored, grid.masses[::-1], rtol=1e-9)


@pytest.mark.parametrize("part", SETTINGS, ids=repr)
def test_the_lower_grid_lies_below_the_upper_one_and_near(part: Part) -> None:
    upper, lower = dominating_grid(part, 40.0), dominated_grid(part, 40.0)
    deviation = math.sqrt(float(upper.masses @ upper.losses**2))
    for epsilon in np.linspace(0, 5 * deviation, 7):
        above = upper.delta(float(epsilon))
        assert lower.delta(float(epsilon)) <= above * (1 + 1e-9)
    assert lower.delta(deviation) >= 0.8 * upper.delta(deviation)


@pytest.mark.parametrize(("reports", "epsilon"), [(60, 0.5), (500, 0.15)])
def test_spread_and_contracted_atoms_bracket_the_full_enumeration(reports: int, epsilon: float) -> None:
    walk = blanket_walk(reports, 2, Fraction(1, 2))
    factor = math.exp(epsilon)
    count = np.arange(reports + 1.0)
    ups = np.arange(reports + 1.0)[:, None]
    weight = Binomial(reports, walk.share).mass(count) * fair_mass(ups, count)
    d = float(walk.c) * (2 * ups - count)
    p, q = ((float(walk.a) * count + sign * d) * weight / float(walk.scale) for sign in (1, -1))
    exact = float(np.maximum(p - factor * q, 0).sum())

    def delta(atoms: list[Atoms]) -> float:
        return sum(float(np.maximum(part.q + part.gap - factor * part.q, 0).sum()) + part.cut for part in atoms)

    assert exact * (1 - 1e-9) <= delta(list(spread_atoms(walk, 60.0))) <= exact * 1.01
    below = sum(
        float(np.maximum(part.gap - math.expm1(epsilon) * part.q, 0).sum()) for part in contracted_atoms(walk, 60.0)
    )
    assert exact * 0.99 <= below <= exact * (1 + 1e-9)


def test_connected_dots_lie_above_and_touching_lines_below() -> None:
    atoms = [Atoms(np.array([0.05, 0.1, 0.12]), np.array([0.15, 0.07, 0.001]), 0.239, 0.0)]
    upper, lower = connect_dots(atoms), tangent_grid(atoms)
    for epsilon in np.linspace(-1, 1.5, 26):
        sides = [(atoms[0].q + atoms[0].gap, atoms[0].q), (atoms[0].q, atoms[0].q + atoms[0].gap)]
        exact = sum(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in sides)
        exact += 0.239 * max(0.0, 1 - math.exp(epsilon))
        assert lower.delta(float(epsilon)) - 1e-12 <= exact <= upper.delta(float(epsilon)) + 1e-12


def test_erratum_keeping_the_mean_of_the_loss_is_not_safe() -> None:
    p, q, step = 0.75, 0.25, 0.8
    loss = math.log(p / q)
    below = math.floor(loss / step) * step
    up = (loss - below) / step
    by_mean = LossGrid(step, round(below / step), np.array([p * (1 - up), p * up]), 0.0, True)
    exact = p - q * math.exp(0.5)
    kept = by_mean.masses @ np.exp(-by_mean.losses)
    assert kept > q
    assert by_mean.delta(0.5) < exact


@pytest.mark.parametrize("pessimistic", [True, False])
def test_coarser_steps_move_delta_to_the_safe_side_only(pessimistic: bool) -> None:
    part = Part(KRR.from_local_epsilon(4, 1.0), 500)
    grid = (dominating_grid if pessimistic else dominated_grid)(part, 40.0)
    law = power(tilted(grid, 20.0), 2, 1e-9)
    coarse = coarsen(coarsen(coarsen(law)))
    for epsilon in (0.05, 0.2, 0.35):
        fine, rough = law.delta(epsilon), coarse.delta(epsilon)
        assert (rough >= fine * (1 - 1e-9)) if pessimistic else (rough <= fine * (1 + 1e-9))
        assert rough == pytest.approx(fine, rel=1e-2)


def test_a_tilted_power_agrees_with_plain_convolution_whatever_the_tilt() -> None:
    half = np.exp(-0.002 * np.arange(150.0) ** 2)
    step = 2.0**-7
    grid = symmetric_grid(half / float(half @ (1 + np.exp(-step * np.arange(150)))), step, 0.0)
    plain = grid.masses
    for _ in range(2):
        plain = np.convolve(plain, grid.masses)
    losses = (3 * grid.first + np.arange(len(plain))) * grid.step
    for tilt in (0.5, 3.0, 12.0):
        for epsilon in (0.3, 0.8):
            exact = float(plain @ -np.expm1(np.minimum(epsilon - losses, 0)))
            assert (
                exact <= power(tilted(grid, tilt), 3, 1e-12).delta(epsilon) * (1 + 1e-12) <= exact * (1 + 1e-3) + 1e-9
            )


def test_a_pair_from_a_curve_lies_on_or_above_it() -> None:
    places, step = np.arange(0, 40), 0.05
    values = np.array([max(0.3 - 0.2 * place * step, 0.0) ** 2 + 0.01 * (place % 3) * (place < 20) for place in places])
    values[-1] = 0.0
    grid = grid_from_curve(places, values, step)
    hull = [min(value, grid.delta(float(place * step))) for place, value in zip(places, values, strict=True)]
    assert all(value <= given + 1e-12 for value, given in zip(hull, values, strict=True))
    assert float(grid.masses.sum()) + grid.infinite == pytest.approx(1.0)
    curve = np.array([grid.delta(float(place * step)) for place in places])
    slopes = np.diff(curve) / np.diff(np.exp(places * step))
    assert np.all(np.diff(slopes) >= -1e-12)


def test_attacks_are_known_beside_dummies_and_reveal_less() -> None:
    krr = KRR.from_local_epsilon(3, 1.0)
    alone, beside = attack_grid(Part(krr, 10), 30.0), attack_grid(Part(krr, 10, dummies=1), 30.0)
    assert alone is not None
    assert beside is not None
    assert 0 < beside.delta(0.1) < alone.delta(0.1)


def test_the_attack_has_all_mass_in_both_laws() -> None:
    walk = attack_walk(5000, 8, Fraction(1, 3))
    total = sum(float((2 * part.q + part.gap).sum()) + part.even for part in contracted_atoms(walk, 60.0))
    assert total == pytest.approx(1.0, rel=1e-9)


def test_a_positive_delta_is_never_rounded_to_zero() -> None:
    part = Part(KRR.from_local_epsilon(3, 5.0), 40)
    for pessimistic in (True, False):
        grid = (dominating_grid if pessimistic else dominated_grid)(part, 40.0)
        found = tilted(grid, 10.0).delta(95.0)
        assert (0 < found < 1e-300) if pessimistic else found == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.5, 2.0])
def test_only_points_without_any_mass_are_left_out_of_a_sum(epsilon: float) -> None:
    """A transform may leave a tiny negative mass in a lower end: dropping that would raise it."""
    masses = np.array([0.2, 0.0, 0.3, -1e-18, 0.0, 0.4, 0.1])
    grid = LossGrid(0.25, -2, masses, 1e-3, pessimistic=False)
    whole = math.fsum(masses * -np.expm1(np.minimum(epsilon - grid.losses, 0.0))) + grid.infinite
    assert grid.delta(epsilon) == pytest.approx(whole, rel=1e-14)
    assert grid.support[1].tolist() == masses[masses != 0].tolist()
    moment = math.log(math.fsum(masses * np.exp(0.7 * grid.losses)))
    assert log_moment(grid, 0.7) == pytest.approx(moment, rel=1e-13)
