"""docs/explanation/papers.md: every numbered result of the papers has its row, and what a row names is there."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
from functools import cache
from typing import NamedTuple

import pytest

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.poisson_sampling import NAMES
from hubbub.cli.main import main
from support.source_tree import ROOT

QUOTED = re.compile(r"`([^`]+)`")
WORD = re.compile(r"(?:Alg|Thm|Cor|Fig|Def)\.?|Lemma|Remark|Claim")
NUMBER = re.compile(r"[A-Z]?\.?\d+(?:\.\d+)*")

NUMBERED = {
    "balle-2019": (
        "Alg. 1, 2, 3; Thm 3.1, 4.1, 4.2, 5.1, 5.2, 5.3; Cor. 4.1.1, 5.3.1; Lemma 4.1, 4.2, 4.3, 4.4, 4.5, 5.1, "
        "5.2, 5.3, 5.4, 5.5, 5.6, 5.7, 5.8, A.1, A.2, A.3, A.4; Fig. 1, 2, 3"
    ),
    "erlingsson-2019": "Thm 2, 5, 6, 7, 8; Lemma 3, 4; Alg. 1, 2, 3, 4, 5; Remark 1; Cor. 9",
    "feldman-2022": (
        "Thm 3.1, 3.2, 4.1, 5.2, 5.3, 7.1, 7.4, B.1; Lemma 3.3, 3.5, 4.2, 5.1, 7.3, A.1, A.2, A.3, A.4; "
        "Cor. 3.4, 4.3, 7.2; Alg. 1, 2; Fig. 1, 2, 3, 5"
    ),
    "girgis-2021": (
        "Thm 3.1, 3.3, 3.4, 3.6, 3.7, 7.1; Lemma 2.1, 2.2, 5.1, 5.2, 5.3, 6.1, 6.2, B.1, D.1; Cor. 3.2, 3.5, 5.4; "
        "Remark 1, 2, 3, 4, 5, 6, 7, 8; Claim 1; Fig. 1, 2, 3, 4, 5"
    ),
    "koskela-2021": (
        "Def. 4, 8, 9; Thm 5, 7, 10, C.1; Lemma 6, 11, B.1, B.2, B.3; Alg. 1; Fig. 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
    ),
}
"""The numbered results of each paper, read off its text."""


class Row(NamedTuple):
    """A row of the table."""

    paper: str
    result: str
    says: str
    where: str
    shown: str
    corrected: str


def rows() -> list[Row]:
    lines = (ROOT / "docs" / "explanation" / "papers.md").read_text().splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [Row(*cells) for cells in table if cells[0] in NUMBERED]


ROWS = rows()


def numbers(text: str) -> set[tuple[str, str]]:
    """Pairs such as (Thm, 3.1): a number belongs to the last word before it; one in parentheses is an equation's."""
    found, word = set(), ""
    for token in re.findall(rf"{WORD.pattern}|{NUMBER.pattern}", re.sub(r"\([^)]*\)|§\S+", "", text)):
        if WORD.fullmatch(token):
            word = token.rstrip(".")
        elif word:
            found.add((word, token))
    return found


@cache
def names(path: str) -> frozenset[str]:
    """What a module defines at its top, and `Class.method` of its classes."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(found)


@cache
def help_of(words: tuple[str, ...]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code in (0, None), words
    return out.getvalue()


def is_there(named: str) -> bool:
    if named.startswith("hubbub "):
        words = shlex.split(named)[1:]
        ends = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
        text = help_of(tuple(words[:ends]))
        return all(word in text for word in words if word.startswith("-"))
    if named.startswith("make "):
        return re.search(rf"^{named.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
    path, colon, name = named.partition(":")
    if colon:
        return (ROOT / path).is_file() and name in names(path)
    return named in CATALOG or named in NAMES


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_numbered_result_has_a_row_and_no_other(paper: str) -> None:
    found = set().union(*(numbers(row.result) for row in ROWS if row.paper == paper))
    assert found == numbers(NUMBERED[paper])


def test_what_a_row_names_is_there() -> None:
    named = {each for row in ROWS for each in QUOTED.findall(row.where + row.shown)}
    assert sorted(each for each in named if not is_there(each)) == []
    assert len(named) > 100


def test_a_row_names_where_and_a_test_or_says_why_not() -> None:
    for row in ROWS:
        if row.where.startswith("not here: "):
            assert len(row.where.split()) > 5, row.result
            assert not row.shown, row.result
        else:
            assert QUOTED.findall(row.where), row.result
            assert QUOTED.findall(row.shown), row.result
            assert all(each.startswith("tests/") for each in QUOTED.findall(row.shown)), row.result


def test_figures_that_are_redrawn_are_those_there_are() -> None:
    from papers.draw import FIGURES

    drawn = {each for row in ROWS for each in re.findall(r"FIGURES=([a-z0-9-]+)", row.where)}
    assert drawn == set(FIGURES)
