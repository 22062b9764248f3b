"""Every command that reads a file of data reads it alike, and says what it cannot read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.cli import hubbub_here
from support.source_tree import ROOT

EUROPEAN = "land;preis\n" + "DE;8,350\nNA;12,5\nNA;-\nDE;1.000,25\n" * 20


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    path.write_text(EUROPEAN)
    return path


@pytest.mark.parametrize("command", [("demo",), ("simulate", "--compare", "krr", "--reports", "80")])
def test_numbers_with_a_comma_are_asked_about(command: tuple[str, ...], prices: Path) -> None:
    ran = hubbub_here(*command, "--data", prices, "--sum", "preis:0:2000")
    assert ran.status == 1
    assert "line 2 is '8,350', which is 8.35 with --decimal , --thousands .; run it so" in ran.err


def test_numbers_are_read_in_the_notation_that_is_stated(prices: Path) -> None:
    words = ("--decimal", ",", "--thousands", ".", "--missing", "-", "--sum", "preis:0:2000", "--column", "land")
    ran = hubbub_here("simulate", "--data", prices, "--compare", "krr", "--reports", "80", "--repeat", "2", *words)
    assert ran.status == 0, ran.err
    note = "column 'land' has 'NA', counted as a category; if that means no answer, add --missing -,NA"
    assert note in ran.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--decimal", ","), "--decimal is about a file; give the file with --data"),
        (("--missing", "NA"), "--missing is about a file"),
        (("--thousands", "."), "--thousands is about a file"),
    ],
)
def test_a_notation_without_a_file_is_bad_use(words: tuple[str, str], says: str, tmp_path: Path) -> None:
    ran = hubbub_here("demo", *words)
    assert (ran.status, says in ran.err) == (2, True)


def test_a_column_of_identifiers_is_pointed_out_and_its_largest_counts_are_shown(tmp_path: Path) -> None:
    categories = [f"c{place:02}" for place in range(40)]
    (tmp_path / "ids.csv").write_text("id\n" + "\n".join(categories * 3) + "\n")
    ran = hubbub_here("simulate", "--data", tmp_path / "ids.csv", "--column", "id", "--compare", "krr", "--repeat", "2")
    assert "column 'id' has 40 categories, 3 rows each on average: at a usual ε noise exceeds" in ran.err
    task = (ROOT / "deploy" / "samples" / "task.toml").read_text().replace("@START@", "2026-01-01T00:00:00Z")
    first = task.index("[[query]]")
    query = f'[[query]]\nname = "id"\nkind = "histogram"\ncategories = {json.dumps(categories)}\n'
    (tmp_path / "task.toml").write_text(task[:first].replace("minimum_reports = 1000", "minimum_reports = 100") + query)
    for words, count in (((), 20), (("--all",), 40), (("--all-counts",), 40)):
        ran = hubbub_here("simulate", tmp_path / "task.toml", "--data", tmp_path / "ids.csv", *words)
        assert ran.status == 0, ran.err
        assert len(set(re.findall("c[0-9]{2}", ran.out))) == count
