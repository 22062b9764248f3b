"""Drafts a task that asks about a file's columns: its text as TOML, to be read, changed and planned.

What is drafted is of the file: categories are its values, and ranges hold 98 % of its numbers. Everyone who gets the
task reads them. So a file of people's answers must not be drafted from if its rarest values tell on somebody.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.planning.simulate.dataset import (
    SumSpec,
    check_categories,
    is_category,
    query_name,
    task_name,
    too_few_rows,
)
from hubbub.planning.simulate.notation import PLAIN, Notation, missing_hint
from hubbub.planning.simulate.notes import (
    FEW_NUMBERS,
    beside_notes,
    clipped_notes,
    header_notes,
    text_notes,
    told_notes,
)
from hubbub.planning.simulate.table_files import read_table
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.draft import MAXIMUM_QUERIES, read_draft
from hubbub.protos.task.schedule import at
from hubbub.queries.errors import shown
from hubbub.queries.longitudinal.question import state_of
from hubbub.queries.questions.number import LARGEST_BOUND

Array = np.ndarray[tuple[int], np.dtype[np.float64]]

MOST_LISTED = 100
"""A column of more texts is asked about as `text`, which lists none."""

LEAST_REPORTS = 20
"""The least minimum that is drafted: noise of the shuffler hides so few people."""

_RANGE = (0.01, 0.99)
"""The quantiles of a column's numbers between which its range is, before it is rounded outward."""

_USUAL_CHANGES = 2
_USUAL_ROUNDS = 8


@dataclass(frozen=True)
class AskedColumns:
    """The columns of a file to ask about, by the kind of question; if none is named, every column is.

    A sum is a COLUMN, or COLUMN:LOWER:UPPER. `over_time` are yes or no that may change between rounds. `by` groups each
    histogram and each sum.
    """

    histograms: Sequence[str] = ()
    sums: Sequence[str] = ()
    texts: Sequence[str] = ()
    over_time: Sequence[str] = ()
    by: str | None = None

    @property
    def ranges(self) -> dict[str, SumSpec | None]:
        """The columns that are added up, each with its range if one is stated."""
        specs = [SumSpec.parse(word) if word.count(":") > 1 else None for word in self.sums]
        return {word if spec is None else spec.column: spec for word, spec in zip(self.sums, specs, strict=True)}

    @property
    def named(self) -> list[str]:
        """All of them that are asked about by name."""
        return [*self.histograms, *self.ranges, *self.texts, *self.over_time]


@dataclass(frozen=True)
class DraftedTask:
    """The text of a draft, what to know of the columns, and the columns whose names the queries do not have."""

    text: str
    notes: tuple[str, ...]
    renamed: tuple[str, ...]


def drafted(path: Path, columns: AskedColumns, now: float, notation: Notation = PLAIN) -> DraftedTask:
    """Return a task that asks about columns of a file, beginning with the hour of `now` (seconds since 1970).

    Raises:
        HubbubError: if the file cannot be read, or a column cannot be asked about as it is named.
        UsageError: if a column is named twice, or is not in the file.
    """
    named = columns.named
    wanted = named + ([columns.by] if columns.by is not None else [])
    twice = next((name for name in wanted if wanted.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"column {twice!r} is named twice; ask about each column once")
    # Columns are read as texts, as they are written, whoever chooses them.
    table = read_table(path, wanted if named else [name for name in read_table(path).column_names if name])
    for name in wanted:
        if name not in table.column_names:
            raise UsageError(_no_column(path, name, columns, table.column_names))
    if table.num_rows < 2:
        raise HubbubError(too_few_rows(path, table))
    reader = _Reader(path, table, notation, columns.ranges)
    if named:
        kinds = {"histogram": columns.histograms, "sum": columns.ranges, "text": columns.texts}
        queries = [reader.query(name, kind) for kind, names in kinds.items() for name in names]
        queries += [reader.query(name, "longitudinal") for name in columns.over_time]
    else:
        queries = [each for name in table.column_names if name != columns.by if (each := reader.chosen(name))]
    if not queries:
        why = "; ".join(reader.notes) or "its rows are empty"
        raise HubbubError(f"{path} has no column to ask about; {why}")
    if len(queries) > MAXIMUM_QUERIES:
        raise HubbubError(
            f"{path} has {len(queries)} columns to ask about, and a task asks {MAXIMUM_QUERIES} queries at most; name "
            "some with --histogram, --sum, --text or --over-time"
        )
    if columns.by is not None:
        queries = [reader.grouped(each, columns.by) for each in queries]
    rounds = _USUAL_ROUNDS if columns.over_time else 1
    _check_one_name(queries)
    text = _text(path, table.num_rows, rounds, queries, now)
    read_draft(text)
    asked = [*dict.fromkeys([*(each["column"] for each in queries), *([columns.by] if columns.by else [])])]
    renamed = tuple(f"{query_name(name)}={name}" for name in asked if query_name(name) != name)
    return DraftedTask(text, tuple(reader.notes), renamed)


def _no_column(path: Path, name: str, columns: AskedColumns, known: Sequence[str]) -> str:
    """Return that a column is not in the file; a range that is not one would be taken for a part of its name."""
    form = "; a sum is COLUMN, or COLUMN:LOWER:UPPER, such as delay:-30:180" if name in columns.sums else ""
    return f"{path} has no column {name!r}; its columns are {', '.join(known):.1000}{form}"


def _check_one_name(queries: Sequence[Mapping[str, str]]) -> None:
    """Refuse two columns whose names differ in Unicode's forms alone: their queries would have one name."""
    columns: dict[str, str] = {}
    for each in queries:
        first = columns.setdefault(each["name"], each["column"])
        if first != each["column"]:
            raise HubbubError(
                f"columns {first!a} and {each['column']!a} look the same, so their queries would have one name; "
                "rename one of them in the file"
            )


class _Reader:
    """Turns columns of a table into queries, as the keys of a draft, and notes what to know of them."""

    def __init__(self, path: Path, table: pa.Table, notation: Notation, ranges: Mapping[str, SumSpec | None]) -> None:
        self._path, self._table, self._notation, self._ranges = path, table, notation, ranges
        self.notes = header_notes(path, table)

    def chosen(self, column: str) -> dict[str, str] | None:
        """Return a query about a column, of the kind that its values have; None with a note if it is left out."""
        noted = len(self.notes)
        try:
            kind = self._kind(column)
            return None if kind is None else self.query(column, kind)
        except HubbubError as error:
            self.notes[noted:] = [f"column {column!r} is left out: {error}"]
            return None

    def _kind(self, column: str) -> str | None:
        """Return the kind of question for a column; None with a note if it has nothing to count."""
        if not column:
            self.notes.append("a column without a name is left out")
            return None
        values = self._table[column]
        texts = self._notation.categories(values, column).drop_null()
        if pc.count_distinct(texts).as_py() < 2:
            self.notes.append(f"column {column!r} is left out: it has one value, or none")
            return None
        kind = _usual_kind(texts, self._notation.measured(values, column))
        nearly = self._notation.nearly_numbers(values, column, self._path)
        # What a few of the values decide is not chosen: they may be written in another notation, or mean no answer.
        if nearly is not None and _usual_kind(texts, nearly.numbers) != kind:
            as_it_is = "to ask about it as it is, name each column, and this one with --histogram or --text"
            raise HubbubError(f"{nearly.problem}; {as_it_is}")
        self.notes += beside_notes(column, texts) if kind != "sum" else []
        if kind in _UNIQUE:
            self._note_unique(column, _UNIQUE[kind])
            return None
        return self._listed_or_text(texts, column) if kind == "histogram" else kind

    def _listed_or_text(self, texts: pa.ChunkedArray, column: str) -> str:
        """Return `histogram`, or `text` with a note if a value cannot be a category, such as one with a line break."""
        odd = next((text for text in pc.unique(texts).to_pylist() if not is_category(text)), None)
        if odd is None:
            return "histogram"
        why = f"{shown(odd)} is no category, as it is too long or has unprintable characters"
        self.notes.append(f"column {column!r} is asked about as text: {why}")
        return "text"

    def _note_unique(self, column: str, option: str) -> None:
        again = f"to ask about it, name each column, and this one with {option}"
        self.notes.append(f"column {column!r} is left out: each row has a value of its own; {again}")

    def query(self, column: str, kind: str) -> dict[str, str]:
        """Return a query of that kind about a column, with the TOML of each key, and `column`."""
        values = self._table[column]
        found = {"column": column, "name": _toml(query_name(column)), "kind": _toml(kind)}
        if not pc.any(pc.is_valid(self._notation.texts(values, column))).as_py():
            raise HubbubError(f"column {column!r} has no value in any row; name another column")
        if kind == "sum":
            read, _ = self._notation.numbers(values, column, self._path)
            self.notes += self._notation.doubts(values, column)
            lower, upper = self._range(read, column)
            self.notes += clipped_notes(column, read, lower, upper)
            found |= {"lower": f"{lower:.12g}", "upper": f"{upper:.12g}"}
        elif kind == "longitudinal":
            for text in pc.unique(self._notation.texts(values, column)).drop_null().to_pylist():
                if state_of(text) is None:
                    hint = missing_hint(text, self._notation)
                    raise HubbubError(
                        f"column {column!r} has {shown(text)}, which is no yes or no; name another column{hint}"
                    )
            return found | {"changes": str(_USUAL_CHANGES)}
        else:
            read = self._notation.categories(values, column)
            if kind == "histogram":
                found["categories"] = self._categories(read, column)
            else:
                known = pc.unique(read).drop_null().to_pylist()
                self.notes += text_notes(column, known, self._notation, "an answer")
        return found | ({"optional": "true"} if read.null_count else {})

    def grouped(self, query: dict[str, str], by: str) -> dict[str, str]:
        """Return the query, asked of each group of people with one value of the column `by`."""
        kind = read_json(query["kind"])
        if kind not in ("histogram", "sum"):
            raise UsageError(f"--by groups histograms and sums, but {query['column']!r} is a {kind}; leave one out")
        values = self._notation.categories(self._table[by], by)
        if values.null_count:
            rows = "1 row" if values.null_count == 1 else f"{values.null_count} rows"
            raise HubbubError(f"column {by!r} has {rows} without a value, so without a group; fill each")
        inner = {key: value for key, value in query.items() if key not in ("column", "name")}
        group = f"{{ name = {_toml(query_name(by))}, categories = {self._categories(values, by)} }}"
        of = ", ".join(f"{key} = {value}" for key, value in inner.items())
        return {key: query[key] for key in ("column", "name")} | {
            "kind": _toml("grouped"),
            "by": f"[{group}]",
            "of": f"{{ {of} }}",
        }

    def _categories(self, values: pa.ChunkedArray, column: str) -> str:
        known = pc.unique(values).drop_null()
        check_categories(column, values, known.to_pylist(), self._path)
        keys = self._notation.numbers_or_texts(pa.chunked_array([known]), column).to_pylist()
        names = [text for _, text in sorted(zip(keys, known.to_pylist(), strict=True))]
        found = [*text_notes(column, names, self._notation), *told_notes(column, values, self._notation)]
        self.notes += [note for note in found if note not in self.notes]
        return f"[{', '.join(map(_toml, names))}]"

    def _range(self, read: pa.ChunkedArray, column: str) -> tuple[float, float]:
        numbers = read.drop_null().to_numpy()
        if not len(numbers):
            raise HubbubError(f"column {column!r} has no number in any row; name another column")
        stated = self._ranges.get(column)
        if stated is not None:
            return stated.lower, stated.upper
        lower, upper = _holding(numbers)
        if max(-lower, upper) > LARGEST_BOUND:
            raise HubbubError(
                f"column {column!r} has numbers beyond {LARGEST_BOUND:g}, which no range holds; state a smaller one "
                "(--sum COLUMN:LOWER:UPPER), or name another column"
            )
        return lower, upper


_UNIQUE = {"unique numbers": "--sum", "unique texts": "--text"}
"""Kinds of columns with a value of its own in each row, and the option that asks about one nevertheless."""


def _usual_kind(texts: pa.ChunkedArray, numbers: pa.ChunkedArray | None) -> str:
    """Return the kind of question about a column of these texts, or of these numbers if it has numbers."""
    numbers = pa.chunked_array([], pa.float64()) if numbers is None else numbers.drop_null()
    values = numbers if len(numbers) else texts
    distinct = pc.count_distinct(values).as_py()
    unique = distinct == len(values) > FEW_NUMBERS
    if not len(numbers):
        return "unique texts" if unique else "histogram" if distinct <= MOST_LISTED else "text"
    whole = pc.all(pc.equal(numbers, pc.round(numbers))).as_py()
    if whole and unique:
        return "unique numbers"
    return "histogram" if whole and distinct <= FEW_NUMBERS else "sum"


def _holding(numbers: Array) -> tuple[float, float]:
    """Return a range of 98 % of the numbers, whose ends have two significant digits."""
    low, high = (float(each) for each in np.quantile(numbers, _RANGE))
    lower = 0.0 if 0 <= low <= high / 10 else _rounded(low, math.floor)
    upper = 0.0 if high <= 0 and -high <= -low / 10 else _rounded(high, math.ceil)
    return lower, upper if upper > lower else lower + 1


def _rounded(value: float, to: Callable[[float], int]) -> float:
    """Return a number rounded to two significant digits by `math.floor` or `math.ceil`."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return to(value / unit) * unit


def _toml(text: str) -> str:
    """Return a TOML string; its escapes are those of JSON."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _text(path: Path, rows: int, rounds: int, queries: Sequence[dict[str, str]], now: float) -> str:
    # A tenth of the people may stay away.
    minimum = max(LEAST_REPORTS, int(_rounded(0.9 * rows, math.floor)))
    delta = min(1e-6, 10.0 ** math.floor(math.log10(0.1 / minimum)))
    lines = [
        f"# Drafted from {path.name}: change what is not meant. `hubbub plan` checks it, and shows the errors.",
        "# Everyone who gets the task reads it. Its categories and ranges are the file's.",
        "",
        "[task]",
        f"name = {_toml(task_name(path))}",
        f"start = {at(now - now % 3600)}    # when the first round opens",
        'length = "24h"                  # of a round',
        f"rounds = {rounds}",
        f"minimum_reports = {minimum}          # a round with fewer is erased; the file has {rows:,} rows",
        'close = "operator"              # `hubbub close` may end a round earlier',
        "",
        "[privacy]                       # of everything that one person sends in a round",
        "epsilon = 1.0                   # a person's guarantee at the minimum, together with delta",
        f"delta = {delta:.0e}",
        "epsilon_local = 8               # the guarantee if all services collude",
        'noise = "auto"                  # the shuffler hides people where no error then grows by over 5 %',
    ]
    for query in queries:
        lines += ["", "[[query]]", *(f"{key} = {value}" for key, value in query.items() if key != "column")]
    return "\n".join(lines) + "\n"
