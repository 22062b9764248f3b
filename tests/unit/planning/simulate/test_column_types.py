"""Columns of every Arrow type are read as what they look like, or refused by name."""

from __future__ import annotations

import datetime
import decimal
import importlib
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.planning.simulate.dataset import SumSpec, from_file, notes_of
from hubbub.queries.errors import HubbubError

SECOND = datetime.timedelta(seconds=5)
DAY = datetime.date(2026, 1, 1)

WIDE = 12345678901234567890


def uuids(*values: bytes) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([*values, None], pa.binary(16)))


TEXTS: list[tuple[pa.Array, list[str | None]]] = [
    (pa.array(["a", "b", "a", None]), ["a", "b", "a", None]),
    (pa.array(["a", "b", "a", None], pa.large_string()), ["a", "b", "a", None]),
    (pa.array(["a", "b", "a", None], pa.string_view()), ["a", "b", "a", None]),
    (pa.array(["a", "b", "a", None]).dictionary_encode(), ["a", "b", "a", None]),
    (pa.array(["a ", " b", "a", " "]), ["a", "b", "a", None]),
    (pa.array(["\u00e9", "e\u0301", "x", None]), ["\u00e9", "\u00e9", "x", None]),
    (pa.array([2**53 + 1, 2**53, 3, None]), ["9007199254740993", "9007199254740992", "3", None]),
    (pa.array([1.0, 2.5, float("nan"), None]), ["1", "2.5", None, None]),
    (pa.array([0.0, -0.0, 1.0, None]), ["0", "0", "1", None]),
    (pa.array([b"a", b"b", b"a", None]), ["a", "b", "a", None]),
    (pa.array([b"aa", b"bb", b"aa", None], pa.binary(2)), ["aa", "bb", "aa", None]),
    (pa.array([b"a", b"b", b"a", None], pa.large_binary()), ["a", "b", "a", None]),
    (uuids(b"\xff" * 16, b"\0" * 16), ["ffffffff-ffff-ffff-ffff-ffffffffffff", str(UUID(int=0)), None]),
    (pa.array([WIDE, WIDE + 1, None], pa.decimal128(38, 0)), [str(WIDE), str(WIDE + 1), None]),
    (pa.array([True, False, True, None]), ["true", "false", "true", None]),
    (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())), ["true", "false", None]),
    (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "2", None])), ["1", "2", None]),
    (pa.array([0.1, float("nan"), 2.0, None], pa.float16()), ["0.1", None, "2", None]),
    (pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.20"), None, None]), ["1.10", "2.20", None, None]),
    (pa.array([DAY, DAY + datetime.timedelta(1), DAY, None]), ["2026-01-01", "2026-01-02", "2026-01-01", None]),
]

NUMBERS: list[tuple[pa.Array, list[float | None]]] = [
    (pa.array([1, 2, None]), [1.0, 2.0, None]),
    (pa.array([1, 2, None], pa.uint8()), [1.0, 2.0, None]),
    (pa.array([1.5, float("nan"), float("inf")]), [1.5, None, None]),
    (pa.array([decimal.Decimal("1.10"), None]), [1.1, None]),
    (pa.array(["1", "2.5", ""]).dictionary_encode(), [1.0, 2.5, None]),
    (pa.array(["1", "2.5", ""], pa.string_view()), [1.0, 2.5, None]),
    (pa.array([True, False, None]), [1.0, 0.0, None]),
    (pa.array([b"1", b"2.5", b""]), [1.0, 2.5, None]),
    (pa.array([b"1.5", b"2.5"], pa.binary(3)), [1.5, 2.5]),
]

NEITHER: list[pa.Array] = [
    pa.array([SECOND, 2 * SECOND]),
    pa.array([[1], [2]]),
    pa.array([{"a": 1}, {"a": 2}]),
    pa.nulls(2),
    pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "pandas.period", ""), pa.array([1, 2])),
]

NO_NUMBERS: list[pa.Array] = [
    pa.array([2**53 + 1, 1]),
    pa.array([2**64 - 1, 1], pa.uint64()),
    pa.array([WIDE, WIDE + 1], pa.decimal128(38, 0)),
    pa.array([b"x", b"2"]),
    pa.array([DAY, DAY]),
    pa.array([datetime.time(1), datetime.time(2)]),
    pa.array([b"\xff", b"a"]),
    pa.array(["1", "x"]).dictionary_encode(),
]


def written(folder: Path, values: pa.Array) -> Path:
    path = folder / "data.parquet"
    parquet.write_table(pa.table({"column": values}), path)
    return path


@pytest.mark.parametrize(("values", "read"), TEXTS, ids=map(str, range(len(TEXTS))))
def test_texts_are_what_they_look_like(values: pa.Array, read: list[Any], tmp_path: Path) -> None:
    found = from_file(written(tmp_path, values), ["column"], [])
    assert found.answers["column"].to_pylist() == read
    unusable = " and ".join(f"{count} {what}" for what, count in found.unusable.get("column", {}).items())
    assert notes_of(found) == ([f"column: {unusable} in the file, counted as no answer"] if unusable else [])
    (question,) = found.questions
    assert question.optional
    assert {question.encode(each, lambda _: b"") for each in read if each is not None} == {
        *range(len({*read} - {None}))
    }


@pytest.mark.parametrize(("values", "read"), NUMBERS, ids=map(str, range(len(NUMBERS))))
def test_numbers_are_what_they_look_like(values: pa.Array, read: list[Any], tmp_path: Path) -> None:
    found = from_file(written(tmp_path, values), [], [SumSpec("column", 0, 10)])
    assert found.answers["column"].to_pylist() == read


@pytest.mark.parametrize("values", NEITHER, ids=lambda each: str(each.type))
def test_what_is_no_answer_is_refused_as_a_category_and_as_a_number(values: pa.Array, tmp_path: Path) -> None:
    path = written(tmp_path, values)
    with pytest.raises(HubbubError, match=r"column 'column' .*name another|name a column of texts|write it as texts"):
        from_file(path, ["column"], [])
    with pytest.raises(HubbubError, match=r"column .column. .*(name another|write it as texts)"):
        from_file(path, [], [SumSpec("column", 0, 10)])


def periods(path: Path, described: str) -> Path:
    """Write a column of pandas' periods with this description of their type."""
    metadata = {"ARROW:extension:name": "pandas.period", "ARROW:extension:metadata": described}
    stored = pa.field("column", pa.int64(), metadata=metadata)
    parquet.write_table(pa.table([[660, 661]], pa.schema([stored])), path)
    return path


def test_a_type_that_only_another_library_knows_is_not_read_as_what_is_stored_of_it(tmp_path: Path) -> None:
    path = periods(tmp_path / "data.parquet", '{"freq": "M"}')
    with pytest.raises(HubbubError, match=r"column 'column' has values of type 'pandas\.period', which only its own"):
        from_file(path, ["column"], [])


def test_a_type_that_an_imported_library_cannot_read_is_an_error_of_the_file(tmp_path: Path) -> None:
    importlib.import_module("pandas.core.arrays.arrow.extension_types")
    path = periods(tmp_path / "data.parquet", "no JSON")
    with pytest.raises(HubbubError, match="the description of a column's type is damaged"):
        from_file(path, ["column"], [])


def test_a_type_is_named_in_a_word_however_deep_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(('{"column": ' + "[" * 100 + "]" * 100 + "}\n") * 2)
    with pytest.raises(HubbubError, match="column 'column' does not contain texts: it has lists; name"):
        from_file(path, ["column"], [])


@pytest.mark.parametrize("values", NO_NUMBERS, ids=lambda each: str(each.type))
def test_what_is_no_number_is_refused_as_one(values: pa.Array, tmp_path: Path) -> None:
    with pytest.raises(
        HubbubError, match=r"column .column. does not contain numbers( or texts)?: .*; name another column"
    ):
        from_file(written(tmp_path, values), [], [SumSpec("column", 0, 10)])
