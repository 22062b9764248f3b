"""One rule for numbers as people write them, exact."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from hubbub.accountant.written_numbers import exact, limit, real, several, whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", 1000),
        ("1E+3", 1000),
        ("1_000", 1000),
        ("1_000_000.5", Fraction(2000001, 2)),
        (".25", Fraction(1, 4)),
        ("25%", Fraction(1, 4)),
        ("2.5e-1", Fraction(1, 4)),
        ("1/4", Fraction(1, 4)),
        ("1_000/4_000", Fraction(1, 4)),
        ("0.1/0.4", Fraction(1, 4)),
        ("1073741824/4294967296", Fraction(1, 4)),
        ("-30", -30),
        ("\u221230", -30),
        ("1e\u22123", Fraction(1, 1000)),
        ("-1/4", Fraction(-1, 4)),
        ("1.", 1),
        ("1e-999", Fraction(1, 10**999)),
    ],
)
def test_a_number_is_taken_exactly(text: str, number: Fraction) -> None:
    assert exact(text) == number
    assert real(text) == float(number)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1000", 1000), ("1_000", 1000), ("1e3", 1000), ("1e+3", 1000), ("1.5e3", 1500), ("1000.0", 1000), ("-5e1", -50)],
)
def test_a_whole_number_is_taken_in_each_form(text: str, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize("text", ["4/2", "200%", ".25", "5e-4", "5.5e0", "1,000", "1_00"])
def test_what_is_no_whole_number_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="1000, 1_000 or 1e3"):
        whole(text)


NONE = ["", "x", "1,000", "1_00", "1__000", "_100", "1/0", "1/0.0", "1/-4", "1/2/3", "1/4%", "1e9999", "1e", ".", "%"]


@pytest.mark.parametrize("text", [*NONE, "٥", "½", "0x10", "nan", "inf", " 1", "1 ", "9" * 5000])
def test_what_is_no_number_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"1/4, 25% or 2\.5e-1"):
        exact(text)


def test_a_number_beyond_a_double_is_refused() -> None:
    with pytest.raises(ValueError, match="below"):
        real("1e400")


def test_a_limit_may_be_none_and_is_never_none_by_chance() -> None:
    assert (limit("inf"), limit("25%")) == (math.inf, 0.25)
    for text in ("1e309", "infinity", "-inf", "nan", ""):
        with pytest.raises(ValueError, match="a number is"):
            limit(text)


def test_several_numbers_have_commas_with_or_without_spaces() -> None:
    assert several("1e3, 2_000 ,3000", whole) == [1000, 2000, 3000]
    for text in ("", "1,,2", "1 2"):
        with pytest.raises(ValueError, match="a whole number is"):
            several(text, whole)
