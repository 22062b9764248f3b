"""Estimates are shown with the digits that their standard error gives a meaning to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.queries.estimation.significant_digits import significant


@pytest.mark.parametrize(
    ("values", "error", "shown"),
    [
        ((1040.2, 986.4), 27.3, ("1,040", "986", "27")),
        ((225_143.2, 213_296.4), 6045.2, ("225,100", "213,300", "6,000")),
        ((9_953_332_516_808.2,), 182_048_077_353.1, ("9,950,000,000,000", "180,000,000,000")),
        ((11.53, 10.92), 0.31, ("11.53", "10.92", "0.31")),
        ((0.0057, -0.0004), 0.0031, ("0.0057", "-0.0004", "0.0031")),
        ((2e13, 1.95e13), 3e10, ("20,000,000,000,000", "19,500,000,000,000", "30,000,000,000")),
        ((2e15, 0.0), 3e13, ("2.000e+15", "0e+00", "3.0e+13")),
        ((1e-12, 2e-13), 1e-13, ("1.00e-12", "2.0e-13", "1.0e-13")),
        ((-0.3, 0.2), 22.0, ("0", "0", "22")),
        ((3.0, 1000.0), 0.0, ("3", "1,000", "0")),
    ],
)
def test_numbers_end_at_the_second_digit_of_their_error(
    values: tuple[float, ...], error: float, shown: tuple[str, ...]
) -> None:
    assert significant((*values, error), error) == shown


@given(st.floats(-1e290, 1e290), st.floats(1e-290, 1e290))
def test_what_is_shown_is_within_a_tenth_of_a_standard_error(value: float, error: float) -> None:
    """But where a float itself, or a whole number below 10¹⁵, has fewer digits than its error has."""
    shown, of_error = (float(text.replace(",", "")) for text in significant((value, error), error))
    assert abs(shown - value) <= 0.06 * error + 1e-14 * abs(value)
    assert abs(of_error - error) <= 0.06 * error
