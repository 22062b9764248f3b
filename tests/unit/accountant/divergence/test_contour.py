"""The contour integral against plain counting of all outcomes, which is exact to 1e-11."""

from fractions import Fraction
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import BOUNDS
from hubbub.accountant.divergence import contour, negligible_nodes
from hubbub.accountant.divergence.contour import integrated_positive_part, positive_part
from hubbub.accountant.divergence.counting import countable, counted_positive_part
from hubbub.accountant.divergence.sums import IidSum, attack_sum, blanket_sum, clones_sum, stronger_clones_sum
from hubbub.accountant.divergence.tilted import TiltedDraw
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic


def sums_of(reports: int, epsilon_local: float, epsilon: float, categories: int) -> list[IidSum]:
    mechanism = KRR.from_local_epsilon(categories, epsilon_local)
    generic = Generic(epsilon_local)
    built = [stronger_clones_sum(generic, reports, epsilon), clones_sum(generic, reports, epsilon)]
    built.append(attack_sum(mechanism, reports, epsilon))
    return [*built, blanket_sum(mechanism, reports, epsilon)] if reports <= 50 else built


@settings(deadline=None, max_examples=80)
@given(
    reports=st.integers(2, 200),
    epsilon_local=st.floats(0.01, 12),
    share=st.floats(0.0, 0.98),
    categories=st.integers(3, 40),
    precision=st.sampled_from([0.1, 0.01]),
)
def test_integral_encloses_what_counting_finds(
    reports: int, epsilon_local: float, share: float, categories: int, precision: float
) -> None:
    for sums in sums_of(reports, epsilon_local, share * epsilon_local, categories):
        exact, found = counted_positive_part(sums), integrated_positive_part(sums, precision)
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper


@pytest.mark.parametrize("reports", [100, 10_000, 10**8, 10**12])
def test_width_falls_with_the_square_of_the_precision(reports: int) -> None:
    sums = blanket_sum(KRR.from_local_epsilon(4, 2.0), reports, 5 * reports**-0.5)
    widths = [found.upper - found.lower for found in (integrated_positive_part(sums, p) for p in (0.1, 0.01))]
    assert widths[0] < 0.05
    assert widths[1] < widths[0] / 50


@pytest.mark.parametrize("reports", [10**3, 10**6, 10**9, 10**12])
def test_finer_brackets_lie_within_coarser_ones(reports: int) -> None:
    sums = attack_sum(KRR.from_local_epsilon(16, 4.0), reports, 8 * reports**-0.5)
    coarse, fine = integrated_positive_part(sums, 0.1), integrated_positive_part(sums, 0.01)
    assert coarse.lower <= fine.upper
    assert fine.lower <= coarse.upper


@pytest.mark.parametrize("draws", [250, 10**4])
def test_a_rough_evaluation_of_few_values_has_so_many_nodes_and_no_more(
    draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of far smaller chance than their size hides need a long period: without a limit half as many again."""
    rare = IidSum(draws, (1e6, -1.0), (1e-12, 0.3), 0.0, 0.7 - 1e-12, 1e6, 1 / draws)
    asked: list[int] = []

    def noted(draw: TiltedDraw, number: int, nodes: contour.Nodes, tilt: float) -> tuple[contour.Whole, float]:
        asked.append(nodes.last)
        return negligible_nodes.loud(draw, number, nodes, tilt)

    monkeypatch.setattr(contour, "loud", noted)
    rough, fine = (integrated_positive_part(rare, precision) for precision in (0.01, 0.001))
    coarse = integrated_positive_part(rare, 0.1)
    assert asked[0] == 20_000 < asked[1]
    assert asked[2] <= 2000
    for each in (rough, coarse):
        assert each.lower <= fine.upper
        assert fine.lower <= each.upper


def test_a_large_sum_agrees_with_its_gaussian_limit() -> None:
    """At 10**12 reports and ε = 0 the sum is Gaussian to 1e-5: E[S₊]/n = σ/√(2πn)."""
    sums = stronger_clones_sum(Generic(1.0), 10**12, 0.0)
    spread = np.sqrt(sum(m * s * s for m, s in zip(sums.masses, sums.steps, strict=True)))
    found = positive_part(sums, 0.01)
    assert found.upper == pytest.approx(log(spread / np.sqrt(2 * np.pi * 1e12)), abs=2e-4)
    assert found.upper - found.lower < 2e-4


def test_a_sum_that_is_never_positive_is_zero_exactly() -> None:
    sums = blanket_sum(KRR(4, Fraction(1)), 100, 0.0)
    assert positive_part(sums, 0.01).upper == -inf
    assert counted_positive_part(sums).upper == -inf


def test_a_hopelessly_small_value_is_bounded_without_an_integral() -> None:
    found = positive_part(blanket_sum(KRR.from_local_epsilon(4, 2.0), 10**9, 1.9), 0.01)
    assert found.lower == -inf
    assert -inf < found.upper < -600


def test_sums_short_enough_are_counted() -> None:
    assert countable(stronger_clones_sum(Generic(1.0), 240, 0.1))
    assert not countable(stronger_clones_sum(Generic(1.0), 241, 0.1))
    assert not countable(blanket_sum(KRR.from_local_epsilon(4, 2.0), 100, 0.1))


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 12),
    st.tuples(st.floats(1e-3, 1e9), st.floats(1e-12, 1.0)),
    st.lists(st.tuples(st.floats(-1e12, 1e9), st.floats(1e-12, 1.0)), max_size=2),
    st.floats(-10.0, 10.0),
)
def test_steps_that_are_rare_and_large_are_enclosed_too(
    draws: int, up: tuple[float, float], drawn: list[tuple[float, float]], rest: float
) -> None:
    steps, weights = zip(up, *drawn, strict=True)
    masses = tuple(weight / (1 + sum(weights)) for weight in weights)
    best = max(rest, *(rest + step for step in steps))
    sums = IidSum(draws, steps, masses, rest, 1 - sum(masses), best, 1 / draws)
    exact, found = counted_positive_part(sums), integrated_positive_part(sums, 0.03)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper


def test_a_sum_that_few_draws_decide_is_at_most_the_sum_of_their_positive_parts() -> None:
    """Unary encoding of a huge local ε: smoothing alone would give 1 where δ is just below a half."""
    lower, upper = BOUNDS["blanket"].delta(RAPPOR.from_local_epsilon(3, 20.0, Fraction(1, 2)), 100, 10.0)
    assert 0 <= lower < upper < 0.5
