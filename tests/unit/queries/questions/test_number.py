"""A number becomes a symbol exactly and without bias, or a clear error that does not repeat it."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hubbub.queries.errors import AnswerError, TaskError
from hubbub.queries.questions.number import Number
from support.krr_queries import krr_query

DELAY = krr_query(Number("delay", -30.0, 180.0, "minutes"), 1, levels=7)
OPTIONAL_DELAY = krr_query(Number("delay", -30.0, 180.0, "minutes", optional=True), 1, levels=7)
LOWEST = bytes(64)
HIGHEST = b"\xff" * 64


def constant(content: bytes) -> Any:
    return lambda count: content[:count]


def test_no_answer_becomes_the_last_symbol() -> None:
    assert OPTIONAL_DELAY.encode(None, os.urandom) == 8 == OPTIONAL_DELAY.symbols - 1


def test_no_answer_to_a_query_that_is_not_optional_is_an_error() -> None:
    with pytest.raises(AnswerError, match="not optional; give one"):
        DELAY.encode(None, os.urandom)


@pytest.mark.parametrize(("answer", "step"), [(-30.0, 0), (0, 1), (180, 7), (1e300, 7), (-1e300, 0), (10**400, 7)])
def test_a_number_on_a_step_or_outside_the_range_needs_no_chance(answer: float, step: int) -> None:
    assert DELAY.encode(answer, constant(LOWEST)) == DELAY.encode(answer, constant(HIGHEST)) == step


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        (Decimal("60"), 3),
        (Fraction(180), 7),
        (np.float32(0), 1),
        (np.int8(-30), 0),
        (Decimal("1e400"), 7),
        (Decimal("1e1000000000"), 7),
        (Decimal("-1e400"), 0),
        (Decimal("-1e1000000000"), 0),
        (Fraction(10**400), 7),
        (Fraction(-(10**400)), 0),
    ],
)
def test_a_number_of_another_type_is_the_number(answer: Any, step: int) -> None:
    assert DELAY.encode(answer, constant(LOWEST)) == DELAY.encode(answer, constant(HIGHEST)) == step


NO_NUMBERS = [
    *(float("nan"), float("inf"), float("-inf"), True, False, "12", b"1", [1], 1j),
    *(Decimal("nan"), Decimal("snan"), Decimal("-inf"), np.float32("nan"), np.float64("inf"), np.bool_(True)),
]


@pytest.mark.parametrize("answer", NO_NUMBERS)
def test_what_is_no_finite_number_is_an_error(answer: Any) -> None:
    with pytest.raises(AnswerError, match="delay is") as caught:
        DELAY.encode(answer, os.urandom)
    assert "12" not in str(caught.value)


def test_rounding_goes_up_with_exactly_the_fractional_part() -> None:
    """-30 + 30 * (2 + 1/2): half way between steps 2 and 3."""
    half = 45.0
    assert DELAY.encode(half, constant((2**31 - 1).to_bytes(4, "big"))) == 3
    assert DELAY.encode(half, constant((2**31).to_bytes(4, "big"))) == 2


def test_rounding_takes_the_float_as_the_binary_number_it_is() -> None:
    """0.1 is a little more than a tenth: the draw after equal digits decides for up."""
    query = krr_query(Number("x", 0.0, 1.0), 1, levels=1)
    fraction = Fraction(0.1)
    first, rest = divmod(fraction.numerator * 2**32, fraction.denominator)
    second = rest * 2**32 // fraction.denominator
    draws = [first, second - 1]
    assert query.encode(0.1, lambda count: draws.pop(0).to_bytes(count, "big")) == 1
    draws = [first, second + 1]
    assert query.encode(0.1, lambda count: draws.pop(0).to_bytes(count, "big")) == 0


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e300, 1e300),
    st.floats(-1e300, 1e300),
    st.integers(1, 1000),
)
def test_a_symbol_is_always_next_to_the_scaled_number(answer: float, one: float, other: float, levels: int) -> None:
    if one == other:
        return
    lower, upper = sorted((one, other))
    query = krr_query(Number("x", lower, upper), 1, levels=levels)
    symbol = query.encode(answer, os.urandom)
    clipped = min(max(Fraction(answer), Fraction(lower)), Fraction(upper))
    scaled = (clipped - Fraction(lower)) * levels / (Fraction(upper) - Fraction(lower))
    assert 0 <= symbol <= levels
    assert abs(symbol - scaled) < 1


BOUNDS = st.floats(-1e300, 1e300)


@given(
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**20), 10**20),
    *(BOUNDS, BOUNDS, st.integers(1, 2**20), st.integers(0, 2**32 - 1)),
)
def test_a_number_is_rounded_as_in_exact_fractions(
    answer: float, one: float, other: float, levels: int, drawn: int
) -> None:
    lower, upper = min(one, other), max(one, other)
    assume(lower < upper)
    clipped = min(max(Fraction(answer), Fraction(lower)), Fraction(upper))
    scaled = (clipped - Fraction(lower)) * levels / (Fraction(upper) - Fraction(lower))
    below = math.floor(scaled)
    # A draw that equals the probability's first digit leaves it to the next ones.
    assume(drawn != math.floor((scaled - below) * 2**32) or scaled == below)
    encoded = Number("n", lower, upper, levels=levels).encode(answer, lambda _: drawn.to_bytes(4, "big"))
    assert encoded == below + (drawn < (scaled - below) * 2**32)


def test_a_number_without_levels_encodes_nothing() -> None:
    with pytest.raises(TaskError, match="query delay has no levels yet; `hubbub plan` chooses them"):
        Number("delay", -30.0, 180.0).encode(3.0, os.urandom)


def test_the_truth_is_of_clipped_values_and_tells_the_raw_mean() -> None:
    truth = Number("delay", -30.0, 180.0).truth([-40.0, None, 0, 240])
    expected = {"answered": 3.0, "sum": 150.0, "mean": 50.0, "raw_mean": 200 / 3}
    assert truth == {(statistic, None): value for statistic, value in expected.items()}
    assert Number("delay", -30.0, 180.0).truth([None]) == {("answered", None): 0.0, ("sum", None): 0.0}


@pytest.mark.parametrize(("text", "number"), [("-3.5", -3.5), ("\u22123.5", -3.5), ("1e\u22123", 0.001), ("12", 12.0)])
def test_a_number_is_read_as_people_and_their_programs_write_it(text: str, number: float) -> None:
    assert Number("delay", -30.0, 180.0).parse(text) == number
