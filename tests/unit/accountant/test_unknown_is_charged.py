"""What is charged where a number is not known: never less than it may be wrong by."""

import math

import numpy as np
import pytest

from hubbub.accountant.divergence import binomial_shift, contour, dummies
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.divergence.tilted import TiltedDraw
from hubbub.accountant.losses import convolution
from hubbub.accountant.mechanisms import KRR

pytestmark = pytest.mark.usefixtures("composed_once")


def test_a_node_that_is_drowned_is_charged_twice_its_size() -> None:
    """Half of the draws go up by 1, half stay: at t = π the transform is 0, known only to be small."""
    drowned = IidSum(3, (1.0,), (0.5,), 0.0, 0.5, 1.0, 1 / 3)
    place = contour.Contour(1e-9, 1e-12, 2 * math.pi, 1)
    damping, _, charge = contour._power(
        drowned, TiltedDraw.of(drowned, place.tilt), place, np.array([math.pi]), np.zeros(1)
    )
    assert math.expm1(float(charge[0])) > 2
    assert float(damping[0]) < -20


def test_a_drowned_factor_of_two_values_is_charged_twice_its_size() -> None:
    shift = binomial_shift.shift_at(KRR.from_local_epsilon(2, 1e-9), 0.0, 1)
    assert shift is not None
    law = binomial_shift._tilted(shift, 0.0)
    counts = np.array([[0.0, 0.0, 1.0]])
    _, _, charge = binomial_shift._powers(law, counts, np.array([0.0]), np.array([math.pi]))
    assert math.expm1(float(charge[0, 0])) > 2


def test_lower_ends_that_underflow_are_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upper end of e^-800 may be said to be e^-700, a lower one may not."""
    monkeypatch.setattr(dummies, "positive_part", lambda *_: LogBracket(-800.0, -790.0))
    found = dummies.diluted_blanket(KRR.from_local_epsilon(4, 1.0), 100, 0.5, 3, 0.03)
    assert found.lower == -math.inf
    assert found.upper > -790


def test_transforms_have_the_lengths_that_their_error_bound_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    transform = convolution.fft.rfft

    def noted(values: np.ndarray, length: int) -> np.ndarray:
        lengths.append(length)
        return np.asarray(transform(values, length))

    monkeypatch.setattr(convolution.fft, "rfft", noted)
    for size in (1, 5, 48, 1000):
        found, error = convolution._product(np.full(size, 1 / size), np.full(7, 1 / 7))
        assert abs(found.sum() - 1) <= error + 1e-12
    assert lengths
    assert all(length & (length - 1) == 0 for length in lengths)
