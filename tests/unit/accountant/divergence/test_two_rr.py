from fractions import Fraction
from math import comb, exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import delta_bracket, epsilon_bracket
from hubbub.accountant.divergence import two_rr
from hubbub.accountant.divergence.binomial_shift import log_delta_ends, shift_at
from hubbub.accountant.mechanisms import KRR


def direct_delta(p: float, zeros: int, ones: int, epsilon: float) -> float:
    """Plain convolution in doubles: good to 1e-12 absolutely, enough where δ is large."""
    up = np.array([comb(zeros, i) * p**i * (1 - p) ** (zeros - i) for i in range(zeros + 1)])
    down = np.array([comb(ones, i) * (1 - p) ** i * p ** (ones - i) for i in range(ones + 1)])
    law = np.convolve(up, down)
    first = (1 - p) * np.append(0.0, law) + p * np.append(law, 0.0)
    second = p * np.append(0.0, law) + (1 - p) * np.append(law, 0.0)
    return float(np.sum(np.maximum(first - exp(epsilon) * second, 0.0)))


@settings(deadline=None, max_examples=80)
@given(zeros=st.integers(0, 120), ones=st.integers(0, 120), epsilon_local=st.floats(0.05, 6), share=st.floats(0, 0.95))
def test_ends_enclose_a_plain_convolution(zeros: int, ones: int, epsilon_local: float, share: float) -> None:
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    shift = shift_at(mechanism, share * epsilon_local, 0)
    assert shift is not None
    lower, upper = log_delta_ends(shift, np.array([float(zeros)]), np.array([float(ones)]))
    truth = direct_delta(float(mechanism.other), zeros, ones, share * epsilon_local)
    assert exp(lower[0]) <= truth * (1 + 1e-9) + 1e-13
    assert truth <= exp(upper[0]) * (1 + 1e-9) + 1e-13
    assert upper[0] - lower[0] < 1e-6 or exp(upper[0]) < 1e-12


def test_everyone_else_holding_zero_is_not_always_the_worst() -> None:
    """The assumption of koskela-2021, section 4, gives 8.63e-3 where two others differ and give 8.68e-3.

    The bits are mirrored: here the victim moves from 0 to 1, so "zero" is the bit that most others hold.
    """
    shift = shift_at(KRR.from_local_epsilon(2, 4.0), 0.4, 0)
    assert shift is not None
    lower, upper = log_delta_ends(shift, np.array([0.0, 2.0]), np.array([999.0, 997.0]))
    assert exp(upper[0]) == pytest.approx(8.63e-3, rel=1e-3)
    assert exp(lower[1]) == pytest.approx(8.68e-3, rel=1e-3)
    assert lower[1] > upper[0]


@pytest.mark.parametrize("reports", [50, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 0.9])
def test_no_single_number_of_ones_is_above_the_cover(reports: int, epsilon: float) -> None:
    mechanism = KRR.from_local_epsilon(2, 1.0)
    shift = shift_at(mechanism, epsilon, 0)
    assert shift is not None
    ones = np.arange(float(reports))
    lower, _ = log_delta_ends(shift, reports - 1 - ones, ones)
    upper = delta_bracket(mechanism, reports, epsilon).delta_upper
    assert exp(np.max(lower)) <= upper <= exp(np.max(lower)) * (1 + 1e-3)


def test_a_target_below_the_best_attack_is_never_covered() -> None:
    shift = shift_at(KRR.from_local_epsilon(2, 1.0), 0.02, 0)
    assert shift is not None
    attack = two_rr.best_attack(shift, 10_000)
    assert not two_rr.covered(shift, 10_000, attack.lower - 1e-6)
    assert two_rr.covered(shift, 10_000, attack.upper + 2e-3)


def test_the_blocks_improve_the_blanket_by_up_to_the_root_of_two() -> None:
    mechanism = KRR.from_local_epsilon(2, 8.0)
    blanket = epsilon_bracket(mechanism, 10**7, 1e-6, bound="blanket").epsilon_upper
    blocks = epsilon_bracket(mechanism, 10**7, 1e-6, bound="2rr").epsilon_upper
    assert 1.3 < blanket / blocks < 2**0.5 + 0.01


def test_dummies_enter_as_fair_coins() -> None:
    """With D dummies and nobody else, the count is B(D, 1/2) and the victim's bit."""
    mechanism = KRR(2, Fraction(1, 2))
    truth = sum(
        max(0.0, a - exp(0.3) * b)
        for a, b in (
            (0.75 * comb(5, i - 1) / 32 + 0.25 * comb(5, i) / 32, 0.25 * comb(5, i - 1) / 32 + 0.75 * comb(5, i) / 32)
            if i
            else (0.25 / 32, 0.75 / 32)
            for i in range(7)
        )
    )
    found = delta_bracket(mechanism, 1, 0.3, bound="2rr", dummies=5)
    assert found.delta_upper == pytest.approx(truth, rel=1e-8)


def test_at_the_local_epsilon_nothing_is_left() -> None:
    mechanism = KRR.from_local_epsilon(2, 1.0)
    assert shift_at(mechanism, 1.01, 0) is None
    assert delta_bracket(mechanism, 10, 1.0).delta_upper == 0.0
    assert log(epsilon_bracket(mechanism, 10, 1e-15).epsilon_upper) > -inf
