from decimal import Decimal
from fractions import Fraction
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import exp_decimal
from hubbub.accountant.numbers import (
    checked_delta,
    checked_dummies,
    checked_epsilon,
    checked_reports,
    exp_down,
    exp_up,
    fraction_down,
    fraction_up,
    honest_reports,
    round_down_significant,
    round_up_significant,
)


@given(st.floats(1e-300, 1e300))
def test_rounding_up_is_never_below_and_within_one_unit_of_the_sixth_digit(value: float) -> None:
    rounded = round_up_significant(value, 6)
    assert rounded >= value
    assert rounded <= value * (1 + 1.01e-5)
    assert round_up_significant(rounded, 6) == rounded or rounded == value


def test_rounding_up_keeps_what_is_already_short() -> None:
    assert round_up_significant(0.25) == 0.25
    assert round_up_significant(0.0) == 0.0
    assert round_up_significant(0.35150193) == 0.351502


@given(st.floats(-690, 700))
def test_directed_exponentials_enclose_the_truth(exponent: float) -> None:
    exact = exp_decimal(exponent)
    assert Decimal(exp_down(exponent)) <= exact <= Decimal(exp_up(exponent))


def test_directed_exponentials_have_safe_ends() -> None:
    assert exp_up(-10_000.0) > 0
    assert exp_down(-10_000.0) == 0.0
    assert exp_up(800.0) == inf


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6))
def test_directed_fractions_enclose_the_truth(value: Fraction) -> None:
    assert Fraction(fraction_down(value)) <= value <= Fraction(fraction_up(value))


def test_honest_share_is_read_as_the_decimal_that_was_written() -> None:
    assert honest_reports(1000, 1000, 0.9) == 900
    assert honest_reports(10, 10, 0.7) == 7
    assert honest_reports(950, 1000, 0.9) == 850
    assert honest_reports(1001, 1001, 0.9) == 900
    assert honest_reports(50, 1000, 0.9) == 0
    assert honest_reports(7, 7, 1.0) == 7


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan")])
def test_impossible_shares_are_refused(share: float) -> None:
    with pytest.raises(AccountingError, match="honest_share"):
        honest_reports(10, 10, share)


def test_impossible_numbers_are_refused_with_value_and_limit() -> None:
    for check, value in [
        (checked_reports, 0),
        (checked_reports, 2.5),
        (checked_reports, 10**14),
        (checked_dummies, -1),
        (checked_delta, 0.0),
        (checked_delta, 1.0),
        (checked_delta, 1e-200),
        (checked_delta, float("nan")),
        (checked_epsilon, -1.0),
        (checked_epsilon, float("inf")),
    ]:
        with pytest.raises(AccountingError, match="; give "):
            check(value)  # type: ignore[operator]  # wrong types are the point
    with pytest.raises(AccountingError, match="valid reports"):
        honest_reports(11, 10, 1.0)


@given(st.floats(1e-300, 1e300), st.integers(1, 12))
def test_what_is_shown_of_an_end_is_on_its_safe_side(value: float, digits: int) -> None:
    # Within the half unit of the last binary digit by which a decimal and its double differ.
    assert float(f"{round_up_significant(value, digits):.{digits}g}") >= value * (1 - 2**-52)
    assert float(f"{round_down_significant(value, digits):.{digits}g}") <= value * (1 + 2**-52)
