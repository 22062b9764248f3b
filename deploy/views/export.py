"""Export: a round's results as an Arrow table, as CSV and as Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from hubbub.deploy.files import save
from hubbub.deploy.views.results import COLUMNS, table_rows
from hubbub.protos.results import RoundResults

_COUNTS = frozenset({"round", "reports", "valid"})
_TEXTS = frozenset(
    {"task", "query", "kind", "category", "statistic", "unit", "state"}
    | {"attribute", "group", "attribute_2", "group_2"}
)
_TRUTHS = frozenset({"told_from_zero"})


def as_table(results: RoundResults) -> pa.Table:
    """Return a round's results as an Arrow table with the columns `COLUMNS`."""
    schema = pa.schema([(name, _type(name)) for name in COLUMNS])
    return pa.Table.from_pylist(table_rows(results), schema=schema)


def _type(column: str) -> pa.DataType:
    if column in _COUNTS:
        return pa.int64()
    if column in _TRUTHS:
        return pa.bool_()
    return pa.string() if column in _TEXTS else pa.float64()


def write_csv(results: RoundResults, path: Path) -> None:
    """Write the table as CSV; raises as `save` does."""
    _write(csv.write_csv, results, path)


def write_parquet(results: RoundResults, path: Path) -> None:
    """Write the table as Parquet; raises as `save` does."""
    _write(parquet.write_table, results, path)


def _write(write: Callable[[pa.Table, pa.NativeFile], None], results: RoundResults, path: Path) -> None:
    # Not by its path: on an error the library removes what is there, be it an earlier file or a device.
    buffer = pa.BufferOutputStream()
    write(as_table(results), buffer)
    save(path, buffer.getvalue().to_pybytes())
