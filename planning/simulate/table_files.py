"""Reads tables from CSV, TSV and Parquet files, compressed or not, with any usual separator of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

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
    inner = Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSED else path.suffix.lower()
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
    from pyarrow import csv

    with _opened(path) as file:
        start = file.read(HEADER_BYTES)
    if start.startswith(UTF_16):
        raise UnicodeError("it is a text in UTF-16")
    header = start.decode("utf-8-sig", errors="replace").partition("\n")[0]
    parse = csv.ParseOptions(delimiter=_separator(header, separators))
    # NaN is read as NaN, not as an empty field, so that it can be counted.
    empty = [word for word in csv.ConvertOptions().null_values if word.lower().strip("-") != "nan"]
    convert = csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()), null_values=empty)
    with _opened(path) as file:
        return csv.read_csv(file, parse_options=parse, convert_options=convert)


def _opened(path: Path) -> pa.NativeFile:
    return pa.input_stream(path, compression=COMPRESSED.get(path.suffix.lower()))


def _separator(header: str, separators: str) -> str:
    """Return the separator that occurs most in a first line; if none occurs, the usual one, which is the first."""
    bare = _QUOTED.sub("", header)
    return max(separators, key=bare.count)
