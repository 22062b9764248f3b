"""Tables are read whatever separates their columns and however they are compressed, or the error says what to do."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.planning.simulate.table_files import read_table, row_place
from hubbub.protos.errors import HubbubError

ROWS = [{"日本": "01", "a b": 1.5}, {"日本": "2", "a b": None}]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["", "\ufeff"])
def test_columns_may_be_separated_by_what_the_first_line_says(separator: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f'{ending}日本{separator}"a b"\n01{separator}1.5\n2{separator}\n'.replace("\n", "\r\n"))
    assert read_table(path, ["日本"]).to_pylist() == ROWS


def test_separators_in_quotes_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('"a,b,c";d\n1;2\n')
    assert read_table(path).column_names == ["a,b,c", "d"]


@pytest.mark.parametrize("name", ["data.csv", "data.tsv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_row_is_named_by_the_line_where_it_begins(name: str, end: str, tmp_path: Path) -> None:
    path, tab = tmp_path / name, "\t" if "tsv" in name else ","
    lines = ["", '"a', f'b"{tab}n', "first,1", "", '"second', "", 'part",2', "third,3"]
    text = end.join(lines).replace(",", tab).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    table = read_table(path)
    assert [row["n"] for row in table.to_pylist()] == [1, 2, 3]
    assert [row_place(path, row) for row in range(3)] == ["line 4", "line 6", "line 9"]


@pytest.mark.parametrize(("name", "content"), [("data.csv", "a\n" + "x" * 2**18), ("data.parquet", "")])
def test_a_row_without_a_line_says_how_it_is_counted(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert row_place(path, 0) == "row 1 (counted from 1 after any header)"


@pytest.mark.parametrize("name", ["data.tsv", "data.csv.gz", "data.TSV.BZ2", "data.parquet", "data.parquet.gz"])
def test_every_form_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = "日本\ta b\n01\t1.5\n2\t\n".encode()
    if "parquet" in name:
        parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "plain")
        text = (tmp_path / "plain").read_bytes()
    packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix.lower(), bytes)(text)
    path.write_bytes(packed)
    assert read_table(path, ["日本"]).to_pylist() == ROWS


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("data.xlsx", b"", "give a .csv, .tsv or .parquet file"),
        ("data", b"", "has no ending; give a .csv"),
        ("data.csv.gz", b"a,b\n1,2\n", "unpack it first"),
        ("data.csv.gz", gzip.compress(b"a,b\n1,2\n" * 999, mtime=0)[:-20], "check that it is complete"),
        ("data.csv", "größe\n1\n".encode("latin-1"), "save it as UTF-8"),
        ("data.csv", "a\n1\n".encode("utf-16"), "save it as UTF-8"),
        ("data.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("data.csv", b"", "give a first line with the columns' names"),
        ("data.csv", b"a,b\n1,2\n1,2,3\n", "give every row as many fields"),
        ("data.parquet", b"abc", "check that it is complete"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HubbubError, match=says):
        read_table(tmp_path / name)


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(HubbubError, match=r"is a folder; give a \.csv"):
        read_table(tmp_path)


def test_a_file_that_is_not_there_is_named_by_its_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_table(tmp_path / "nope.csv")
    assert (raised.value.filename, raised.value.strerror) == (str(tmp_path / "nope.csv"), "No such file or directory")
