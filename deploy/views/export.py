"""Export: a round's results as an Arrow table, as CSV and as Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from hubbub.deploy.views.results import COLUMNS, table_rows
from hubbub.protos.results import RoundResults

_NUMBERS = frozenset({"estimate", "standard_error", "lower", "upper", "consistent"})


def as_table(results: RoundResults) -> pa.Table:
    """Return a round's results as an Arrow table with the columns `COLUMNS`."""
    types = {name: pa.float64() if name in _NUMBERS else pa.string() for name in COLUMNS} | {"round": pa.int64()}
    schema = pa.schema([(name, types[name]) for name in COLUMNS])
    return pa.Table.from_pylist(table_rows(results), schema=schema)


def write_csv(results: RoundResults, path: Path) -> None:
    """Write the table as CSV."""
    csv.write_csv(as_table(results), path)


def write_parquet(results: RoundResults, path: Path) -> None:
    """Write the table as Parquet."""
    parquet.write_table(as_table(results), path)
