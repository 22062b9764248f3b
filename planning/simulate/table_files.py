"""Reads tables from CSV, TSV, JSON Lines and Parquet files, compressed or not, with any usual separator of columns."""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

import pyarrow as pa

from hubbub.protos.errors import HubbubError

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""The compression of a file, by its ending."""

SEPARATORS = {".csv": ",;\t|", ".tsv": "\t"}
"""The possible separators of a text file, by its ending; the one that occurs most in the first line is used."""

LINES_OF_JSON = (".jsonl", ".ndjson")
"""Endings of files with one JSON object a line."""

READ_ENDINGS = (*SEPARATORS, *LINES_OF_JSON, ".parquet")
"""The endings of files that are read."""

_WORKBOOK = "it is a workbook; save its sheet as CSV, or run: soffice --convert-to csv {path}"
_ARCHIVE = "run: tar -xf {path}, and give the file that was in it"
_COPY = "if it has a row a line, run: cp {path} {commas} (.tsv if tabs separate its columns), and give that"

CONVERTED = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), _WORKBOOK),
    **dict.fromkeys((".tar", ".tgz", ".tbz2", ".txz"), _ARCHIVE),
    ".zip": "run: unzip {path}, and give the file that was in it",
    ".7z": "run: 7z x {path}, and give the file that was in it",
    ".xz": "run: unxz --keep {path}, and give the file without .xz",
    ".json": "run: jq -c '.[]' {path} > {lines}, if it is a list of objects, and give that",
    **dict.fromkeys((".txt", ".tab", ".psv", ".dat", ".bak"), _COPY),
    **dict.fromkeys((".parq", ".pq"), "run: cp {path} {parquet}, and give that"),
    **{
        ending: f"in Python, run: pandas.read_{form}({{path!r}}).to_csv({{commas!r}}, index=False), and give that"
        for ending, form in {
            ".feather": "feather",
            ".arrow": "feather",
            ".orc": "orc",
            ".dta": "stata",
            ".sav": "spss",
            ".sas7bdat": "sas",
        }.items()
    },
    ".rds": "in R, run: write.csv(readRDS({path!r}), {commas!r}, row.names = FALSE), and give that",
}
"""What to do with a file of another ending, in a shell unless it says where."""

UNPACKED = {".gz": "gunzip", ".bz2": "bunzip2", ".zst": "unzstd", ".lz4": "unlz4"}
"""The program that unpacks a compressed file, by its ending."""

HEADER_BYTES = 2**22
"""Bytes of a file in which the first line is searched."""

BLOCKS = (2**20, 2**24, 2**28, 2**30)
"""Bytes that are read at once; the next one is tried if a record is longer."""

_WIDE = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""The first bytes of a text in an encoding whose characters have two or four bytes; the longer ones first."""

NO_TEXTS = {
    b"\x1f\x8b": ("compressed by gzip", "give it a name that ends in .csv.gz"),
    b"PK\x03\x04": ("a workbook or a .zip", "save its sheet as CSV, or unzip it and give the file that was in it"),
    b"PAR1": ("Parquet", "give it a name that ends in .parquet"),
}
"""What files begin with that are no text whatever their names say, what they are, and what to do."""

_QUOTED = re.compile(r'"[^"]*"')
_EXCEL = re.compile(r'"?sep=(.)"?(?:\r\n?|\n)', re.IGNORECASE)
_EXPECTED = re.compile(r"Expected ([0-9]+) columns, got ([0-9]+)")
_SPACED = re.compile(r'"[^"\r\n]*"(?: +"[^"\r\n]*")+ *[\r\n]')
_SPACE_AND_QUOTE = re.compile(r'[,;\t|] +"')
_BY_SPACES = "spaces separate its columns"
_IN_ROW = re.compile(r"\.? in row ([0-9]+)$")
_ZEROS = "it has bytes of zero"
_NO_ROW = "Could not skip initial"
_TOO_LONG = "straddling object"
_NO_END = "the last field begins with a quote and does not end with one"


def read_table(path: Path, columns: Sequence[str] = ()) -> pa.Table:
    """Read a file whose name ends in one of `READ_ENDINGS`, or in one of these and .gz, .bz2, .zst or .lz4.

    Of a CSV or TSV file the named columns are read as texts, as they are written: 01234 stays 01234. The other columns
    are empty. If no columns are named, or another kind of file is read, all columns have the type of their values.

    Raises:
        HubbubError: if it is another kind of file, a folder, or malformed, or if two columns that are read have one
            name; the message states what to do.
        OSError: if it cannot be opened.
    """
    endings = f"give a .csv, .tsv, .jsonl or .parquet file, as it is or compressed ({', '.join(COMPRESSED)})"
    if path.is_dir():
        raise HubbubError(f"{path} is a folder; {endings}")
    if path.is_fifo():
        raise HubbubError(f"{path} is a pipe, and files are read more than once; write it into a file, and give that")
    path.open("rb").close()  # if this fails, Python's error is shorter than pyarrow's
    inner = _inner(path)
    if inner not in READ_ENDINGS:
        ending = "".join(path.suffixes[-2:]) if inner != path.suffix.lower() and inner else path.suffix
        raise HubbubError(f"{path} {f'ends in {ending}' if ending else 'has no ending'}; {_converted(path) or endings}")
    try:
        table = _read(path, inner, columns)
        table.validate(full=True)
        # Names that are not UTF-8 raise only here.
        _check_names(path, table.column_names, columns)
        return table
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unreadable(path, error) from error
    except (pa.ArrowException, UnicodeError, csv.Error) as error:
        if isinstance(error, MemoryError) or "launch worker thread" in str(error):
            raise  # not the file's fault
        raise _unreadable(path, error) from error


def _converted(path: Path) -> str:
    """Return what to do with a file of another ending; empty if nothing is known of it."""
    inner, packed = _inner(path), path.suffix.lower() if path.suffix.lower() in COMPRESSED else ""
    known, stem = CONVERTED.get(inner, ""), Path(path.stem).stem if packed else path.stem
    if packed and known not in ("", _COPY):
        # An archive is unpacked with its compression, a workbook or the like before it is converted.
        known = _ARCHIVE if known == _ARCHIVE else f"run: {UNPACKED[packed]} --keep {{path}}, and give what it makes"
    commas = stem if Path(stem).suffix.lower() in SEPARATORS else f"{stem}.csv"
    names = {"path": str(path), "lines": f"{stem}.jsonl", "commas": commas + packed, "parquet": f"{stem}.parquet"}
    return known.format(**names if "{path!r}" in known else {key: shlex.quote(name) for key, name in names.items()})


def is_text_file(path: Path) -> bool:
    """Return whether a file has lines of text whose first one names the columns."""
    return _inner(path) in SEPARATORS


def row_place(where: Path | str, row: int) -> str:
    """Return where a person finds a row of the file `where`, such as `line 3`; `row` counts from 0 after the header.

    A text file has lines, and its header counts as one. Without lines, it is such as `row 2 (counted from 1)`.
    """
    path = Path(where)
    line = _line(path, row) if _inner(path) in SEPARATORS else None
    return f"row {row + 1} (counted from 1)" if line is None else f"line {line}"


def _line(path: Path, row: int) -> int | None:
    """Return the line where a row of a text file begins; None if the file cannot be read as lines."""
    begin = _beginning(path, SEPARATORS[_inner(path)])
    try:
        with (
            _opened(path) as file,
            io.TextIOWrapper(cast(io.BytesIO, file), "utf-8-sig", "replace", newline="") as text,
        ):
            lines = (line for line in _beginnings(text, begin) if line > begin.lines)
            return next(islice(lines, row, None), None)
    except csv.Error:  # a field of more than 128 KiB
        return None


def _beginnings(text: Iterable[str], begin: _Beginning) -> Iterator[int]:
    """Yield the line where each row begins, the header's first; some rows have several lines."""
    rows, ended = csv.reader(text, delimiter=begin.separator), 0
    for fields in rows:
        if fields or begin.empty_lines_are_rows:
            yield ended + 1
        ended = rows.line_num


def _inner(path: Path) -> str:
    """Return the ending of a file's format: that of `a.csv.gz` is `.csv`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSED else path.suffix.lower()


def _read(path: Path, inner: str, columns: Sequence[str]) -> pa.Table:
    if inner == ".parquet":
        return _parquet(path)
    return _json(path, columns) if inner in LINES_OF_JSON else _text(path, SEPARATORS[inner], columns)


def _unreadable(path: Path, error: Exception) -> HubbubError:
    said = f"{_counted_from_one(path, str(error)):.200}".strip()
    if "UTF8" in said and _inner(path) != ".parquet":  # Arrow says so of a column that it counts from 0
        said = "it is not UTF-8"
    if _NO_ROW in said:
        said = "it has no line after the first one"
    if "\0" in said:
        said = _ZEROS
    return HubbubError(f"{path} cannot be read: {said}; {_remedy(path, error, said)}")


def _counted_from_one(path: Path, said: str) -> str:
    """Return what Arrow says of a row of JSON, which it counts from 0, and anew in each block that it reads."""
    known = path.suffix.lower() not in COMPRESSED and path.stat().st_size <= BLOCKS[0]
    return _IN_ROW.sub(lambda found: f" in row {int(found[1]) + 1} (counted from 1)" if known else "", said)


def _from_windows(path: Path) -> str:
    """Return how a text of Windows becomes UTF-8: Excel writes CSV in its code page, unless it is asked for UTF-8."""
    if path.suffix.lower() not in SEPARATORS:
        return ""
    names = f"{shlex.quote(str(path))} > {shlex.quote(f'utf8-{path.name}')}"
    return f"; in Excel that is 'CSV UTF-8'; or, if it is from Windows, run: iconv -f WINDOWS-1252 -t UTF-8 {names}"


def _remedy(path: Path, error: Exception, said: str) -> str:
    if isinstance(error, UnicodeError) or "UTF8" in said or "UTF-8" in said:
        return f"save it as UTF-8{'' if ' in UTF-' in said else _from_windows(path)}"
    if said == _ZEROS:
        return "a full disk or a crash leaves them; remove these, or export it again"
    if (counts := _EXPECTED.search(said)) is not None:
        if _SPACE_AND_QUOTE.search(said):
            return "remove spaces before quotes, as a quote is one only where its field begins"
        # Taken for a column, R's names of rows could as well be halves of numbers with a comma.
        more = _one_more(said) if int(counts[2]) == int(counts[1]) + 1 else ""
        if counts[1] == "1":
            more = "; if its first lines are a title or comments, remove them: the first one has the columns' names"
        return f"give every row as many fields as the first line has names, and fields with separators in quotes{more}"
    if _TOO_LONG in said or _NO_END in said:
        return "end every field that begins with a quote with one too"
    if said == _BY_SPACES:
        return "separate them by commas; in R, write with write.csv(…, row.names = FALSE)"
    if "JSON" in said:
        return "write one JSON object a line, and in each column values of one kind"
    if "Empty CSV" in said or "no line after" in said:
        return "give a first line with the columns' names, and a row per device"
    if path.suffix.lower() in COMPRESSED:
        return f"check that it is complete and compressed as {path.suffix}, or unpack it first"
    return "check that it is complete and that its ending fits its format, or export it again"


def _one_more(said: str) -> str:
    """Return what to do if a row has one field more than there are names."""
    if said.endswith(tuple(",;\t|")):
        return "; remove the separator that ends each row"
    return "; R leaves out a name for its rows: write with row.names = FALSE"


def _parquet(path: Path) -> pa.Table:
    from pyarrow import parquet

    with _opened(path) as file:
        try:
            # Parquet is read from its end, so a compressed file must be in memory as a whole.
            whole = file if path.suffix.lower() not in COMPRESSED else pa.BufferReader(file.read())
            # Unlike `read_table`, it reads two columns of one name, so that `_check_names` can say which.
            return _with_types_named(parquet.ParquetFile(whole).read())
        except pa.ArrowInvalid as error:
            if "magic bytes" not in str(error) and "Parquet file size" not in str(error):
                raise
            raise pa.ArrowInvalid("it is no Parquet, or has lost its end") from error
        except (ValueError, TypeError, LookupError) as error:
            if isinstance(error, pa.ArrowException):
                raise
            # A library such as pandas, if it is imported, reads the description of its own types.
            raise pa.ArrowInvalid("the description of a column's type is damaged") from error


def _with_types_named(table: pa.Table) -> pa.Table:
    """Return a table in which columns of types that Arrow does not know have these, so that they are not misread.

    Arrow reads what is stored of them: of pandas' periods, for example, how many months after 1970 each is.
    """
    for place, field in enumerate(table.schema):
        name = (field.metadata or {}).get(b"ARROW:extension:name")
        if name is not None:
            stored = pa.opaque(field.type, name.decode(errors="replace"), "")
            chunks = [pa.ExtensionArray.from_storage(stored, chunk) for chunk in table.column(place).chunks]
            table = table.set_column(place, pa.field(field.name, stored), pa.chunked_array(chunks, stored))
    return table


def _json(path: Path, columns: Sequence[str]) -> pa.Table:
    from pyarrow import json

    def read(texts: Sequence[str], size: int) -> pa.Table:
        schema = pa.schema([(name, pa.string()) for name in texts])
        options = json.ParseOptions(explicit_schema=schema, newlines_in_values=True)
        with _opened(path) as file:
            return json.read_json(file, json.ReadOptions(block_size=size), options)

    with _opened(path) as file:
        start = file.read(HEADER_BYTES)
    _check_start(path, start)
    if start.lstrip().startswith(b"["):
        raise HubbubError(f"{path} is a list; write one JSON object a line, as jq -c '.[]' does of a list of objects")
    table = _in_blocks(lambda size: read((), size))
    for name in columns if len(set(table.column_names)) == table.num_columns else ():
        if name in table.column_names:
            _check_rounded(name, table[name])
    # Texts that look like dates are read as dates, unless they are asked for as texts.
    dates = [field.name for field in table.schema if field.name in columns and pa.types.is_temporal(field.type)]
    return _in_blocks(lambda size: read(dates, size)) if dates else table


def _check_rounded(name: str, values: pa.ChunkedArray) -> None:
    """Refuse whole numbers of JSON that its reader has rounded, so that two identifiers may have become one."""
    import pyarrow.compute as pc

    if pa.types.is_floating(values.type) and pc.any(pc.and_(pc.is_finite(values), _large(values))).as_py():
        raise HubbubError(
            f"column {name!r} has numbers of 2^53 or more beside others, which are rounded as they are read; write the "
            'column as texts, such as "9007199254740993"'
        )


def _large(values: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.greater_equal(pc.abs(values), 2.0**53)


def _in_blocks(read: Callable[[int], pa.Table]) -> pa.Table:
    """Return what is read with the smallest blocks that contain every record."""
    for size in BLOCKS[:-1]:
        try:
            return read(size)
        except pa.ArrowInvalid as error:
            if _TOO_LONG not in str(error):
                raise
    return read(BLOCKS[-1])


@dataclass(frozen=True)
class _Beginning:
    """How a text file begins: the separator, the columns' names, and how many lines are before the rows."""

    separator: str
    names: tuple[str, ...]
    lines: int
    spaced: bool
    """Whether a space follows each separator; it is then no part of a field."""

    @property
    def empty_lines_are_rows(self) -> bool:
        """Whether an empty line is a row without an answer. Of a single column it is; else it is no row."""
        return len(self.names) == 1


def _text(path: Path, separators: str, columns: Sequence[str]) -> pa.Table:
    from pyarrow import csv as arrow

    begin = _beginning(path, separators)
    _check_names(path, begin.names, columns)
    asked = [name for name in dict.fromkeys(columns) if begin.names.count(name) == 1]
    if columns and not asked:
        return pa.Table.from_arrays([pa.nulls(0)] * len(begin.names), list(begin.names))
    last = begin.names[-1]
    # A line break in a quoted field may be at a block's edge.
    parse = arrow.ParseOptions(
        delimiter=begin.separator, newlines_in_values=True, ignore_empty_lines=not begin.empty_lines_are_rows
    )
    # An empty field is read as an empty text, and NaN as NaN, so that both can be counted.
    empty = [word for word in arrow.ConvertOptions().null_values if word.lower().strip("-") != "nan"]
    convert = arrow.ConvertOptions(
        column_types={last: pa.binary(), **dict.fromkeys(asked, pa.string())} if asked else {},
        null_values=empty,
        # The last one is for `_check_end`.
        include_columns=[*(name for name in asked if name != last), last] if asked else (),
    )

    def read(size: int) -> pa.Table:
        lines = arrow.ReadOptions(column_names=begin.names, skip_rows=begin.lines, block_size=size)
        with _opened(path) as file:
            return arrow.read_csv(file, lines, parse, convert)

    _check_quotes(path, begin)
    table = _in_blocks(read)
    _check_end(path, table)
    _check_spaced(path, table.select(asked))
    if begin.empty_lines_are_rows:
        table = table.slice(0, max(0, table.num_rows - _empty_lines_at_end(path)))
    return _with_all_names(table.select(asked), begin) if asked else table


def _check_names(path: Path, names: Sequence[str], asked: Sequence[str]) -> None:
    """Refuse a name that two columns have, if it is asked for, or all are. Columns without a name are never asked for.

    Raises:
        HubbubError: if there is one.
    """
    twice = next((name for name in names if name and names.count(name) > 1 and (not asked or name in asked)), None)
    if twice is not None:
        raise HubbubError(
            f"the header of {path} names {names.count(twice)} columns {twice!r}, so it is not known which is meant; "
            "rename all but one of them in the file"
        )


def _check_quotes(path: Path, begin: _Beginning) -> None:
    """Refuse a quote that ends a field before its text ends, and one that ends no field.

    The rest would be read as if the quote were not there.

    A quote within a field is written twice. Some programs put a backslash before it instead.
    """
    if not _may_have_odd_quotes(path, re.escape(begin.separator.encode())):
        return  # most files: Python's reader, which takes seconds, is not needed
    with _opened(path) as file, io.TextIOWrapper(cast(io.BytesIO, file), "utf-8-sig", "replace", newline="") as text:
        rows = csv.reader(text, delimiter=begin.separator, strict=True)
        try:
            for _ in rows:
                pass
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise pa.ArrowInvalid(_NO_END) from error
            if "expected after" in str(error):
                raise HubbubError(
                    f"line {rows.line_num} of {path} has a quote before the end of its field; write a quote within a "
                    'field twice, as in "a ""b""", and put none into another field'
                ) from error


def _may_have_odd_quotes(path: Path, mark: bytes) -> bool:
    """Return whether Python's reader may find an odd quote: one within a text, or not as many begin as end fields."""
    edge, inside = rb"[\r\n" + mark + rb"]", rb'[^\r\n"' + mark + rb"]"
    odd = re.compile(inside + rb'"' + inside + rb'|""' + inside + rb'|\\"')
    begins, ends = (re.compile(b'(?<=%b)"(?=%b)' % sides) for sides in ((edge, inside), (inside, edge)))
    with _opened(path) as file:
        before, open_fields, quotes, more = b"\n", 0, 0, b" "
        while more:
            more = file.read(HEADER_BYTES)
            # The file's end ends its last field.
            block = before + (more or b"\n")
            if b'"' in block:
                if odd.search(block) is not None:
                    return True
                open_fields += len(begins.findall(block)) - len(ends.findall(block))
            # A quote is looked at with its neighbors, once.
            before, quotes = block[-2:], quotes + more.count(b'"')
    return open_fields != 0 or quotes % 2 != 0


def _check_spaced(path: Path, table: pa.Table) -> None:
    """Refuse spaces before the quotes of a field: these would be part of its text."""
    import pyarrow.compute as pc

    for name, values in zip(table.column_names, table.columns, strict=True):
        found = pc.match_substring_regex(values, '^ +"[^"]*"$')
        if pc.any(found).as_py():
            place = row_place(path, pc.index(found, True).as_py())
            raise HubbubError(
                f"{place} of {path}, column {name!r}, has spaces before its quotes, so that these would be part of its "
                "text; remove spaces before quotes"
            )


def _check_end(path: Path, table: pa.Table) -> None:
    """Refuse a file whose last field has all further rows in it, because the quote that it begins with has no end."""
    last = table.column(table.num_columns - 1)[-1].as_py() if table.num_rows else None
    # A line ends with \n or \r alone: texts may have other characters that end lines of a page.
    if not isinstance(last, bytes | str) or len((last.encode() if isinstance(last, str) else last).splitlines()) < 2:
        return
    if not _end(path).rstrip(b"\r\n ").endswith(b'"'):
        raise pa.ArrowInvalid(_NO_END)


def _end(path: Path) -> bytes:
    """Return the last bytes of a file, unpacked."""
    end = b""
    with _opened(path) as file:
        while more := file.read(HEADER_BYTES):
            end = (end + more)[-HEADER_BYTES:]
    return end


def _empty_lines_at_end(path: Path) -> int:
    """Return how many empty lines end the file. Editors leave them, so they are rows of no file."""
    end = _end(path)
    breaks = end[len(end.rstrip(b"\r\n")) :].replace(b"\r\n", b"\n")
    return max(0, len(breaks) - 1)


def _with_all_names(table: pa.Table, begin: _Beginning) -> pa.Table:
    """Return the table with an empty column for each name that was not read."""
    import pyarrow.compute as pc

    read = {name: pc.utf8_ltrim_whitespace(table[name]) if begin.spaced else table[name] for name in table.column_names}
    empty = pa.nulls(table.num_rows)
    return pa.Table.from_arrays([read.get(name, empty) for name in begin.names], list(begin.names))


def _beginning(path: Path, separators: str) -> _Beginning:
    """Read how a text file begins.

    Excel's line that names the separator is passed over. Spaces around a column's name are no part of it.
    """
    with _opened(path) as file:
        start = file.read(HEADER_BYTES)
    _check_start(path, start)
    text = start.decode("utf-8-sig", errors="replace")
    excel = _EXCEL.match(text)
    body = text[excel.end() :] if excel else text
    separator = excel[1] if excel else _separator(body.lstrip("\r\n"), separators)
    lines = csv.reader(io.StringIO(body, newline=""), delimiter=separator)
    header = next((record for record in lines if record), [])
    if not header:
        raise pa.ArrowInvalid("Empty CSV file")
    before = lines.line_num + bool(excel)
    names = [name.strip().strip("\ufeff") for name in header]
    if any("\ufffd" in name for name in names):
        raise UnicodeError("a column's name is not UTF-8")
    if len(header) == 1 and _SPACED.match(body.lstrip("\r\n")):
        raise pa.ArrowInvalid(_BY_SPACES)
    spaced = len(header) > 1 and all(name.startswith(" ") for name in header[1:])
    return _Beginning(separator, tuple(names), before, spaced)


def _check_start(path: Path, start: bytes) -> None:
    """Refuse a file that begins as no text in UTF-8 does."""
    wide = next((name for begins, name in _WIDE.items() if start.startswith(begins)), "")
    # Without a mark of its encoding, the bytes before or after its first characters are zero.
    if not wide and any(start[:4]) and (start.startswith(b"\0") or start[1:4:2] == b"\0\0"):
        wide = "UTF-16 or UTF-32"
    if wide:
        raise UnicodeError(f"it is a text in {wide}")
    for begins, (what, remedy) in NO_TEXTS.items():
        if start.startswith(begins):
            raise HubbubError(f"{path} is no text, but {what}; {remedy}")


def _opened(path: Path) -> pa.NativeFile:
    # As bytes, since a folder's name may be no UTF-8.
    file, packed = pa.OSFile(os.fsencode(path)), COMPRESSED.get(path.suffix.lower())
    return file if packed is None else pa.CompressedInputStream(file, packed)


def _separator(text: str, separators: str) -> str:
    """Return the separator that occurs most in a first line; if none occurs, the usual one, which is the first."""
    bare = _QUOTED.sub("", re.split(r"[\r\n]", text, maxsplit=1)[0])
    return max(separators, key=bare.count)
