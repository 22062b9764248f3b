"""Numbers are read as their notation says, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hubbub.planning.simulate.notation import PLAIN, Notation
from hubbub.protos.errors import HubbubError, UsageError


def read(notation: Notation, *texts: str | None) -> list[float | None]:
    found: list[float | None] = notation.numbers(pa.chunked_array([list(texts)], pa.string()), "n")[0].to_pylist()
    return found


@pytest.mark.parametrize(
    ("notation", "texts", "numbers"),
    [
        (PLAIN, (" 8.350", "+5", "-.5", "1e3", "5.", "", "  ", None), [8.35, 5.0, -0.5, 1000.0, 5.0, None, None, None]),
        (PLAIN, ("\u22125", "\u2212.5", "1e\u22123", "-1"), [-5.0, -0.5, 0.001, -1.0]),
        (Notation(",", "."), ("\u22128.350,5",), [-8350.5]),
        (PLAIN, ("True", "false", ""), [1.0, 0.0, None]),
        (PLAIN, ("inf", "-Infinity", "NaN", "1"), [None, None, None, 1.0]),
        (PLAIN, ("", None), [None, None]),
        (Notation(","), ("8,350", "1", "-0,5"), [8.35, 1.0, -0.5]),
        (Notation(".", ","), ("8,350", "1,234,567.5", "12"), [8350.0, 1234567.5, 12.0]),
        (Notation(".", ","), ("1,23,456", "12,34,56,789.5", "8,350"), [123456.0, 123456789.5, 8350.0]),
        (Notation(",", "."), ("8.350", "1.234.567,5", "12,25"), [8350.0, 1234567.5, 12.25]),
        (Notation(",", " "), ("8 350", "8\u202f350,5", "1\xa0234\xa0567"), [8350.0, 8350.5, 1234567.0]),
        (Notation(".", "'"), ("8'350", "8’350.5"), [8350.0, 8350.5]),
        (Notation(missing=("NA", "-")), ("NA", " - ", "1"), [None, None, 1.0]),
    ],
)
def test_numbers_are_read_as_they_are_written(
    notation: Notation, texts: tuple[str, ...], numbers: list[float | None]
) -> None:
    assert read(notation, *texts) == numbers


@pytest.mark.parametrize(
    ("notation", "texts", "says"),
    [
        (
            PLAIN,
            ("1", "8,350"),
            "row 2 is '8,350', which is 8.35 with --decimal , or 8350 with --thousands ,; say which",
        ),
        (PLAIN, ("8,350", "n/a"), "which is 8.35 with --decimal , or 8350 with --thousands ,"),
        (PLAIN, ("8,350", "1,234,567"), "which is 8350 with --thousands ,; run it so"),
        (PLAIN, ("8,350", "8,35"), "which is 8.35 with --decimal ,; run it so"),
        (PLAIN, ("1.234,5",), "which is 1234.5 with --decimal , --thousands .; run it so"),
        (PLAIN, ("8 350",), "which is 8350 with --thousands ' '; run it so"),
        (
            Notation(","),
            ("8.350",),
            "which is 8.35 without --decimal and --thousands or 8350 with --decimal , --thousa",
        ),
        (Notation(".", ","), ("1,23",), "which is 1.23 with --decimal ,"),
        (Notation(missing=("NA",)), ("n/a",), "name another column, or, if it means no answer, add --missing NA,n/a"),
        (PLAIN, ("1_0",), "row 1 is '1_0'; name another column"),
        (PLAIN, ("1", "2", "(3.10)"), "is '(3.10)'; name another column, or, write it as a number alone, such as"),
        (PLAIN, ("1", "2", "5-", "-"), "row 3 is '5-'; name another column, or, write it as a number alone"),
        (
            PLAIN,
            ("1", "2", "none", "-"),
            "'none'; name another column, or, if it means no answer, add --missing none,-",
        ),
        (PLAIN, ("true", "2"), "row 1 is 'true'"),
        (PLAIN, ("1,23,456",), "which is 123456 with --thousands ,; run it so"),
        (Notation(",", "."), ("1.23.456",), "is '1.23.456'; name another column"),
        (PLAIN, ("1", "\u0661\u0662"), "name another column, or, write it in the digits 0 to 9, as 12"),
        (PLAIN, ("\uff11\uff12.5",), "or, write it in the digits 0 to 9, as 12.5"),
        (PLAIN, (".",), "row 1 is '.'"),
    ],
)
def test_what_is_no_number_is_named_with_its_readings(notation: Notation, texts: tuple[str, ...], says: str) -> None:
    with pytest.raises(HubbubError) as raised:
        read(notation, *texts)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((";", None, None), "--decimal is ';'; give . or ,"),
        ((None, "x", None), "--thousands is 'x'"),
        ((None, ".", None), "both '.'; add --decimal ,"),
        ((",", ",", None), "both ','; add --decimal ."),
    ],
)
def test_marks_that_numbers_are_not_written_with_are_bad_use(options: tuple[str | None, ...], says: str) -> None:
    with pytest.raises(UsageError) as raised:
        Notation.stated(*options)
    assert says in str(raised.value)


def test_words_for_no_answer_are_a_list() -> None:
    assert Notation.stated(",", None, "NA, ?,-,").missing == ("NA", "?", "-")


@pytest.mark.parametrize(
    ("notation", "texts", "says"),
    [
        (PLAIN, ("8.350", "-12.000", None), "such as 8.350, which is read as 8.35; if the point is between thousands"),
        (Notation(","), ("8,350", "1,000"), "add --thousands , --decimal ."),
        (PLAIN, ("850", "1.234", "0", "12.500"), "every number with a point has three digits after its point, such as"),
        (PLAIN, ("\u22128.350",), "such as \u22128.350, which is read as -8.35"),
        (PLAIN, ("8500", "1.234"), ""),
        (PLAIN, ("0", "850"), ""),
        (PLAIN, ("8.350", "0.125"), ""),
        (PLAIN, ("8.350", "12.25"), ""),
        (PLAIN, ("8.350", "1250.125"), ""),
        (PLAIN, (None, ""), ""),
        (Notation(",", "."), ("8.350",), ""),
    ],
)
def test_numbers_that_may_be_thousands_are_pointed_out(
    notation: Notation, texts: tuple[str | None, ...], says: str
) -> None:
    found = notation.doubts(pa.chunked_array([list(texts)], pa.string()), "n")
    assert [says in sentence for sentence in found] == [True] * bool(says)


def nearly(notation: Notation, *texts: str) -> str | None:
    found = notation.nearly_numbers(pa.chunked_array([list(texts)], pa.string()), "n", Path("n.parquet"))
    return None if found is None else found.problem


@pytest.mark.parametrize(
    ("notation", "texts", "says"),
    [
        (
            PLAIN,
            ("1.5", "NA", "-", "NA"),
            "1 of its 4 values are numbers, but row 2 (counted from 1) is 'NA'; if it means",
        ),
        (PLAIN, ("1.5", "NA", "-"), "add --missing NA,-"),
        (
            PLAIN,
            ("1.5", "2", "what?"),
            "but row 3 (counted from 1) is 'what?'; if it means no answer, add --missing 'what?'",
        ),
        (
            PLAIN,
            ("NA", "12,50", "2"),
            "in another notation: row 2 (counted from 1) is '12,50', which is 12.5 with --decimal ,",
        ),
        (
            Notation(","),
            ("12.50", "2"),
            "in another notation: row 1 (counted from 1) is '12.50', which is 12.5 without",
        ),
    ],
)
def test_what_keeps_a_column_from_being_numbers_is_named(notation: Notation, texts: tuple[str, ...], says: str) -> None:
    assert says in (nearly(notation, *texts) or "")


@pytest.mark.parametrize("texts", [("1", "2.5"), ("a", "b", "1"), ("NA", "-"), ("a", "NA"), ("nan", "1")])
def test_columns_of_numbers_alone_or_of_few_are_not_nearly_numbers(texts: tuple[str, ...]) -> None:
    assert nearly(PLAIN, *texts) is None


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (("0.84442185152504812", "1", "NaN", ""), [0.8444218515250481, 1.0, None, None]),
        (("1234567890123456", "1"), None),
        (("a", "1"), None),
    ],
)
def test_a_column_is_measured_if_all_are_numbers_and_none_an_identifier(
    texts: tuple[str, ...], numbers: list[float | None] | None
) -> None:
    found = PLAIN.measured(pa.chunked_array([list(texts)], pa.string()), "n")
    assert (None if found is None else found.to_pylist()) == numbers


def test_integers_beyond_a_float_are_identifiers() -> None:
    assert PLAIN.measured(pa.chunked_array([[2**60 + 1, 1]], pa.int64()), "n") is None


@pytest.mark.parametrize("text", ["9007199254740993", "-12345678901234567890", "12.345.678.901.234.567"])
def test_whole_numbers_that_would_be_rounded_are_refused(text: str) -> None:
    notation = Notation(",", ".")
    with pytest.raises(HubbubError, match=f"row 2 is '{text}', which would be rounded; .* numbers below 2.53"):
        notation.numbers(pa.chunked_array([["1", text]]), "n")
    assert notation.numbers(pa.chunked_array([["9007199254740991", "1e300"]]), "n")[0].to_pylist() == [2**53 - 1, 1e300]


def test_a_second_header_is_named_as_one() -> None:
    with pytest.raises(HubbubError, match="row 2 is the column's name again; remove the second header"):
        PLAIN.numbers(pa.chunked_array([["1", "\ufeffn"]]), "n")
