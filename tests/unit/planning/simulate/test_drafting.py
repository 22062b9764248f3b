"""What is drafted of a file is a task that its own rows answer."""

from __future__ import annotations

import csv
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from hubbub.planning.simulate.dataset import read_answers
from hubbub.planning.simulate.drafting import AskedColumns, drafted
from hubbub.planning.simulate.notation import PLAIN, Notation
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.task import Draft
from hubbub.queries.errors import HubbubError

NOW = 1_800_000_000.0
ROWS = 40
COLUMNS: dict[str, Callable[[int], Any]] = {
    "id": lambda row: row,
    "theme": lambda row: ("dark", "light", 'my "own"')[row % 3],
    "minutes": lambda row: f"{row * 1.5:.1f}" if row % 4 else "",
    "key": lambda row: f"key-{row}",
    "active": lambda row: ("Yes", "no")[row % 2],
    "stars": lambda row: row % 5,
    "same": lambda row: "x",  # noqa: ARG005 - a column like the others
    "cafe\u0301": lambda row: ("a", "b")[row % 2],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path, COLUMNS, ROWS)


def written(folder: Path, columns: dict[str, Callable[[int], Any]], rows: int) -> Path:
    path = folder / "my data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(columns)
        lines.writerows([make(row) for make in columns.values()] for row in range(rows))
    return path


ALL = AskedColumns()


def task_of(data: Path, columns: AskedColumns = ALL, notation: Notation = PLAIN) -> tuple[Draft, tuple[str, ...]]:
    """The drafted task, whose questions the file's rows answer."""
    found = drafted(data, columns, NOW, notation)
    draft = read_draft(found.text)
    assert read_answers(draft.name, draft.questions, data, found.renamed, notation).devices > 0
    return draft, found.notes


def test_every_column_is_asked_about_by_what_it_has(data: Path) -> None:
    draft, notes = task_of(data)
    kinds = {each.name: each.kind for each in draft.questions}
    assert kinds == {
        "theme": "histogram",
        "minutes": "sum",
        "active": "histogram",
        "stars": "histogram",
        "caf\u00e9": "histogram",
    }
    assert draft.name == "my_data"
    assert [each.optional for each in draft.questions] == [False, True, False, False, False]
    assert (draft.minimum_reports, draft.privacy.delta, draft.noise) == (36, 1e-6, "auto")
    for column in ("id", "key", "same"):
        assert any(f"column '{column}' is left out" in note for note in notes)


def test_columns_are_asked_about_as_they_are_named(data: Path) -> None:
    named = AskedColumns(histograms=["stars"], sums=["minutes", "id:0:30"], texts=["key"], over_time=["active"])
    draft, notes = task_of(data, named)
    assert [each.kind for each in draft.questions] == ["histogram", "sum", "sum", "text", "longitudinal"]
    assert draft.schedule.rounds == 8
    assert any("9 of 40 numbers are outside of 0 to 30" in note for note in notes)


def test_questions_are_asked_by_groups(data: Path) -> None:
    draft, _ = task_of(data, AskedColumns(["theme"], ["minutes"], by="stars"))
    assert {each.kind for each in draft.questions} == {"grouped"}


def test_a_files_notation_is_used(tmp_path: Path) -> None:
    path = written(tmp_path, {"price": lambda row: f"1.{row:03},5"}, 30)
    draft, _ = task_of(path, AskedColumns(sums=["price"]), Notation(",", "."))
    (question,) = draft.questions
    assert question.content()["lower"] == pytest.approx(1000)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (AskedColumns(["theme", "theme"]), "'theme' is named twice"),
        (AskedColumns(["nothing"]), "no column 'nothing'; its columns are id, theme"),
        (AskedColumns(sums=["theme"]), "column 'theme' does not contain numbers"),
        (AskedColumns(over_time=["stars"]), "has '2', which is no yes or no"),
        (AskedColumns(texts=["key"], by="stars"), "but 'key' is a text; leave one out"),
        (AskedColumns(["theme"], by="minutes"), "10 rows without a value"),
        (AskedColumns(["same"]), "'x' in every row"),
        (AskedColumns(sums=["minutes:a:b"]), "is not COLUMN:LOWER:UPPER"),
        (AskedColumns(sums=["minutes:9:1"]), "LOWER 9 must be below UPPER 1"),
        (AskedColumns(sums=["minutes:0-9"]), "a sum is COLUMN, or COLUMN:LOWER:UPPER"),
    ],
)
def test_what_cannot_be_asked_is_named(data: Path, columns: AskedColumns, says: str) -> None:
    with pytest.raises(HubbubError) as caught:
        drafted(data, columns, NOW)
    assert says in str(caught.value)


def test_a_file_of_nothing_to_count_says_why(tmp_path: Path) -> None:
    path = written(tmp_path, {"same": lambda row: "x", "id": lambda row: row}, 30)  # noqa: ARG005
    with pytest.raises(HubbubError, match="no column to ask about; column 'same' is left out"):
        drafted(path, AskedColumns(), NOW)


KINDS: dict[str, Callable[[int], Any]] = {
    "other": lambda row: row % 2,
    "missing": lambda row: "NA" if row == 6 else f"{row * 1.3 % 20:.2f}",
    "comma": lambda row: f"{row * 1.3 % 20:.2f}".replace(".", ","),
    "long": lambda row: (row * 0.7312345678901234) % 9.1,
    "infinite": lambda row: "nan" if row == 3 else f"{row * 1.3 % 20:.2f}",
    "lines": lambda row: "two\nlines" if row == 3 else ("a", "b")[row % 2],
    "few": lambda row: ("1", "2", "NA")[row % 3],
    "more": lambda row: ("1", "2", "3+")[row % 3],
    "": lambda row: row % 2,
}


def test_what_few_values_decide_is_never_chosen_without_a_word(tmp_path: Path) -> None:
    path = written(tmp_path, KINDS, 200)
    draft, notes = task_of(path)
    assert {each.name: each.kind for each in draft.questions} == {
        "other": "histogram",
        "long": "sum",
        "infinite": "sum",
        "lines": "text",
        "few": "histogram",
        "more": "histogram",
    }
    missing, comma, lines, few, nameless = notes
    assert "'missing' is left out: 199 of its 200 values are numbers, but line 9 is 'NA'; " in missing
    assert "add --missing NA; to ask about it as it is, name each column, and this one with --histogram" in missing
    assert "'comma' is left out: " in comma
    assert "which is 0 with --decimal ,; run it so" in comma
    assert "'lines' is asked about as text: 'two\\nlines' is no category" in lines
    assert "'few' has 'NA', counted as a category" in few
    assert nameless == "a column without a name is left out"


def test_the_stated_notation_decides(tmp_path: Path) -> None:
    path = written(tmp_path, KINDS, 200)
    draft, _ = task_of(path, notation=Notation(missing=("NA",)))
    assert [each.optional for each in draft.questions if each.name in ("missing", "few")] == [True, True]
    draft, _ = task_of(path, AskedColumns(sums=["comma"]), Notation(","))
    assert [each.kind for each in draft.questions] == ["sum"]


def test_a_yes_or_no_over_time_may_lack_an_answer_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, {"on": lambda row: ("yes", "no", "NA")[row % 3]}, 30)
    with pytest.raises(HubbubError, match=r"has 'NA', .*; or, if it means no answer, add --missing '[?],NA'$"):
        drafted(path, AskedColumns(over_time=["on"]), NOW, Notation(missing=("?",)))


def test_columns_that_look_the_same_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, {"caf\u00e9": lambda row: row % 2, "cafe\u0301": lambda row: row % 3}, 30)
    with pytest.raises(HubbubError, match="look the same, so their queries would have one name; rename one"):
        drafted(path, ALL, NOW)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("data.csv", "a,b\n", "has no rows; every row is a device"),
        ("data.jsonl", '{"a": 1}\n', "has 1 row; every row is a device"),
        ("data.jsonl", "{}\n{}\n", "has no column to ask about; its rows are empty$"),
    ],
)
def test_a_file_without_rows_or_columns_says_so(name: str, content: str, says: str, tmp_path: Path) -> None:
    (path := tmp_path / name).write_text(content)
    with pytest.raises(HubbubError, match=says):
        task_of(path)


@pytest.mark.parametrize("names", ["a,a,b", "a,a"])
def test_a_name_of_two_columns_is_named_before_anything_else(names: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\n".join([names, *(names.replace("a", str(row)).replace("b", "x") for row in range(30))]))
    with pytest.raises(HubbubError, match="names 2 columns 'a'"):
        drafted(path, ALL, NOW)
    with pytest.raises(HubbubError, match="names 2 columns 'a'"):
        drafted(path, AskedColumns(["a"]), NOW)


@settings(max_examples=40)
@given(
    values=st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12),
            st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
            st.integers(-(10**9), 10**9).map(str),
        ),
        min_size=25,
        max_size=40,
    )
)
def test_any_column_is_drafted_so_that_its_rows_answer(
    values: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(
        tmp_path_factory.mktemp("any"), {"other": lambda row: row % 2, "any": values.__getitem__}, len(values)
    )
    draft, _ = task_of(path)
    assert draft.questions[0].name == "other"


def test_whole_numbers_with_zeros_before_them_are_no_numbers(tmp_path: Path) -> None:
    """A postal code, or a phone number, was added up."""
    columns: dict[str, Callable[[int], Any]] = {
        "postcode": lambda row: f"{(row % 15) * 997:05}",
        "share": lambda row: f"0.{row % 15}",
        "count": lambda row: str(row % 15),
    }
    draft, _ = task_of(written(tmp_path, columns, 60))
    assert [question.kind for question in draft.questions] == ["histogram", "sum", "sum"]


def test_decimals_of_parquet_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "prices.parquet"
    prices = pa.array([Decimal(row % 15) / 4 for row in range(60)], pa.decimal128(9, 2))
    parquet.write_table(pa.table({"price": prices}), path)
    (question,) = task_of(path)[0].questions
    assert question.kind == "sum"


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("3%", "12%", "40.5%"), "column 'n' has numbers with '%' beside them, such as '"),
        (("€ 3", "€ 1.200,50", "€ -4"), "column 'n' has numbers with '€' beside them"),
        (("3 kg", "4 kg", "5 kg"), "column 'n' has numbers with 'kg' beside them"),
        (("3 kg", "4 lb", "5 kg"), None),
        (("3", "4", "5x9"), None),
        (("a1", "a2", "b3"), None),
    ],
)
def test_numbers_with_a_unit_are_pointed_out(texts: tuple[str, ...], says: str | None, tmp_path: Path) -> None:
    """Else they are categories without a word, as if nobody could want their sum."""
    columns: dict[str, Callable[[int], Any]] = {
        "n": lambda row: texts[row % 3].replace("3", str(row % 20)),
        "m": lambda row: "ab"[row % 2],
    }
    _, notes = task_of(written(tmp_path, columns, 60))
    assert any("; to add them up, write them as numbers alone" in note for note in notes) is (says is not None)
    assert says is None or any(note.startswith(says) for note in notes)


def test_texts_that_look_alike_are_pointed_out_with_what_cannot_be_seen(tmp_path: Path) -> None:
    columns: dict[str, Callable[[int], Any]] = {
        "n": lambda row: ("x", "x\u200b", "y")[row % 3],
        "m": lambda row: ("a b", "a\u00a0b", "c")[row % 3],
        "k": lambda row: ("\uff11", "1", "2")[row % 3],
        "one": lambda row: ("1.0", "1", "2")[row % 3],
        "minus": lambda row: ("\u22125", "-5", "x")[row % 3],
        "code": lambda row: ("1234567890123456", "1234567890123457", "x")[row % 3],
        "joined": lambda row: ("\u0645\u06cc\u200c\u062e\u0648", "z", "y")[row % 3],
    }
    _, notes = task_of(written(tmp_path, columns, 60))
    ends = "which are different categories; if they are one, write them alike"
    assert notes == (
        f"column 'n' has 'x' and 'x\\u200b', {ends}",
        f"column 'm' has 'a b' and 'a\\xa0b', {ends}",
        f"column 'k' has '1' and '\uff11', {ends}",
        f"column 'one' has '1' and '1.0', {ends}",
        f"column 'minus' has '-5' and '\u22125', {ends}",
    )


def test_numbers_beyond_any_range_and_columns_without_a_value_are_named_as_the_columns_they_are(tmp_path: Path) -> None:
    """The error spoke of query[0].upper of a draft that nobody had written; nothing was asked about in silence."""
    path = written(tmp_path, {"n": lambda row: (1e308, 2.5)[row % 2], "none": lambda _: ""}, 60)
    with pytest.raises(
        HubbubError, match=r"column 'n' has numbers beyond 1e\+300, which no range holds; state a small"
    ):
        task_of(path, AskedColumns(sums=("n",)))
    for columns in (AskedColumns(texts=("none",)), AskedColumns(over_time=("none",))):
        with pytest.raises(HubbubError, match="column 'none' has no value in any row; name another column"):
            task_of(path, columns)


def test_more_columns_than_a_task_can_ask_about_are_refused_by_their_number(tmp_path: Path) -> None:
    """The error spoke of a line of a draft that nobody had written."""
    columns = {f"c{place}": (lambda row, place=place: (row * place) % 3) for place in range(1, 100)}
    with pytest.raises(HubbubError, match=r"columns to ask about, and a task asks 64 queries at most; name some with"):
        task_of(written(tmp_path, columns, 30))


def test_categories_that_one_row_alone_has_are_pointed_out(tmp_path: Path) -> None:
    columns: dict[str, Callable[[int], Any]] = {
        "note": lambda row: f"flat {row}" if row in (3, 7) else "quiet",
        "one": lambda row: "loud" if row == 3 else "quiet",
        "two": lambda row: "loud" if row < 2 else "quiet",
    }
    _, notes = task_of(written(tmp_path, columns, 60))
    read = "everyone who gets the task reads its categories; to list none, name each column, and this one with --text"
    assert notes == (
        f"column 'note' has 2 of its 3 values, such as 'flat 3', in one row each: {read}",
        f"column 'one' has a value, 'loud', that only one row has: {read}",
    )
    _, notes = task_of(tmp_path / "my data.csv", AskedColumns(texts=["note"]))
    assert notes == ()


def test_few_numbers_that_one_row_alone_has_can_be_added_up_instead(tmp_path: Path) -> None:
    """The ages of four people became four categories, and the note knew only the question of texts."""
    path = written(tmp_path, {"age": lambda row: 28 + row}, 4)
    _, (note,) = task_of(path)
    assert "4 of its 4 values, such as '28', in one row each" in note
    assert note.endswith("to list none, name each column, and this one with --sum or --text")
    draft, _ = task_of(path, AskedColumns(sums=["age"]))
    assert draft.questions[0].kind == "sum"
