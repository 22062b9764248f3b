"""Reads a boolean that changes over time, from a table with a row per device and period, or a column per period."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.planning.simulate.longitudinal import States
from hubbub.planning.simulate.notation import PLAIN, Notation, missing_hint
from hubbub.planning.simulate.table_files import read_table, row_place
from hubbub.protos.errors import HubbubError
from hubbub.queries.errors import shown
from hubbub.queries.longitudinal.question import state_of


def read_wide(path: Path, columns: Sequence[str], notation: Notation = PLAIN) -> States:
    """Return the booleans of a table with a row per device and a column per period; periods are in the given order.

    Raises:
        HubbubError: if the file cannot be read, a column is missing, or a field is not a boolean.
        OSError: if the file cannot be opened.
    """
    table = read_table(path, columns)
    fields = [_booleans(table, path, column, notation) for column in columns]
    return _carried(np.stack(fields, axis=1))


def read_long(path: Path, device: str, period: str, column: str, notation: Notation = PLAIN) -> States:
    """Return the booleans of a table with a row per device and period; periods are in the order of their values.

    A device without a row for a period keeps its last boolean. Numbers are ordered as numbers, texts as texts.

    Raises:
        HubbubError: as `read_wide`, and if a device has two rows for one period.
        OSError: if the file cannot be opened.
    """
    table = read_table(path, [device, period, column])
    names = notation.texts(_column(table, path, device), device)
    times = notation.numbers_or_texts(_column(table, path, period), period)
    devices, periods = _places(names, device), _places(times, period)
    states = np.full((int(devices.max()) + 1, int(periods.max()) + 1), -1, dtype=np.int8)
    cells = devices * states.shape[1] + periods
    if len(np.unique(cells)) != len(cells):
        raise HubbubError(f"{path}: a {device!r} has two rows for one {period!r}; keep one of them")
    states[devices, periods] = _booleans(table, path, column, notation)
    return _carried(states)


def _places(values: pa.ChunkedArray, column: str) -> npt.NDArray[np.int64]:
    """Return the rank of each value among the distinct values of its column, from 0."""
    if values.null_count:
        raise HubbubError(f"column {column!r} has {values.null_count} empty fields; fill them, or remove their rows")
    known = pc.unique(values)
    order = known.take(pc.sort_indices(known))
    found: npt.NDArray[np.int64] = pc.index_in(values.combine_chunks(), order).to_numpy().astype(np.int64)
    return found


def _column(table: pa.Table, path: Path, column: str) -> pa.ChunkedArray:
    found = table.column_names.count(column)
    if found != 1:
        names = ", ".join(table.column_names)
        what = "no column" if not found else f"{found} columns named"
        raise HubbubError(f"{path} has {what} {column!r}; its columns are {names:.1000}")
    if not table.num_rows:
        raise HubbubError(f"{path} has no rows; give one for each device and period")
    return table[column]


def _booleans(table: pa.Table, path: Path, column: str, notation: Notation) -> States:
    """Return a column's booleans as 1 and 0, and −1 for no news, which an empty field is."""
    values = _column(table, path, column)
    found = np.full(len(values), -1, dtype=np.int8)
    for row, text in enumerate(notation.texts(values, column).to_pylist()):
        state = None if text is None else state_of(text)
        if state is None and text is not None:
            place = row_place(path, row)
            raise HubbubError(
                f"{place} of {path}, column {column!r}, is {shown(text)}; write yes or no, true or false, 1 or 0, or "
                f"leave it empty if there is no news{missing_hint(text, notation)}"
            )
        if state is not None:
            found[row] = state
    return found


def _carried(states: States) -> States:
    """Return the booleans with each gap filled by the last known one, or by 0 before the first."""
    known = np.where(states >= 0, np.arange(1, states.shape[1] + 1), 0)
    last = np.maximum.accumulate(known, axis=1)
    padded = np.concatenate([np.zeros((len(states), 1), dtype=np.int8), states], axis=1)
    return np.take_along_axis(padded, last, axis=1)
