"""Reads tables with one row per device and one column per query, and computes their true statistics."""

from __future__ import annotations

import math
import os
import random
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.accountant.written_numbers import real
from hubbub.planning.simulate.notation import PLAIN, Notation, missing_hint, unusable_in
from hubbub.planning.simulate.notes import crowd_notes, header_notes, part_notes
from hubbub.planning.simulate.table_files import read_table, row_place
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.estimation.estimates import Truth
from hubbub.queries.fields import MAXIMUM_LABEL_LENGTH, check_query_name, is_printable
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, Value

MOST_CATEGORIES = 10_000
"""The most distinct values of a histogram's column; a column with more contains identifiers, not categories."""


@dataclass(frozen=True)
class Dataset:
    """Devices' answers: one column per question, with its name; text or null for histograms, float or null for sums."""

    name: str
    questions: tuple[Question, ...]
    answers: pa.Table
    unusable: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each query, how many values of its column are infinite or NaN; these count as no answer."""
    candidates: tuple[str, ...] = ()
    """Texts to look up in the results of questions whose answers the task does not list."""
    notes: tuple[str, ...] = ()
    """What to know about the columns."""
    later: tuple[pa.Table, ...] = ()
    """Answers of the rounds after the first, if they change: the same devices in the same rows."""

    @property
    def devices(self) -> int:
        """The number of devices."""
        return int(self.answers.num_rows)

    def in_round(self, number: int) -> Dataset:
        """Return the devices' answers in a round; the last table is also used for all later rounds."""
        tables = (self.answers, *self.later)
        return replace(self, answers=tables[min(number, len(self.later))], later=())

    def taken(self, take: Callable[[pa.Table], pa.Table]) -> Dataset:
        """Return the dataset with only the rows that `take` keeps of a table, in every round."""
        return replace(self, answers=take(self.answers), later=tuple(take(table) for table in self.later))

    def rows(self) -> Iterator[dict[str, Value]]:
        """Return each device's answers by query."""
        # Rows become Python objects a thousand at a time, to save memory.
        for batch in self.answers.to_batches(max_chunksize=1000):
            yield from batch.to_pylist()


@dataclass(frozen=True)
class SumSpec:
    """A column to sum, clipped to [lower, upper]."""

    column: str
    lower: float
    upper: float

    @classmethod
    def parse(cls, text: str) -> SumSpec:
        """Read COLUMN:LOWER:UPPER.

        Raises:
            UsageError: if it has another form.
        """
        match = re.fullmatch(r"(.+):([^:]+):([^:]+)", text)
        try:
            if match is None:
                raise ValueError("a column's name and two numbers are expected, with colons between them")
            lower, upper = real(match[2]), real(match[3])
            if not lower < upper or not math.isfinite(upper - lower):
                raise ValueError(f"LOWER {lower:g} must be below UPPER {upper:g}, and both finite")
            return cls(match[1], lower, upper)
        except ValueError as error:
            raise UsageError(f"--sum {text!r} is not COLUMN:LOWER:UPPER, such as delay:-30:180 ({error})") from error


def from_file(path: Path, histograms: Sequence[str], sums: Sequence[SumSpec], notation: Notation = PLAIN) -> Dataset:
    """Return the columns of a file as queries with their names: text columns as histograms, numbers as sums.

    A histogram's categories are the column's values, sorted, as numbers if all of them are. A column with empty fields
    becomes an optional query.

    Raises:
        HubbubError: if the file cannot be read, or a column is missing or of another kind.
        UsageError: if no column is named, a column is named twice, or a column's name is not allowed for a query.
    """
    if not histograms and not sums:
        raise UsageError(
            "name at least one column of the file to ask about: --column COLUMN (`demo`: --histogram COLUMN) or "
            "--sum COLUMN:LOWER:UPPER"
        )
    table = read_table(path, [*histograms, *(spec.column for spec in sums)])
    for column in (*histograms, *(spec.column for spec in sums)):
        _column(table, str(path), column)
    if table.num_rows < 2:
        raise HubbubError(too_few_rows(path, table))
    columns: dict[str, pa.ChunkedArray] = {}
    questions: list[Question] = []
    unusable, notes = {}, header_notes(path, table)
    for column in histograms:
        written = _column(table, str(path), column)
        values = notation.categories(written, column)
        questions.append(histogram := _histogram(column, values, notation, path))
        notes += crowd_notes(column, len(histogram.categories), table.num_rows)
        notes += part_notes(histogram, column, values, notation)
        columns[histogram.name], unusable[histogram.name] = values, unusable_in(written)
    for spec in sums:
        written = _column(table, str(path), spec.column)
        values, odd = notation.numbers(written, spec.column, path)
        notes += notation.doubts(written, spec.column)
        if values.null_count == len(values):
            raise HubbubError(f"column {spec.column!r} has no number in any row; name another column")
        questions.append(number := Number(query_name(spec.column), spec.lower, spec.upper, "", values.null_count > 0))
        notes += part_notes(number, spec.column, values, notation)
        columns[number.name], unusable[number.name] = values, odd
    if len(columns) != len(questions):
        raise UsageError("two queries have the same name; ask about each column once")
    return Dataset(task_name(path), tuple(questions), pa.table(columns), _counted(unusable), notes=tuple(notes))


def read_answers(
    name: str, questions: Sequence[Question], path: Path, words: Sequence[str], notation: Notation = PLAIN
) -> Dataset:
    """Return a file's columns as answers to a task's questions.

    `words` are texts QUERY=COLUMN for columns whose name is not the query's. A question of several parts has a column
    for each part, and QUERY may also be the name of a part. A name that is in several questions is one column in all of
    them.

    Raises:
        UsageError: if a text has another form, or names no query.
        HubbubError: if the file cannot be read, or as `from_table`.
    """
    named: dict[str, str] = {}
    parts = [part for question in questions for part in question.parts]
    for word in words:
        query, found, column = word.partition("=")
        if not found or query not in (part.name for part in parts):
            names = ", ".join(dict.fromkeys(part.name for part in parts))
            raise UsageError(f"--column {word!r} is not QUERY=COLUMN; the queries are {names}")
        if query in named:
            raise UsageError(f"--column {word!r} names the query {query} a second time; give each query one column")
        named[query] = column
    columns = {part.name: named.get(part.name, part.name) for part in parts}
    table = read_table(path, list(columns.values()))
    for part in parts:
        option = f"--column {shlex.quote(part.name)}=COLUMN"
        hint = "" if part.name in named else f"; name the query's column with {option}"
        _column(table, str(path), columns[part.name], hint)
    return from_table(table, str(path), name, questions, columns, notation)


def from_table(
    table: pa.Table,
    where: str,
    name: str,
    questions: Sequence[Question],
    columns: Mapping[str, str],
    notation: Notation = PLAIN,
) -> Dataset:
    """Return a table's columns as answers to a task's questions.

    `columns` names the column of each part of the questions; `where` names the file in messages. An answer of several
    parts is a record of them. It is missing if a required part is missing.

    Raises:
        HubbubError: if a column is missing or of another kind, contains a text that its question does not allow, or has
            rows without an answer to a question that needs one.
    """
    answers, unusable, notes = {}, {}, header_notes(Path(where), table)
    for question in questions:
        parts, unusable[question.name] = _read_parts(table, where, question, columns, notation)
        values = parts[question.name] if len(parts) == 1 else _records(question, parts)
        if values.null_count and not question.optional:
            rows = "1 row" if values.null_count == 1 else f"{values.null_count} rows"
            odd = "".join(f", {count} of them {what}" for what, count in unusable[question.name].items() if count)
            named = " or ".join(repr(columns[part]) for part in parts)
            raise HubbubError(
                f"column {named} of {where} has {rows} without an answer{odd}, and the query {question.name} needs "
                "one; fill or remove what lacks it, or set optional = true"
            )
        answers[question.name] = values
        numbers = [columns[part.name] for part in question.parts if part.column is not str]
        notes += [doubt for column in numbers for doubt in notation.doubts(_column(table, where, column), column)]
        notes += [
            note for part in question.parts for note in part_notes(part, columns[part.name], parts[part.name], notation)
        ]
    return Dataset(name, tuple(questions), pa.table(answers), _counted(unusable), notes=tuple(dict.fromkeys(notes)))


def _read_parts(
    table: pa.Table, where: str, question: Question, columns: Mapping[str, str], notation: Notation
) -> tuple[dict[str, pa.ChunkedArray], Counter[str]]:
    """Return the checked column of each part of a question, and how many values no device can answer with, by kind."""
    found: dict[str, pa.ChunkedArray] = {}
    unusable: Counter[str] = Counter()
    for part in question.parts:
        column = columns[part.name]
        values = _column(table, where, column)
        if part.column is str:
            read = notation.categories if hasattr(part, "categories") else notation.texts
            found[part.name] = read(values, column)
            unusable.update(unusable_in(values))
            _check_texts(part, found[part.name], where, column, notation)
        else:
            found[part.name], odd = notation.numbers(values, column, Path(where))
            unusable.update(odd)
    return found, unusable


def _records(question: Question, parts: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return one record a row; it is null if a required part is null."""
    arrays = [values.combine_chunks() for values in parts.values()]
    missing = pa.array(np.zeros(len(arrays[0]), dtype=bool))
    for part, values in zip(question.parts, arrays, strict=True):
        if not part.optional:
            missing = pc.or_(missing, pc.is_null(values))
    return pa.chunked_array([pa.StructArray.from_arrays(arrays, list(parts), mask=missing)])


def _check_texts(question: Question, values: pa.ChunkedArray, where: str, column: str, notation: Notation) -> None:
    """Refuse a text that a question does not allow; the error has its line or row, and the text.

    The text may be shown because the data belongs to the caller. An error about a device's answer never repeats it.
    """
    for text in pc.unique(values).to_pylist():
        try:
            if text is not None:
                question.encode(text, os.urandom)
        except AnswerError as error:
            place = row_place(where, pc.index(values, text).as_py())
            hint = missing_hint(text, notation)
            raise HubbubError(f"{place} of {where}, column {column!r}, is {shown(text)}: {error}{hint}") from error


def first_rows(dataset: Dataset, devices: int | None) -> Dataset:
    """Return the first `devices` rows; None returns all of them.

    Raises:
        UsageError: if there are fewer.
    """
    if devices is None:
        return dataset
    _check_devices(dataset, devices)
    return dataset.taken(lambda table: table.slice(0, devices))


def _check_devices(dataset: Dataset, devices: int) -> None:
    if devices > dataset.devices:
        raise UsageError(
            f"{devices} devices are asked for, but the data has {dataset.devices}; ask for fewer, or for all"
        )


def notes_of(dataset: Dataset) -> list[str]:
    """Return its notes, and a sentence for each query whose column has values that no device can answer with."""
    return [
        *dataset.notes,
        *(
            f"{name}: {' and '.join(f'{count} {what}' for what, count in counts.items())} in the file, counted as no "
            "answer"
            for name, counts in dataset.unusable.items()
        ),
    ]


def _counted(unusable: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    found = {name: {what: count for what, count in counts.items() if count} for name, counts in unusable.items()}
    return {name: counts for name, counts in found.items() if counts}


def too_few_rows(path: Path, table: pa.Table) -> str:
    """Return what is wrong with a table of one row, or of none."""
    rows = "1 row" if table.num_rows == 1 else "no rows"
    return f"{path} has {rows}; every row is a device, and at least two are needed"


def _column(table: pa.Table, where: str, column: str, hint: str = "") -> pa.ChunkedArray:
    count = table.column_names.count(column)
    if not table.column_names:
        raise HubbubError(f"{where} has no columns; give a file with a column for each question")
    if count != 1:
        columns = ", ".join(table.column_names)
        has = f"{count} columns" if count else "no column"
        raise HubbubError(f"{where} has {has} {column!r}; its columns are {columns:.1000}{hint}")
    return table[column]


def _histogram(column: str, values: pa.ChunkedArray, notation: Notation, where: Path) -> Histogram:
    known = pc.unique(values).drop_null()
    check_categories(column, values, known.to_pylist(), where)
    # Numbers are sorted as numbers: 9 before 10.
    keys = notation.numbers_or_texts(pa.chunked_array([known]), column).to_pylist()
    categories = tuple(text for _, text in sorted(zip(keys, known.to_pylist(), strict=True)))
    return Histogram(query_name(column), categories, values.null_count > 0)


def is_category(text: str) -> bool:
    """Return whether a text can be the name of a category."""
    return len(text) <= MAXIMUM_LABEL_LENGTH and is_printable(text)


def check_categories(column: str, values: pa.ChunkedArray, known: Sequence[str], where: Path) -> None:
    """Check that a histogram can have a column's values as categories; the error speaks of the column."""
    if not known:
        raise HubbubError(f"column {column!r} has no value in any row; name another column")
    if len(known) == 1 and not values.null_count:
        raise HubbubError(f"column {column!r} is {shown(known[0])} in every row; name a column with two values or more")
    if len(known) > MOST_CATEGORIES:
        raise HubbubError(
            f"column {column!r} has {len(known)} distinct values; name a column with at most {MOST_CATEGORIES}"
        )
    for text in known:
        if not is_category(text):
            what = f"is longer than {MAXIMUM_LABEL_LENGTH}" if len(text) > MAXIMUM_LABEL_LENGTH else "has unprintable"
            place = row_place(where, pc.index(values, text).as_py())
            raise HubbubError(
                f"{place} of {where}, column {column!r}, {what} characters, so it is no category: {shown(text)}; "
                "replace such values, or ask for it as a text (`hubbub draft --text`), which lists none"
            )


def query_name(column: str) -> str:
    """Return the query's name for a column: the column's name in Unicode's composed form.

    Raises:
        UsageError: if no query can have that name.
    """
    name = unicodedata.normalize("NFC", column)
    try:
        check_query_name("query", name)
    except FieldError as error:
        raise UsageError(f"the column's {error.key} {error.problem}; rename the column in the file") from error
    return name


def task_name(path: Path) -> str:
    """Return a task's name for a file; few characters are allowed in it, because file names contain it."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", path.name.partition(".")[0]).strip("_")
    return (name if name[:1].isalpha() else f"data_{name}".rstrip("_"))[:63]


def sample(dataset: Dataset, devices: int, seed: int) -> Dataset:
    """Return `devices` rows drawn without replacement, the same ones for the same seed.

    It need not be secret which devices take part in a demonstration, so an ordinary generator draws them.

    Raises:
        UsageError: if there are fewer rows than `devices`, or `devices` is below two.
    """
    _check_devices(dataset, devices)
    if devices < 2:
        raise UsageError(f"{devices} devices are asked for; ask for at least two")
    rows = pa.array(random.Random(seed).sample(range(dataset.devices), devices))
    return dataset.taken(lambda table: table.take(rows))


def truth_of(dataset: Dataset, question: Question) -> Truth:
    """Return the true statistics that the estimates of a question are compared with."""
    return question.truth(dataset.answers[question.name].to_pylist())
