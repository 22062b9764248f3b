"""The attacks in docs/explanation/attacks-*.md: each has its parts, and names tests that are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache

import pytest

from support.source_tree import ROOT

FOLDER = ROOT / "docs" / "explanation"
PAGES = sorted(FOLDER.glob("attacks-*.md"))
PARTS = ("Who", "Answer", "What is left", "Tests")

AT_LEAST = 81
"""The attacks that were known when the pages were made: none is ever taken out."""

TEST = re.compile(r"    - `(tests/[\w/]+\.py)::(\w+)`")
NOT_TESTED = re.compile(r"    - not tested: \S.*")


def _sections() -> Mapping[str, str]:
    """The text of every attack, by page and title."""
    return {
        f"{page.name}: {title}": text
        for page in PAGES
        for title, _, text in (part.partition("\n") for part in page.read_text().split("\n## ")[1:])
    }


ATTACKS = _sections()


def _named(text: str) -> list[str]:
    """The lines on tests of an attack."""
    return [line for line in text.partition("- *Tests:*\n")[2].splitlines() if line]


@cache
def _defined(path: str) -> frozenset[str]:
    """The functions of a module, as its syntax tree has them."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _slug(title: str) -> str:
    """The anchor of a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_no_attack_was_lost() -> None:
    assert len(ATTACKS) >= AT_LEAST


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_has_its_parts_in_order(attack: str) -> None:
    assert tuple(re.findall(r"(?m)^- \*([^*]+):\*", ATTACKS[attack])) == PARTS


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_names_tests_that_are_there_or_why_there_is_none(attack: str) -> None:
    lines = _named(ATTACKS[attack])
    assert lines
    for line in lines:
        if NOT_TESTED.fullmatch(line):
            continue
        named = TEST.fullmatch(line)
        assert named is not None, line
        path, name = named.groups()
        assert name.startswith("test_")
        assert (ROOT / path).is_file(), line
        assert name in _defined(path), line


def test_the_index_lists_every_attack_and_no_other() -> None:
    listed = re.findall(r"\]\((attacks-\w+\.md)#([^)]+)\)", (FOLDER / "attacks.md").read_text())
    there = [(name, _slug(title)) for name, _, title in (attack.partition(": ") for attack in ATTACKS)]
    assert sorted(listed) == sorted(there)
