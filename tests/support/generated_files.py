"""Files of data as programs and people write them, with what is in them: encodings, separators, quotes, marks."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import parquet

LETTERS = [
    "a",
    "B",
    "é",
    "e\u0301",
    "Å",
    "ß",
    "東京",
    "۵",
    "नमस्ते",
    "👩\u200d💻",
    "می\u200cخواهم",
    "x y",
    "a\u00a0b",
    "it's",
]
MARKED = [
    *("01234", "0170 123", "+49 170 1", "12 %", "€ 5", "(12)", "5-", "01JAN2020", "２３", "−5", "TRUE", "\u3000東"),
    *("a,b", "a;b", "a\tb", 'say "a"', "line\nbreak", "=1+1", "-", "?", "NA", "null", "+a", "#a", "1/2", "a|b", ""),
]
NAMES = ["city", "my city", "città", "citta\u0300", "city, old", "Größe", "x", "1st", "=a", "a.b", "a-b", "A", "東"]

SINGLE_BYTE = ("latin-1", "cp1252")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", *SINGLE_BYTE)
PACKED: Mapping[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}


@dataclass(frozen=True)
class DataFile:
    """A file: its name, its bytes, the words of a command that state its notation, and what its columns have."""

    name: str
    content: bytes
    notation: tuple[str, ...]
    texts: tuple[str, list[str]]
    numbers: tuple[str, list[float]]
    plain: bool
    """Whether nothing in it is a reason to refuse it."""

    def put(self, folder: Path) -> Path:
        path = folder / self.name
        path.write_bytes(self.content)
        return path

    @property
    def counts(self) -> Counter[str]:
        """How many rows have each text, composed and without spaces at its ends; empty ones are no answers."""
        composed = [unicodedata.normalize("NFC", text).strip() for text in self.texts[1]]
        return Counter(text for text in composed if text)


def data_files() -> st.SearchStrategy[DataFile]:
    """Return a file of a column of texts and one of numbers."""
    return st.one_of(text_files(), text_files(), typed_files())


@st.composite
def typed_files(draw: st.DrawFn) -> DataFile:
    """Return a file whose values have types: lines of JSON, or Parquet."""
    rows = draw(st.integers(40, 120))
    pool = draw(st.lists(st.sampled_from([*LETTERS, *MARKED]), min_size=2, max_size=6, unique=True))
    cells = draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows))
    numbers = draw(st.lists(st.sampled_from([0, 1, 2.5, -3, 1234.5, 12345, 0.125]), min_size=rows, max_size=rows))
    first, second = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["n", "my number", "Zahl", "x,y"]))
    if draw(st.booleans()):
        ascii_alone = draw(st.booleans())
        lines = [
            json.dumps({first: text or None, second: number}, ensure_ascii=ascii_alone)
            for text, number in zip(cells, numbers, strict=True)
        ]
        name, content = "data.jsonl", "\n".join(lines).encode()
    else:
        texts = draw(st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]))
        numeric = draw(st.sampled_from([pa.float64(), pa.float32(), pa.decimal128(12, 3)]))
        out, exact = io.BytesIO(), pa.array(numbers, pa.float64()).cast(numeric)
        parquet.write_table(pa.table({first: pa.array(cells, pa.string()).cast(texts), second: exact}), out)
        name, content = "data.parquet", out.getvalue()
    packed = draw(st.sampled_from(["", "", *PACKED]))
    content = PACKED[packed](content) if packed else content
    return DataFile(name + packed, content, (), (first, cells), (second, [float(each) for each in numbers]), True)


@st.composite
def text_files(draw: st.DrawFn) -> DataFile:
    """Return a file of text."""
    encoding = draw(st.sampled_from(ENCODINGS))
    rows = draw(st.integers(40, 120))
    pool = draw(
        st.lists(st.sampled_from(encodable([*LETTERS, *MARKED], encoding)), min_size=2, max_size=6, unique=True)
    )
    cells = draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows))
    numbers = draw(st.lists(st.sampled_from([0, 1, 2.5, -3, 1234.5, 12345, 0.125]), min_size=rows, max_size=rows))
    first = draw(st.sampled_from(encodable(NAMES, encoding)))
    second = draw(st.sampled_from([name for name in ("n", "my number", "Zahl", "x,y") if name != first]))
    decimal, thousands = draw(st.sampled_from([(".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (".", "'")]))
    separator = draw(st.sampled_from([",", ";", "\t"]))
    always, space = draw(st.booleans()), draw(st.booleans())
    end, last = draw(st.sampled_from(["\n", "\r\n", "\r"])), draw(st.booleans())
    table = [
        [first, second],
        *([text, written(value, decimal, thousands)] for text, value in zip(cells, numbers, strict=True)),
    ]
    lines = [separator.join(quoted(cell, separator, always, space) for cell in row) for row in table]
    if draw(st.booleans()) and separator == ";":
        lines.insert(0, f"sep={separator}")
    text = end.join(lines) + end * last
    notation = (*(("--decimal", decimal) if decimal != "." else ()), *(("--thousands", thousands) if thousands else ()))
    name = draw(st.sampled_from(["data.csv", "data.CSV", "my data.csv", "data.tsv", "däta.csv"]))
    packed = draw(st.sampled_from(["", "", *PACKED]))
    content = text.encode(encoding)
    return DataFile(
        name + packed,
        PACKED[packed](content) if packed else content,
        notation,
        (first, cells),
        (second, [float(value) for value in numbers]),
        encoding not in (*SINGLE_BYTE, "utf-16") and not (name.endswith("tsv") and separator != "\t"),
    )


def encodable(texts: Sequence[str], encoding: str) -> list[str]:
    """Return the texts that have a form in an encoding."""
    return [text for text in texts if text.encode(encoding, "ignore").decode(encoding) == text]


def written(value: float, decimal: str, thousands: str) -> str:
    """Return a number as it is written with these marks."""
    text = f"{value:,}" if thousands else f"{value}"
    return text.replace(",", "\0").replace(".", decimal).replace("\0", thousands)


def quoted(cell: str, separator: str, always: bool, space: bool) -> str:
    """Return a field, in quotes if it needs them or `always`."""
    needs = any(mark in cell for mark in (separator, '"', "\n", "\r"))
    needs = needs or (space and " " in cell)
    return '"' + cell.replace('"', '""') + '"' if needs or always else cell


BROKEN: Sequence[bytes] = (
    b"",
    b"\n",
    b"\xef\xbb\xbf",
    b"a",
    b"a,b\n",
    b"a,b\n1\n",
    b"a,b\n1,2,3\n4,5,6\n",
    b"a,a\n1,2\n3,4\n",
    b",\n1,2\n3,4\n",
    b'a,b\n"1,2\n3,4\n',
    b"a,b\n1,2\x00\n3,4\n",
    b"\xff\xfea\x00,\x00b\x00\n\x001\x00",
    b"PK\x03\x04rest",
    b"PAR1rest",
    b'{"a": 1}\n{"a": "x"}\n',
    b"[1, 2]",
    b"a;b\n1,5;2\n3,5;4\n",
    b"a\n" + b"x" * 100_000 + b"\ny\n",
    b"\x1f\x8b\x08\x00",
    b"a,b\r1,2\r3,4\r",
    b"a\tb\n1\t2\n3\t4\n",
    b"a\n\xe9\n\xe8\n",
    b"a\n\xe2\x80\xae1\n2\n",
    b"SQLite format 3\x00",
    b"%PDF-1.7\n",
)
"""Contents that are no table, half of one, or another one than they look like."""
