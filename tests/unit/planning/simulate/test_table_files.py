"""Tables are read whatever separates their columns and however they are compressed, or the error says what to do."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.planning.simulate.table_files import read_table, row_place
from hubbub.protos.errors import HubbubError

ROWS = [{"日本": "01", "a b": 1.5}, {"日本": "2", "a b": None}]
TEXTS = [{"日本": "01", "a b": "1.5"}, {"日本": "2", "a b": ""}]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["", "\ufeff"])
def test_columns_may_be_separated_by_what_the_first_line_says(separator: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f'{ending}日本{separator}"a b"\n01{separator}1.5\n2{separator}\n'.replace("\n", "\r\n"))
    assert read_table(path, ["日本", "a b"]).to_pylist() == TEXTS


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
    assert row_place(path, 0) == "row 1 (counted from 1)"


@pytest.mark.parametrize("name", ["data.tsv", "data.csv.gz", "data.TSV.BZ2", "data.parquet", "data.parquet.gz"])
def test_every_form_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    text = "日本\ta b\n01\t1.5\n2\t\n".encode()
    if "parquet" in name:
        parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "plain")
        text = (tmp_path / "plain").read_bytes()
    packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix.lower(), bytes)(text)
    path.write_bytes(packed)
    assert read_table(path, ["日本", "a b"]).to_pylist() == (ROWS if "parquet" in name else TEXTS)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"theme", "it has no line after the first one; give a first line with the columns' names, and a row"),
        (
            "data.xlsx",
            b"",
            r"it is a workbook; save its sheet as CSV, or run: soffice --convert-to csv /.*/data\.xlsx$",
        ),
        ("data.csv.zip", b"", r"run: unzip /.*/data\.csv\.zip, and give the file that was in it$"),
        ("my data.json", b"", r"run: jq -c '\.\[\]' '/.*/my data\.json' > 'my data\.jsonl'"),
        ("data.txt", b"", r"run: cp /.*/data\.txt data\.csv"),
        ("data.xlsm", b"", r"it is a workbook; .* run: soffice --convert-to csv /.*/data\.xlsm$"),
        ("data.tar.gz", b"", r"ends in \.tar\.gz; run: tar -xf /.*/data\.tar\.gz, and give the file that was in it$"),
        ("data.TGZ", b"", r"run: tar -xf /.*/data\.TGZ, and give"),
        ("data.txt.gz", b"", r"run: cp /.*/data\.txt\.gz data\.csv\.gz \("),
        ("data.csv.bak", b"", r"run: cp /.*/data\.csv\.bak data\.csv \("),
        ("data.ods.zst", b"", r"ends in \.ods\.zst; run: unzstd --keep /.*/data\.ods\.zst, and give what it makes$"),
        ("data.csv.xz", b"", r"run: unxz --keep /.*/data\.csv\.xz, and give"),
        ("a b.dta", b"", r"in Python, run: pandas\.read_stata\('/.*/a b\.dta'\)\.to_csv\('a b\.csv', index=False\)"),
        ("data.pq", b"", r"run: cp /.*/data\.pq data\.parquet"),
        ("data.parquet.gz", gzip.compress(b"abc", mtime=0), "it is no Parquet, or has lost its end; check that it is"),
        ("data.pdf", b"", "give a .csv, .tsv, .jsonl or .parquet file"),
        ("data.jsonl", b'{"a": 1}\n{"a": "x"}\n', "one JSON object a line, and in each column values of one kind"),
        ("data.csv", b'"a","b"\n"1",1,2\n"2",3,4\n', "write with row.names = FALSE"),
        ("data.csv", b'a,b\n"1,2\n3,4\n', "the last field begins with a quote .*; end every field that begins"),
        ("data.csv", b'a,b\n1,"2\n3,4\n5,6\n', "begins with a quote and does not end with one; end every field"),
        ("data", b"", "has no ending; give a .csv"),
        ("data.csv.gz", b"a,b\n1,2\n", "unpack it first"),
        ("data.csv.gz", gzip.compress(b"a,b\n1,2\n" * 999, mtime=0)[:-20], "check that it is complete"),
        ("data.csv", "größe\n1\n".encode("latin-1"), "save it as UTF-8"),
        ("data.csv", "a\n1\n".encode("utf-16"), "save it as UTF-8"),
        ("data.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16; save it as UTF-8$"),
        ("data.csv", b"", "give a first line with the columns' names"),
        ("data.csv", b"a,b\n1,2\n1,2,3\n", "give every row as many fields"),
        ("data.parquet", b"abc", "check that it is complete"),
        ("data.csv", gzip.compress(b"a,b\n1\n", mtime=0), "is no text, but compressed by gzip; give it a name that"),
        ("data.tsv", b"PK\x03\x04\x14", "is no text, but a workbook or a .zip; save its sheet as CSV"),
        ("data.csv", b"PAR1abc", "is no text, but Parquet; give it a name that ends in .parquet"),
        ("data.csv", b'"city" "n"\n"1" "a" 3\n', r"in R, write with write\.csv\(…, row\.names = FALSE\)"),
        ("data.csv", b"# exported\na,b\n1,2\n", "if its first lines are a title or comments, remove them"),
        (
            "data.csv",
            b'a,b\n1,"Yes," he said\n2,3\n',
            "line 2 .* has a quote before the end of its field; write a quote",
        ),
        ("data.csv", b'a,b\n1,2\n3,"x\n" \n', "has a quote before the end of its field"),
        ("data.csv", b"a,b\n1,2,\n3,4,\n", "remove the separator that ends each row$"),
        ("data.csv", "a,b\n1,2\n".encode("utf-16-le"), "it is a text in UTF-16 or UTF-32; save it as UTF-8$"),
        ("data.csv", "a,b\n1,2\n".encode("utf-32"), "it is a text in UTF-32; save it as UTF-8$"),
        ("data.csv", "\ufeffa,b\n1,2\n".encode("utf-32-be"), "it is a text in UTF-32; save it as UTF-8$"),
        ("data.jsonl", '{"a": 1}\n'.encode("utf-16-be"), "it is a text in UTF-16 or UTF-32; save it as UTF-8$"),
        ("data.jsonl", '{"a": "ä"}\n'.encode("latin-1"), "it is not UTF-8; save it as UTF-8$"),
        ("data.csv", b"a,b\n1,2\n" + bytes(100), "it has bytes of zero; a full disk or a crash leaves them"),
        ("data.jsonl", b'[{"a": 1},\n{"a": 2}]\n', r"is a list; write one JSON object a line, as jq -c '\.\[\]' does"),
        ("data.jsonl", b'{"a": 1}\n{"a": "x"}\n', r"in row 2 \(counted from 1\); write"),
        ("data.jsonl", b'{"a": 1}\n' * 200_000 + b'{"a": "x"}\n', "changed from number to string; write"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(HubbubError, match=says):
        read_table(tmp_path / name)


@pytest.mark.parametrize("place", range(5))
def test_line_breaks_in_quoted_fields_are_read_wherever_blocks_end(place: int, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    note = '"first\n\nsecond, ""x"""'
    rows = 5_000_000 // len(note)
    path.write_text(f"id,note,city\n{place * 'x'}0,{note},A\n" + "".join(f"{row},{note},B\n" for row in range(rows)))
    table = read_table(path, ["city"])
    assert table.num_rows == rows + 1
    assert table["city"].value_counts().to_pylist() == [{"values": "A", "counts": 1}, {"values": "B", "counts": rows}]


@pytest.mark.parametrize("name", ["data.csv", "data.jsonl"])
def test_a_field_may_be_longer_than_what_is_read_at_once(name: str, tmp_path: Path) -> None:
    path, long = tmp_path / name, "line\n" * 800_000
    lines = [json.dumps({"city": "A", "note": long}), json.dumps({"city": "B"})]
    path.write_text("\n".join(lines) if name == "data.jsonl" else f'city,note\nA,"{long}"\nB,\n')
    assert read_table(path, ["city"])["city"].to_pylist() == ["A", "B"]


def test_what_nobody_asks_about_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"city,note\n" + b"A,1\n" * 400_000 + b"B,gr\xf6\xdfer\n")
    assert read_table(path, ["city"]).num_rows == 400_001


def test_columns_of_one_name_are_left_alone_if_nobody_asks_about_them(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("n,a,n,,\n1,2,3,,\n")
    table = read_table(path, ["a"])
    assert (table.column_names, table["a"].to_pylist()) == (["n", "a", "n", "", ""], ["2"])


@pytest.mark.parametrize("asked", [(), ("c",)])
def test_columns_of_one_name_in_parquet_are_named(asked: Sequence[str], tmp_path: Path) -> None:
    column = pa.array(["a", "b"])
    parquet.write_table(pa.Table.from_arrays([column] * 3, ["c", "c", "d"]), path := tmp_path / "data.parquet")
    with pytest.raises(HubbubError, match="names 2 columns 'c', so it is not known which is meant"):
        read_table(path, asked)
    assert read_table(path, ["d"])["d"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("asked", [(), ("a", "n")])
def test_columns_of_one_name_that_are_asked_about_are_named(asked: Sequence[str], tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("n,a,n\n1,2,3\n")
    with pytest.raises(HubbubError, match=r"names 2 columns 'n', .*; rename all but one of them in the file"):
        read_table(path, asked)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "header",
    ["city;a b", '\ufeffsep=;|city;"a b"', "|city; a b ", '"city";"a b"', "SEP=;|city;a b"],
)
def test_headers_are_read_as_programs_write_them(header: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"{header}|A;1|B;2|".replace("|", end), newline="")
    table = read_table(path, ["city", "a b"])
    assert table.to_pylist() == [{"city": "A", "a b": "1"}, {"city": "B", "a b": "2"}]


def test_a_space_after_each_separator_is_no_part_of_a_field(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("id, city\n1, A\n2, B\n")
    assert read_table(path, ["city"])["city"].to_pylist() == ["A", "B"]


@pytest.mark.parametrize("columns", [(), ("theme",)])
@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x1c"])
def test_what_ends_a_line_of_a_page_ends_no_line_of_a_file(mark: str, columns: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"other,theme\n1,dark\n2,li{mark}ght\n", encoding="utf-8")
    assert read_table(path, columns)["theme"].to_pylist() == ["dark", f"li{mark}ght"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("columns", [(), ("theme",)])
@pytest.mark.parametrize("last", ["light", "light\n", "light\n\n\n"])
def test_an_empty_line_is_no_answer_in_a_single_column(
    last: str, columns: tuple[str, ...], end: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"theme\ndark\n\n{last}".replace("\n", end).encode())
    assert read_table(path, columns).to_pydict() == {"theme": ["dark", "", "light"]}
    assert [row_place(path, row) for row in range(3)] == ["line 2", "line 3", "line 4"]


def test_an_empty_line_is_no_row_among_several_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("theme,session\ndark,1\n\nlight,2\n")
    assert read_table(path).to_pydict() == {"theme": ["dark", "light"], "session": [1, 2]}
    assert row_place(path, 1) == "line 4"


def test_json_lines_keep_texts_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(
        gzip.compress(b'{"zip": "01234", "day": "2020-01-02", "n": 1}\n{"zip": "2", "day": "2020-01-03"}\n')
    )
    rows = read_table(path, ["zip", "day"]).to_pylist()
    assert rows == [{"zip": "01234", "day": "2020-01-02", "n": 1}, {"zip": "2", "day": "2020-01-03", "n": None}]


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(HubbubError, match=r"is a folder; give a \.csv"):
        read_table(tmp_path)


def test_a_file_that_is_not_there_is_named_by_its_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        read_table(tmp_path / "nope.csv")
    assert (raised.value.filename, raised.value.strerror) == (str(tmp_path / "nope.csv"), "No such file or directory")


def test_a_text_of_windows_says_how_it_becomes_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "my data.csv"
    path.write_bytes("a,b\n1,größe\n".encode("cp1252"))
    run = r"run: iconv -f WINDOWS-1252 -t UTF-8 '/.*' > 'utf8-my data\.csv'$"
    with pytest.raises(HubbubError, match=rf"cannot be read: it is not UTF-8; save it as UTF-8; .* {run}"):
        read_table(path, ["b"])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["a,b", '"say \\"hi\\"",1'], "line 2 of {} has a quote before the end of its field; write a quote within"),
        (["a,b", "x,1", '"x"y,1'], "line 3 of {} has a quote before the end of its field"),
        (["a,b", '"",1', '""y,1'], "line 3 of {} has a quote before the end of its field"),
        (["a,b", '";,"1', '2",x'], "line 2 of {} has a quote before the end of its field"),
        (["a,b", ';,"1,5', ""], "the last field begins with a quote and does not end with one"),
        (["a,b", "x,1", 'y,"'], "the last field begins with a quote and does not end with one"),
        (["a,b", 'x, "p"'], "line 2 of {}, column 'b', has spaces before its quotes"),
        (["a, b", 'x, "p"'], "line 2 of {}, column 'b', has spaces before its quotes"),
        (["a,b", 'x, "p, q"'], "remove spaces before quotes, as a quote is one only where its field begins"),
    ],
)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_quotes_that_would_be_read_as_something_else_are_refused(
    lines: list[str], says: str, packed: str, tmp_path: Path
) -> None:
    path, text = tmp_path / f"data.csv{packed}", "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(HubbubError) as refused:
        read_table(path, ["a", "b"])
    assert says.format(path) in str(refused.value)


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ('"a ""b"" c"', 'a "b" c'),
        ('"""b"""', '"b"'),
        ('5" pipe', '5" pipe'),
        ('"{""k"": ""v""}"', '{"k": "v"}'),
        ('C:\\"x', 'C:\\"x'),
        ('""', ""),
    ],
)
def test_quotes_within_a_field_are_read(field: str, read: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"a,b\n{field},1\n")
    assert read_table(path, ["a", "b"]).to_pylist() == [{"a": read, "b": "1"}]


def test_numbers_of_json_that_would_be_rounded_are_refused(tmp_path: Path) -> None:
    """Two identifiers would be one category."""
    path = tmp_path / "data.jsonl"
    path.write_text('{"a": 123456789012345678901, "b": 9007199254740993}\n{"a": 1, "b": 2}\n')
    assert read_table(path, ["b"])["b"].to_pylist() == [2**53 + 1, 2]
    with pytest.raises(HubbubError, match=r"column 'a' has numbers of 2\^53 or more .* write the column as texts"):
        read_table(path, ["a"])


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz", "data.jsonl", "data.parquet"])
def test_a_folder_s_name_may_be_no_text(name: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"l\xe4tin")
    folder.mkdir()
    content = {"data.csv": b"a\nx\n", "data.csv.gz": gzip.compress(b"a\nx\n"), "data.jsonl": b'{"a": "x"}'}
    if name in content:
        (folder / name).write_bytes(content[name])
    else:
        with (folder / name).open("wb") as file:
            parquet.write_table(pa.table({"a": ["x"]}), file)
    assert read_table(folder / name, ["a"]).to_pylist() == [{"a": "x"}]


def test_what_is_no_file_to_read_twice_or_no_text_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(HubbubError, match=r"pipe\.csv is a pipe, and files are read more than once; write it into a"):
        read_table(tmp_path / "pipe.csv")
    path = tmp_path / "data.jsonl"
    for content, says in (
        ('{"a": 1}'.encode("utf-16"), "it is a text in UTF-16; save it as UTF-8"),
        (b"PK\3\4", "zip"),
    ):
        path.write_bytes(content)
        with pytest.raises(HubbubError, match=says):
            read_table(path)


def test_the_mark_of_utf_8_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\ufeff\ufeffa,b\n1,2\n")
    assert read_table(path).column_names == ["a", "b"]
