"""Their mass is charged, and no question is refused for them."""

from fractions import Fraction

import numpy as np
import pytest

from hubbub.accountant import KRR, Part, compose, compose_delta, composition
from hubbub.accountant.losses import walks
from hubbub.accountant.losses.atoms import TINY, Atoms
from hubbub.accountant.losses.grid import connect_dots
from hubbub.accountant.losses.tangents import tangent_grid
from hubbub.accountant.losses.walks import spread_atoms


def test_atoms_that_underflow_are_cut_with_their_mirror_images() -> None:
    atoms = Atoms(np.array([0.0, TINY / 2, 0.25]), np.array([TINY / 8, TINY / 4, 0.5]), 0.0, TINY / 16)
    exact = atoms.accurate()
    assert exact.q.tolist() == [0.25]
    assert exact.gap.tolist() == [0.5]
    assert exact.cut == pytest.approx(TINY * (1 / 16 + 1 / 8 + 5 / 4), rel=1e-12)


def test_their_mass_is_put_at_an_infinite_loss_from_above_and_left_out_from_below() -> None:
    atoms = Atoms(np.array([0.0, 0.25]), np.array([TINY / 8, 0.25]), 0.25, 0.0)
    assert connect_dots([atoms]).infinite == TINY / 8
    below = tangent_grid([atoms])
    assert below.infinite == 0.0
    assert below.masses.sum() == pytest.approx(1.0, rel=1e-12)


def test_a_round_by_chance_of_next_to_no_blanket_is_composed() -> None:
    rate = Fraction(1, 500_000)
    part = Part(KRR(2, Fraction(1, 2**32)), 25, sampling_rate=rate)
    # One who takes part is hardly hidden: all that hides anyone is not taking part.
    assert compose_delta([part], 0.0).delta_upper == pytest.approx(float(rate), rel=1e-6)
    assert compose([part], 2 * float(rate)).epsilon_upper == 0.0


@pytest.mark.parametrize(
    ("categories", "local", "reports", "delta"), [(16, 6.0, 1000, 1e-12), (16, 8.0, 3000, 1e-12), (4, 4.0, 1000, 1e-12)]
)
def test_few_blankets_far_from_their_mean_lose_less_than_a_thousandth_over_rounds(
    categories: int, local: float, reports: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against every number of the other blankets, one by one; a fixed step of them lost up to 4 %."""
    gamma = KRR.from_local_epsilon(categories, local).gamma
    walk = walks.blanket_walk(reports, categories, gamma)

    def upper() -> float:
        grid = connect_dots(spread_atoms(walk, 50.0))
        curve = composition._curve([(grid, 3)], composition._for_delta(delta))
        return composition._smallest_epsilon(curve, delta, 3 * local)

    usual = upper()
    monkeypatch.setattr(walks, "FINER_BUDGET", 50_000_000)
    exact = upper()
    assert exact * (1 - 1e-6) <= usual <= exact * 1.001
    monkeypatch.setattr(walks, "FINER_BUDGET", 0)
    assert upper() > exact * 1.002
