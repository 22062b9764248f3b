"""The bound that stands for them, against every one of them, computed plainly."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.divergence import contour
from hubbub.accountant.divergence.contour import integrated_positive_part
from hubbub.accountant.divergence.negligible_nodes import BLOCK, QUIET, Nodes, log_size, loud
from hubbub.accountant.divergence.sums import IidSum, attack_sum, blanket_sum
from hubbub.accountant.divergence.tilted import TiltedDraw
from hubbub.accountant.mechanisms import KRR


def looked_at(draw: TiltedDraw, draws: int, nodes: Nodes, tilt: float) -> tuple[np.ndarray, float]:
    """The nodes of the blocks that are evaluated, and the charge for the others."""
    blocks, charge = loud(draw, draws, nodes, tilt)
    places = np.add.outer(blocks, np.arange(BLOCK)).ravel()
    return places[places <= nodes.last], charge


LIMIT = 1e-9
"""What the plain powers below may be wrong by, relatively."""


def plain(sums: IidSum, tilt: float, t: np.ndarray) -> np.ndarray:
    """|E[e^{(θ+it)Y}]/E[e^{θY}]|, from the resting value and all steps alike."""
    steps = np.append(0.0, sums.steps)
    masses = np.append(sums.rest_mass, sums.masses) * np.exp(tilt * steps)
    return np.abs(np.exp(1j * np.multiply.outer(t, steps)) @ (masses / masses.sum()))


draws_of = st.builds(
    lambda steps, weights, draws: (tuple(steps), tuple(weights[: len(steps) + 1]), draws),
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=6),
    st.lists(st.floats(0.01, 1.0), min_size=7, max_size=7),
    st.sampled_from([1, 7, 300, 10**4]),
)


def as_sum(drawn: tuple[tuple[float, ...], tuple[float, ...], int]) -> IidSum:
    steps, weights, draws = drawn
    rest, *masses = np.array(weights) / sum(weights)
    return IidSum(draws, steps, tuple(map(float, masses)), 0.0, float(rest), max(0.0, *steps), 1 / draws)


@settings(deadline=None, max_examples=150)
@given(draws_of, st.floats(0.01, 3.0), st.floats(0.0, 30.0), st.floats(1e-6, 5.0), st.floats(0.0, 0.3))
def test_no_size_within_an_interval_is_above_its_bound(
    drawn: tuple[tuple[float, ...], tuple[float, ...], int], tilt: float, near: float, length: float, smoothing: float
) -> None:
    sums = as_sum(drawn)
    draw, start, middle = TiltedDraw.of(sums, tilt), np.array([near / 2]), np.array([near / 2 + length / 2])
    found = log_size(draw, sums.draws, start, middle, length / 2, smoothing)[0, 0]
    t = near + np.linspace(0.0, length, 400)
    with np.errstate(divide="ignore"):
        sizes = sums.draws * np.log(plain(sums, tilt, t)) - (smoothing * t) ** 2 / 2
    assert found >= sizes.max() - LIMIT * sums.draws


@settings(deadline=None, max_examples=60)
@given(draws_of, st.floats(0.05, 2.0), st.floats(0.002, 0.1), st.floats(0.005, 0.3))
def test_what_the_others_are_charged_covers_all_of_them(
    drawn: tuple[tuple[float, ...], tuple[float, ...], int], tilt: float, precision: float, step: float
) -> None:
    sums, smoothing = as_sum(drawn), precision / tilt
    last = min(math.ceil(9 / smoothing / step), 20_000)
    places, charge = looked_at(TiltedDraw.of(sums, tilt), sums.draws, Nodes(step, last, smoothing), tilt)
    others = np.setdiff1d(np.arange(last + 1), places)
    assert len(places) == len(set(places.tolist()))
    assert len(places) + len(others) == last + 1
    t = others * step
    sizes = plain(sums, tilt, t) ** sums.draws * np.exp(-((smoothing * t) ** 2) / 2)
    assert charge >= float(2 * sizes @ (1 / (tilt**2 + t**2) + smoothing**2)) * (1 - 1e-6)
    assert sizes.max(initial=0.0) <= math.exp(QUIET) * (1 + 1e-6)


def test_draws_on_a_lattice_are_looked_at_where_their_transform_comes_back() -> None:
    sums = IidSum(10**6, (1.0,), (0.4,), 0.0, 0.6, 1.0, 1e-6)
    step = 2 * math.pi / 1000
    places, _ = looked_at(TiltedDraw.of(sums, 0.01), sums.draws, Nodes(step, 10_000, 1e-6), 0.01)
    assert set(range(0, 10_001, 1000)) <= set(places.tolist())
    assert len(places) < 2000


@pytest.mark.parametrize("reports", [10**3, 10**6, 10**12])
@pytest.mark.parametrize("build", [blanket_sum, attack_sum])
def test_looking_at_every_node_changes_nothing(
    reports: int, build: type[IidSum], monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = build(KRR.from_local_epsilon(16, 4.0), reports, 8 * reports**-0.5)
    found = integrated_positive_part(sums, 0.01)
    monkeypatch.setattr(contour, "loud", lambda _draw, _draws, nodes, _tilt: (np.arange(0, nodes.last + 1, BLOCK), 0.0))
    every = integrated_positive_part(sums, 0.01)
    assert found.upper == pytest.approx(every.upper, abs=1e-9)
    assert found.lower == pytest.approx(every.lower, abs=1e-9)


def test_few_of_many_nodes_are_looked_at() -> None:
    law = IidSum(10**6, tuple(np.linspace(-1, 1.1, 64)), (1 / 65,) * 64, 0.0, 1 / 65, 1.1, 1e-6)
    tilt = 0.005
    places, _ = looked_at(TiltedDraw.of(law, tilt), law.draws, Nodes(tilt / 6, 6000, 0.01 / tilt), tilt)
    assert len(places) < 100


def test_few_nodes_are_looked_at_where_few_draws_move() -> None:
    law = IidSum(10**6, (400.0, -433.0), (1e-3, 1e-3), 0.0, 0.998, 400.0, 1e-6)
    tilt = 5e-5
    places, _ = looked_at(TiltedDraw.of(law, tilt), law.draws, Nodes(tilt / 6, 2000, 0.03 / tilt), tilt)
    assert len(places) < 200


def test_moments_are_never_below_those_of_their_draw() -> None:
    sums = IidSum(5, (2.0, -1e6, 0.3), (0.2, 0.1, 0.3), 0.0, 0.4, 2.0, 0.2)
    for tilt in (1e-9, 1e-3, 1.0, 100.0):
        steps = np.array([0.0, *sums.steps], dtype=np.longdouble)
        masses = np.array([sums.rest_mass, *sums.masses], dtype=np.longdouble) * np.exp(tilt * steps)
        masses /= masses.sum()
        exact = float(masses @ (steps - masses @ steps) ** 2)
        found = TiltedDraw.of(sums, tilt)
        assert exact <= found.variance <= exact * 1.001 + 1e-240
        assert min(float(masses @ abs(steps - x)) for x in steps) / 2 <= found.deviation <= exact**0.5 * 1.001
