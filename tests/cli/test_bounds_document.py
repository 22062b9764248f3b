"""The page on bounds: every line of a printed answer is what its command prints, and every bound is described."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.poisson_sampling import NAMES
from support.documented_commands import answers, missing, said

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "explanation" / "bounds.md").read_text()
ANSWERS = answers(TEXT)


def test_answers_are_found() -> None:
    assert len(ANSWERS) == 4


@pytest.mark.parametrize(("command", "lines"), [each for each in ANSWERS if "--rounds" not in each[0]])
def test_one_round_answers_are_what_is_printed(command: str, lines: str) -> None:
    assert len(said(lines)) >= 5
    assert missing(command, lines) == []


@pytest.mark.parametrize(("command", "lines"), [each for each in ANSWERS if "--rounds" in each[0]])
def test_answers_over_rounds_are_what_is_printed(command: str, lines: str) -> None:
    assert len(said(lines)) >= 5
    assert missing(command, lines) == []


def test_every_bound_has_its_row() -> None:
    rows = set(re.findall(r"^\| `([a-z0-9-]+)`", TEXT, re.MULTILINE))
    assert rows == {*CATALOG, *NAMES}
