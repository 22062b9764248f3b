"""Exports results of rounds as an Arrow table, as CSV and as Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from hubbub.deploy.files import save
from hubbub.protos.records.results import RoundResults
from hubbub.protos.records.results_document import COLUMNS, table_rows

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}

_FORMULA = r"^([=+\-@＝＋－＠'\t\r\n])"
"""Beginnings of texts that a spreadsheet may treat as a formula, or that look like guarded ones."""


def as_table(*rounds: RoundResults) -> pa.Table:
    """Return the results of rounds, one after the other, as an Arrow table with the columns `COLUMNS`."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in COLUMNS.items()])
    return pa.Table.from_pylist([row for each in rounds for row in table_rows(each)], schema=schema)


def csv_bytes(*rounds: RoundResults, guarded: bool = True) -> bytes:
    """Return the table as CSV, its texts guarded against being read as formulas."""
    return _bytes(csv.write_csv, guard(as_table(*rounds)) if guarded else as_table(*rounds))


def write_csv(path: Path, *rounds: RoundResults, guarded: bool = True) -> None:
    """Write the table as CSV, its texts guarded against being read as formulas; raises as `save` does."""
    save(path, csv_bytes(*rounds, guarded=guarded))


def guard(table: pa.Table) -> pa.Table:
    """Put an apostrophe before each text that a spreadsheet would treat as a formula.

    These begin with =, +, - or @, as they are or full-width, a tab or a line's end; those that begin with an apostrophe
    get one more, so that taking one from each text that begins with it gives back what there was. Numbers stay numbers.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            guarded = pc.replace_substring_regex(table.column(place), _FORMULA, r"'\1")
            table = table.set_column(place, field, guarded)
    return table


def parquet_bytes(*rounds: RoundResults) -> bytes:
    """Return the table as Parquet."""
    return _bytes(parquet.write_table, as_table(*rounds))


def write_parquet(path: Path, *rounds: RoundResults) -> None:
    """Write the table as Parquet; raises as `save` does."""
    save(path, parquet_bytes(*rounds))


def _bytes(write: Callable[[pa.Table, pa.NativeFile], None], table: pa.Table) -> bytes:
    # Not to a path: on an error, the library would remove an earlier file or a device.
    buffer = pa.BufferOutputStream()
    write(table, buffer)
    return bytes(buffer.getvalue().to_pybytes())
