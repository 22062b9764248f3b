"""Answers become the right symbols, exactly and without bias, or a clear error that does not repeat them."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.client import AnswerError
from hubbub.client.encode import encode, encode_all
from hubbub.protos.task import Histogram, Query, Sum, Task

CARRIER = Query(Histogram("carrier", ("AA", "B6", "UA")), 1)
OPTIONAL = Query(Histogram("carrier", ("AA", "B6"), optional=True), 1)
DELAY = Query(Sum("delay", -30.0, 180.0, "minutes"), 1, levels=7)
OPTIONAL_DELAY = Query(Sum("delay", -30.0, 180.0, "minutes", optional=True), 1, levels=7)
LOWEST = bytes(64)
HIGHEST = b"\xff" * 64


def constant(content: bytes) -> Any:
    return lambda count: content[:count]


def test_category_becomes_its_index() -> None:
    assert [encode(CARRIER, name, os.urandom) for name in ("AA", "B6", "UA")] == [0, 1, 2]


def test_no_answer_becomes_the_last_symbol() -> None:
    assert encode(OPTIONAL, None, os.urandom) == 2 == OPTIONAL.symbols - 1
    assert encode(OPTIONAL_DELAY, None, os.urandom) == 8 == OPTIONAL_DELAY.symbols - 1


@pytest.mark.parametrize("query", [CARRIER, DELAY])
def test_no_answer_to_a_query_that_is_not_optional_is_an_error(query: Query) -> None:
    with pytest.raises(AnswerError, match="not optional; give one"):
        encode(query, None, os.urandom)


@pytest.mark.parametrize("answer", ["UA ", "ua", "", 1, True, 2.0, b"UA", "\ud800"])
def test_unknown_category_is_an_error_that_lists_the_known_but_not_the_answer(answer: Any) -> None:
    with pytest.raises(AnswerError, match="none of its categories; it takes the text AA, B6, UA") as caught:
        encode(CARRIER, answer, os.urandom)
    assert repr(answer) not in str(caught.value)


def test_a_long_list_of_categories_is_cut_short() -> None:
    query = Query(Histogram("many", tuple(f"c{number}" for number in range(1000))), 1)
    with pytest.raises(AnswerError, match=r"c9 … \(1000 in all\)$") as caught:
        encode(query, "secret", os.urandom)
    assert "secret" not in str(caught.value)
    assert encode(query, "c999", os.urandom) == 999


@pytest.mark.parametrize(("answer", "step"), [(-30.0, 0), (0, 1), (180, 7), (1e300, 7), (-1e300, 0), (10**400, 7)])
def test_a_number_on_a_step_or_outside_the_range_needs_no_chance(answer: float, step: int) -> None:
    assert encode(DELAY, answer, constant(LOWEST)) == encode(DELAY, answer, constant(HIGHEST)) == step


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), float("-inf"), True, False, "12", b"1", [1], 1j])
def test_what_is_no_finite_number_is_an_error(answer: Any) -> None:
    with pytest.raises(AnswerError, match="delay is") as caught:
        encode(DELAY, answer, os.urandom)
    assert "12" not in str(caught.value)


def test_rounding_goes_up_with_exactly_the_fractional_part() -> None:
    """-30 + 30 * (2 + 1/2): half way between steps 2 and 3."""
    half = 45.0
    assert encode(DELAY, half, constant((2**31 - 1).to_bytes(4, "big"))) == 3
    assert encode(DELAY, half, constant((2**31).to_bytes(4, "big"))) == 2


def test_rounding_takes_the_float_as_the_binary_number_it_is() -> None:
    """0.1 is a little more than a tenth: the draw after equal digits decides for up."""
    query = Query(Sum("x", 0.0, 1.0), 1, levels=1)
    fraction = Fraction(0.1)
    first, rest = divmod(fraction.numerator * 2**32, fraction.denominator)
    second = rest * 2**32 // fraction.denominator
    draws = [first, second - 1]
    assert encode(query, 0.1, lambda count: draws.pop(0).to_bytes(count, "big")) == 1
    draws = [first, second + 1]
    assert encode(query, 0.1, lambda count: draws.pop(0).to_bytes(count, "big")) == 0


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
    query = Query(Sum("x", lower, upper), 1, levels=levels)
    symbol = encode(query, answer, os.urandom)
    clipped = min(max(Fraction(answer), Fraction(lower)), Fraction(upper))
    scaled = (clipped - Fraction(lower)) * levels / (Fraction(upper) - Fraction(lower))
    assert 0 <= symbol <= levels
    assert abs(symbol - scaled) < 1


def test_a_query_that_is_not_named_has_no_answer(task: Task) -> None:
    assert encode_all(task, {"carrier": "B6"}, os.urandom) == (1, 8)


def test_an_answer_to_no_query_is_an_error(task: Task) -> None:
    with pytest.raises(AnswerError, match="no query of task flights; it asks carrier, delay"):
        encode_all(task, {"carrier": "B6", "dealy": 3}, os.urandom)
