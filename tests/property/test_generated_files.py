"""Whatever a file of data is: a command reads of it what is in it, or refuses it with a reason and a remedy."""

from __future__ import annotations

import csv
import json
import math
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.cli import Ran, hubbub_here
from support.generated_files import BROKEN, DataFile, data_files

FAULTS = ("Traceback", "a fault in hubbub", "Warning", "<class", "object at 0x", "pyarrow", "ArrowInvalid")
REMEDY = re.compile(
    r"; |: use |\b(give|name|write|choose|add|leave|save|run|take|use|convert|make|state|collect|check|remove|allow)\b"
)
"""How a message says what to do."""


def checked(ran: Ran) -> Ran:
    """Check what holds of every run: a documented status, no fault, and a refusal that says what to do."""
    assert ran.status in (0, 1, 2), ran
    assert not any(fault in ran.err for fault in FAULTS), ran.err
    if ran.status:
        assert "error" in ran.err.lower()
        assert REMEDY.search(ran.err), ran.err
        # A history that is not valid is a document of what was found.
        assert set(ran.json) == {"error"} or ran.json["verified"] is False
    return ran


@settings(max_examples=8)
@given(data_files())
def test_what_is_read_of_a_file_is_what_is_in_it(file: DataFile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = file.put(Path(folder))
        asked = ("--histogram", file.texts[0], "--sum", file.numbers[0])
        drafted = checked(hubbub_here("draft", path, *asked, *file.notation, "--json"))
        if drafted.status:
            assert not file.plain or expected(file, drafted), drafted.err
            return
        column = ("--column", file.texts[0], *file.notation)
        ran = checked(hubbub_here("simulate", "--data", path, *column, "--json"))
        if ran.status == 0:
            rows = ran.json["queries"][0]["estimates"]
            found = {row["category"]: row["truth"] for row in rows if row["truth"] and row["category"]}
            assert found == dict(file.counts), (found, file.counts)
        bounds = f"{file.numbers[0]}:-5000:20000"
        ran = checked(hubbub_here("simulate", "--data", path, "--sum", bounds, *file.notation, "--json"))
        if ran.status == 0:
            (total,) = (row for row in ran.json["queries"][0]["estimates"] if row["statistic"] == "sum")
            assert math.isclose(total["truth"], sum(file.numbers[1]), abs_tol=1e-6), (total, sum(file.numbers[1]))


def expected(file: DataFile, ran: Ran) -> bool:
    """Whether a refusal is of what a plain file may have too: one value in all, or what no name may have."""
    return len(file.counts) < 2 or any(said in ran.err for said in ("name", "columns", "is no category"))


@settings(max_examples=15)
@given(
    st.one_of(
        st.sampled_from(BROKEN),
        st.binary(max_size=200),
        st.builds(
            lambda file, at, junk: file.content[: at % len(file.content)] + junk,
            data_files(),
            st.integers(0, 10_000),
            st.binary(max_size=8),
        ),
    ),
    st.sampled_from(["d.csv", "d.tsv", "d.json", "d.jsonl", "d.parquet", "d.txt", "d.xlsx", "d.zip", "d.csv.gz", "d"]),
    st.sampled_from(["draft", "simulate", "compare"]),
)
def test_a_file_that_is_no_table_is_refused_in_words(content: bytes, name: str, command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        words = {
            "draft": ("draft", path),
            "simulate": ("simulate", "--data", path, "--column", "a"),
            "compare": ("simulate", "--data", path, "--column", "a", "--compare", "krr", "--repeat", "2"),
        }
        checked(hubbub_here(*words[command], "--json"))


MEMBERS = (
    "mechanism law categories local_epsilon reports rounds body signature task queries cells noise dummy neighbors "
    "signatures results certificate"
)

DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10**6), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(MEMBERS.split()), inner, max_size=5)
    ),
    max_leaves=8,
)


@settings(max_examples=25)
@given(DOCUMENTS, st.sampled_from(["verify", "folder", "compose", "law", "sign", "plan"]))
def test_a_document_that_is_another_one_is_refused_in_words(content: object, command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document.json"
        path.write_text(json.dumps(content))
        words = {
            "verify": ("verify", path),
            "folder": ("verify", folder),
            "compose": ("account", "compose", path, "--delta", "1e-6"),
            "law": ("account", "epsilon", "--law", path, "--reports", "10", "--delta", "1e-6"),
            "sign": ("sign", path, "--key", path),
            "plan": ("plan", path),
        }
        checked(hubbub_here(*words[command], "--json"))


COLUMNS: Mapping[str, Sequence[str]] = {
    "money": ["$1,234.50", "$12.00", "€ 5", "(12.50)", "-", "7"],
    "percent": ["12%", "3 %", "100%", "0.5%"],
    "postcode": ["01234", "02139", "10001", "94110"],
    "phone": ["+49 170 1", "0170 123", "0171/55", "491701"],
    "date": ["2024-01-02", "01.02.2024", "1/2/24", "01JAN2020", "20240102"],
    "time": ["12:30", "1:05:00", "23h", "."],
    "state": ["yes", "no", "TRUE", "False", "1", "0", "ja", "WAHR"],
    "number": ["1", "2.5", "-3", "1e3", "0.125", "12345", "+7"],
    "thousands": ["1.234", "850", "12.500", "0"],
    "wide": ["\uff11\uff12", "\u0663", "\u22125", "x\u200b", "x", "\ufeffx", "a\u00a0b", "a b"],
    "missing": ["NA", "N/A", "?", "", " ", "null", "5", "nan"],
    "code": ["1E5", "00", "0x1F", "1_000", "=1+1", "@x", "-x", "--json", "[b]"],
}
"""Columns as people have them, by what is in them."""


@settings(max_examples=6)
@given(
    st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True),
    st.integers(20, 90),
    st.randoms(use_true_random=False),
)
def test_what_draft_chooses_is_counted_as_it_is_written(names: list[str], rows: int, random: Random) -> None:
    """Without a named column, each is a histogram of its texts, a sum of its numbers, or left out with a reason."""
    cells = {name: [random.choice(COLUMNS[name]) for _ in range(rows)] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        path, task = Path(folder) / "data.csv", Path(folder) / "task.toml"
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerows([names, *zip(*cells.values(), strict=True)])
        drafted = checked(hubbub_here("draft", path, "--out", task, "--json"))
        if drafted.status:
            return
        asked = re.findall('(?m)^name = "([a-z]+)"$', task.read_text().partition("[[query]]")[2])
        for name in names:
            assert name in asked or f"column '{name}' is left out: " in drafted.err, drafted.err
        ran = checked(hubbub_here("simulate", task, "--data", path, "--json"))
        for query in ran.json["queries"] if ran.status == 0 else ():
            truth = {row["category"] or row["statistic"]: row["truth"] for row in query["estimates"]}
            written = [unicodedata.normalize("NFC", cell).strip() for cell in cells[query["name"]]]
            if query["kind"] == "histogram":
                found = {name: count for name, count in truth.items() if count and name != "answered"}
                assert found == Counter(cell for cell in written if cell)
            if query["kind"] == "sum":
                lower, upper = query["clipped_to"]
                numbers = [
                    min(max(float(cell), lower), upper) for cell in written if math.isfinite(float(cell or "nan"))
                ]
                assert math.isclose(truth["sum"], math.fsum(numbers), abs_tol=1e-6)
