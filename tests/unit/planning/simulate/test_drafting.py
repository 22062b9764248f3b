"""What is drafted of a file is a task that its own rows answer."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
        (AskedColumns(["nothing"]), "no one column 'nothing'; its columns are id, theme"),
        (AskedColumns(sums=["theme"]), "column 'theme' does not contain numbers"),
        (AskedColumns(over_time=["stars"]), "has '2', which is no yes or no"),
        (AskedColumns(texts=["key"], by="stars"), "but 'key' is a text; leave one out"),
        (AskedColumns(["theme"], by="minutes"), "10 rows without a value"),
        (AskedColumns(["same"]), "'x' in every row"),
        (AskedColumns(sums=["minutes:a:b"]), "is not COLUMN:LOWER:UPPER"),
        (AskedColumns(sums=["minutes:9:1"]), "lower"),
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
