"""Its variance, what bounds its blanket, and who changes."""

from __future__ import annotations

import pytest

from hubbub.accountant.longitudinal.noise import GAMMA_MOST, SIDE_MOST, NodeNoise, binary_numerator, gaussian_mu
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.mechanisms.longitudinal import Horizon


@pytest.mark.parametrize("changes", [1, 3])
def test_a_value_varies_as_the_scale_says(changes: int) -> None:
    for shape in NodeNoise.shapes(Horizon(16, changes)):
        for scale in (1e-7, 1e-3, 0.1, 10.0):
            node = shape.at(scale).node
            stated = scale * (2 if changes > 1 else 1 - float(node.blanket * node.edge))
            assert float(node.variance(1, 0)) == pytest.approx(stated, rel=1e-2)
            assert float(node.edge) <= shape.side_most
            assert float(node.blanket) >= GAMMA_MOST * (1 - 1e-8)


def test_a_uniform_blanket_has_the_least_local_epsilon_and_a_small_side_hides_zeros() -> None:
    small, uniform = (shape.at(0.05) for shape in NodeNoise.shapes(Horizon(16, 3)))
    assert float(small.node.edge) <= SIDE_MOST < float(uniform.node.edge)
    assert uniform.epsilon_local <= small.epsilon_local


def test_where_many_change_less_is_drawn_from_the_blanket() -> None:
    still, busy = (NodeNoise.shapes(Horizon(16, 3), changing)[0].at(1e-3).node for changing in (0.0, 0.5))
    assert busy.blanket < still.blanket
    assert busy.variance(1000, 500) < still.variance(1000, 500)


def test_references() -> None:
    # Balle and Wang, 2018: a Gaussian of sensitivity over deviation 0.2369 is (1, 1e-6)-private.
    assert gaussian_mu(1.0, 1e-6) == pytest.approx(0.2369, abs=1e-3)
    for variance in (1e-6, 0.01, 3.0):
        p = float(KRR.from_numerator(2, binary_numerator(variance)).other)
        assert p * (1 - p) / (1 - 2 * p) ** 2 == pytest.approx(variance, rel=1e-3)
