"""Every command that reads a file of data reads it alike, and says what it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import hubbub_here

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
    assert "row 1 is '8,350', which is 8.35 with --decimal , --thousands .; run it so" in ran.err


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
