"""docs/bounds.md: every line of a printed answer is what its command prints, and every bound is described."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from hubbub.accountant.bounds.catalogue import CATALOGUE
from hubbub.accountant.bounds.sampled import NAMES
from hubbub.deploy.cli import main

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "bounds.md").read_text()
ANSWERS = re.findall(r"```console\n\$ (hubbub account bounds [^\n]*)\n(.*?)```", TEXT, re.DOTALL)


def printed(command: str) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code in (0, None)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def said(lines: str) -> list[str]:
    return [" ".join(line.split()) for line in lines.splitlines() if line.strip()]


def holds(command: str, lines: str) -> list[str]:
    """What the document says and the command does not print; a line may leave out its source."""
    found = printed(command)
    return [line for line in said(lines) if not any(each == line or each.startswith(f"{line} ") for each in found)]


def test_answers_are_found() -> None:
    assert len(ANSWERS) == 4


@pytest.mark.parametrize(("command", "lines"), [each for each in ANSWERS if "--rounds" not in each[0]])
def test_one_round_answers_are_what_is_printed(command: str, lines: str) -> None:
    assert len(said(lines)) >= 5
    assert holds(command, lines) == []


@pytest.mark.slow
@pytest.mark.parametrize(("command", "lines"), [each for each in ANSWERS if "--rounds" in each[0]])
def test_answers_over_rounds_are_what_is_printed(command: str, lines: str) -> None:
    assert len(said(lines)) >= 5
    assert holds(command, lines) == []


def test_every_bound_has_its_row() -> None:
    rows = set(re.findall(r"^\| `([a-z0-9-]+)`", TEXT, re.MULTILINE))
    assert rows == {*CATALOGUE, *NAMES}
