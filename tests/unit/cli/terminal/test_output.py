"""They are printed as they are, and act on no console and no spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.table import Table
from rich.text import Text

from hubbub.cli.tables.printing import print_table
from hubbub.cli.terminal import output
from hubbub.cli.terminal.output import Printer, program
from hubbub.cli.terminal.progress import progress_bars
from hubbub.deploy.operator import export
from hubbub.deploy.operator.export import guard

TEXTS = {
    "[/b]": "[/b]",
    "[red]a[/red]": "[red]a[/red]",
    "[link=http://example.org]a[/link]": "[link=http://example.org]a[/link]",
    ":smile:": ":smile:",
    "\x1b[2J": r"\x1b[2J",
    "\x1b]8;;http://example.org\x1b\\a": r"\x1b]8;;http://example.org\x1b" + "\\a",
    "\u202eevil": r"\u202eevil",
    "\x9b31m": r"\x9b31m",
}


@pytest.mark.parametrize(("text", "shown"), TEXTS.items())
def test_a_name_is_printed_as_it_is_wherever_it_stands(text: str, shown: str) -> None:
    out = io.StringIO()
    printer = Printer(file=out, width=200)
    printer.print(text, soft_wrap=True)
    printer.print(Text(text))
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)
    print_table(printer, table)
    narrow = Printer(file=out, width=8)
    print_table(narrow, table)
    assert out.getvalue().count(shown) >= 5
    assert out.getvalue().replace("\n", "").isprintable()


@pytest.mark.parametrize(("text", "shown"), TEXTS.items())
def test_a_progress_bar_shows_a_name_as_it_is(text: str, shown: str) -> None:
    out = io.StringIO()
    with progress_bars(False, console=Printer(file=out, width=200, force_terminal=True, color_system=None)) as bars:
        bars.add_task(f"{text}: planning", total=1)
    assert f"{shown}: planning" in out.getvalue()
    assert text == shown or text not in out.getvalue()


def test_no_option_of_a_console_brings_markup_back() -> None:
    out = io.StringIO()
    Printer(file=out, markup=True, emoji=True).print("[b]a[/b] :smile:", markup=True, emoji=True)
    assert out.getvalue() == "[b]a[/b] :smile:\n"


def test_errors_and_json_are_readable_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(output.typer.Exit), output.failures(as_json=True):
        raise output.HubbubError("the analyzer said \x1b]0;title\x07\u202e Zürich 東京\nand more")
    said = capsys.readouterr()
    assert said.err == "error: the analyzer said \\x1b]0;title\\x07\\u202e Zürich 東京\nand more\n"
    assert said.out.replace("\n", "").isprintable()
    assert "Zürich 東京" in said.out
    assert json.loads(said.out) == {"error": "the analyzer said \x1b]0;title\x07\u202e Zürich 東京\nand more"}


@pytest.mark.parametrize("text", ["\U000e0041", "\x7f\x9b\u2028", "日本", "\udc80", 'a\\b"c\x1b'])
def test_json_says_what_it_was_given(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({text: [text]})
    said = capsys.readouterr().out
    assert json.loads(said) == {text: [text]}
    assert said.replace("\n", "").isprintable()


FORMULAS = [
    "=1+1",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\nx",
    "＝1",
    "＋1",
    "－1",
    "＠x",
    "'quoted",
    "=cmd|' /C calc'!A0",
]
PLAIN = ["AA", "", "a=b", "1-2", "north", " =1"]


def test_cells_that_a_spreadsheet_would_run_are_guarded_and_can_be_had_back() -> None:
    table = pa.table({"category": [*FORMULAS, *PLAIN, None], "estimate": [-3.5] * (len(FORMULAS) + len(PLAIN) + 1)})
    found = guard(table)
    assert found.column("category").to_pylist() == [f"'{each}" for each in FORMULAS] + [*PLAIN, None]
    assert found.column("estimate").to_pylist() == table.column("estimate").to_pylist()
    again = [each.removeprefix("'") for each in found.column("category").to_pylist() if each is not None]
    assert again == [*FORMULAS, *PLAIN]


@pytest.mark.parametrize("guarded", [True, False])
def test_the_csv_of_results_is_guarded_unless_told_otherwise(
    tmp_path: Path, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, Any] = dict.fromkeys(export.COLUMNS) | {"category": "=1+1", "estimate": -3.5, "lower": -7.0}
    monkeypatch.setattr(export, "table_rows", lambda _results: [row])
    if guarded:
        export.write_csv(tmp_path / "results.csv", None)  # type: ignore[arg-type]
    else:
        export.write_csv(tmp_path / "results.csv", None, guarded=False)  # type: ignore[arg-type]
    (read,) = csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text(), newline=""))
    assert read["category"] == ("'=1+1" if guarded else "=1+1")
    assert (float(read["estimate"]), read["lower"][0]) == (-3.5, "-")


@pytest.mark.parametrize(
    ("called", "found", "word"),
    [
        (".venv-demo/bin/hubbub", False, ".venv-demo/bin/hubbub"),
        ("/a folder/hubbub", False, "'/a folder/hubbub'"),
        (".venv-demo/bin/hubbub", True, "hubbub"),
        ("pytest", False, "hubbub"),
    ],
)
def test_a_next_step_can_be_typed_where_the_program_is_not_in_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, called: str, found: bool, word: str
) -> None:
    monkeypatch.setattr("sys.argv", [called, "demo"])
    monkeypatch.setenv("PATH", str(tmp_path))
    if found:
        (tmp_path / "hubbub").touch(mode=0o755)
    assert program() == word
