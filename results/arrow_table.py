"""Makes an Arrow table of published rows; this module needs pyarrow, so it is loaded late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hubbub.results.published_row import PublishedRow

_TYPES: dict[str, pa.DataType] = {
    "datetime": pa.timestamp("us", tz="UTC"),
    "int": pa.int64(),
    "int | None": pa.int64(),
    "bool | None": pa.bool_(),
    "float | None": pa.float64(),
    "str": pa.string(),
    "str | None": pa.string(),
    "Group": pa.string(),
}
"""Columns by the annotations of rows. All but groups are taken over as they are."""


def schema() -> pa.Schema:
    """Return the columns of a table: one for each attribute of a row, in their order."""
    return pa.schema([(name, _TYPES[str(each.type)]) for name, each in PublishedRow.__dataclass_fields__.items()])


def arrow_of(rows: Sequence[PublishedRow]) -> pa.Table:
    """Return rows as an Arrow table with a column for each of their attributes.

    A group is text, "region=north, age=young", since data frames handle no lists of pairs; everybody is an empty text.
    """
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in schema().names}
    columns["group"] = [", ".join(f"{attribute}={value}" for attribute, value in row.group) for row in rows]
    return pa.table(columns, schema=schema())
