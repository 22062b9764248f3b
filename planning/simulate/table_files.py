"""Reads tables from CSV, TSV and Parquet files, compressed or not, with any usual separator of columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import cast

import pyarrow as pa

from hubbub.protos.errors import HubbubError

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""The compression of a file, by its ending."""

SEPARATORS = {".csv": ",;\t|", ".tsv": "\t"}
"""The possible separators of a text file, by its ending; the one that occurs most in the first line is used."""

HEADER_BYTES = 2**16
"""Bytes of a file in which the first line is searched."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""The first bytes of a text in UTF-16."""

_QUOTED = re.compile(r'"[^"]*"')


def read_table(path: Path, texts: Iterable[str] = ()) -> pa.Table:
    """Read a file whose name ends in .csv, .tsv or .parquet, or in one of these and .gz, .bz2, .zst or .lz4.

    The columns named in `texts` are read as they are written: 01234 stays 01234.

    Raises:
        HubbubError: if it is another kind of file, a folder, or malformed; the message states what to do.
        OSError: if it cannot be opened.
    """
    endings = f"give a .csv, .tsv or .parquet file, as it is or compressed ({', '.join(COMPRESSED)})"
    if path.is_dir():
        raise HubbubError(f"{path} is a folder; {endings}")
    inner = _inner(path)
    if inner not in (*SEPARATORS, ".parquet"):
        raise HubbubError(f"{path} {f'ends in {path.suffix}' if path.suffix else 'has no ending'}; {endings}")
    path.open("rb").close()  # if this fails, Python's error is shorter than pyarrow's
    try:
        table = _parquet(path) if inner == ".parquet" else _text(path, SEPARATORS[inner], texts)
        table.validate(full=True)
        table.column_names  # noqa: B018 - names that are not UTF-8 raise only here
        return table
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unreadable(path, error) from error
    except (pa.ArrowException, UnicodeError) as error:
        raise _unreadable(path, error) from error


def row_place(where: Path | str, row: int) -> str:
    """Return where a person finds a row of the file `where`, such as `line 3`; `row` counts from 0 after the header.

    A text file has lines, and its header counts as one. Without lines, it is such as
    `row 2 (counted from 1 after any header)`.
    """
    path = Path(where)
    line = _line(path, row) if _inner(path) in SEPARATORS else None
    return f"row {row + 1} (counted from 1 after any header)" if line is None else f"line {line}"


def _line(path: Path, row: int) -> int | None:
    """Return the line where a row of a text file begins; None if the file cannot be read as lines."""
    separator = _separator(_header(path), SEPARATORS[_inner(path)])
    try:
        with (
            _opened(path) as file,
            io.TextIOWrapper(cast(io.BytesIO, file), "utf-8-sig", "replace", newline="") as text,
        ):
            return next(islice(_beginnings(text, separator), row + 1, None), None)
    except csv.Error:  # a field of more than 128 KiB
        return None


def _beginnings(text: Iterable[str], separator: str) -> Iterator[int]:
    """Yield the line where each row begins, the header's first: empty lines are no rows, and some rows have several."""
    rows, ended = csv.reader(text, delimiter=separator), 0
    for fields in rows:
        if fields:
            yield ended + 1
        ended = rows.line_num


def _inner(path: Path) -> str:
    """Return the ending of a file's format: that of `a.csv.gz` is `.csv`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSED else path.suffix.lower()


def _unreadable(path: Path, error: Exception) -> HubbubError:
    said = f"{error!s:.200}".strip()
    return HubbubError(f"{path} cannot be read: {said}; {_remedy(path, error, said)}")


def _remedy(path: Path, error: Exception, said: str) -> str:
    if isinstance(error, UnicodeError) or "UTF8" in said:
        return "save it as UTF-8"
    if "Expected" in said and "columns" in said:
        return "give every row as many fields as the first line has names, and fields with separators in quotes"
    if "Empty CSV" in said:
        return "give a first line with the columns' names, and a row per device"
    if path.suffix.lower() in COMPRESSED:
        return f"check that it is complete and compressed as {path.suffix}, or unpack it first"
    return "check that it is complete and that its ending fits its format, or export it again"


def _parquet(path: Path) -> pa.Table:
    from pyarrow import parquet

    if path.suffix.lower() not in COMPRESSED:
        return parquet.read_table(path)
    with _opened(path) as file:
        # Parquet is read from its end, so a compressed file must be in memory as a whole.
        return parquet.read_table(pa.BufferReader(file.read()))


def _text(path: Path, separators: str, texts: Iterable[str]) -> pa.Table:
    from pyarrow.csv import ConvertOptions, ParseOptions, read_csv

    parse = ParseOptions(delimiter=_separator(_header(path), separators))
    # NaN is read as NaN, not as an empty field, so that it can be counted.
    empty = [word for word in ConvertOptions().null_values if word.lower().strip("-") != "nan"]
    convert = ConvertOptions(column_types=dict.fromkeys(texts, pa.string()), null_values=empty)
    with _opened(path) as file:
        return read_csv(file, parse_options=parse, convert_options=convert)


def _header(path: Path) -> str:
    """Return the first line of a text file; UnicodeError if the text is in UTF-16."""
    with _opened(path) as file:
        start = file.read(HEADER_BYTES)
    if start.startswith(UTF_16):
        raise UnicodeError("it is a text in UTF-16")
    return str(start.decode("utf-8-sig", errors="replace").partition("\n")[0])


def _opened(path: Path) -> pa.NativeFile:
    return pa.input_stream(path, compression=COMPRESSED.get(path.suffix.lower()))


def _separator(header: str, separators: str) -> str:
    """Return the separator that occurs most in a first line; if none occurs, the usual one, which is the first."""
    bare = _QUOTED.sub("", header)
    return max(separators, key=bare.count)
