"""Statements of SQLite have parameters that every Python from 3.11 on takes."""

import ast
import re

from support.source_tree import MODULES, ROOT, parsed

NUMBERED = re.compile(r"\?\d")


def numbered(source: str) -> list[int]:
    """The lines of strings that have a numbered parameter, such as ?1."""
    strings = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Constant))
    return [node.lineno for node in strings if isinstance(node.value, str) and NUMBERED.search(node.value)]


def test_parameters_are_given_by_their_order() -> None:
    """Python 3.12 warns of ?1 with a sequence of values, and 3.14 refuses it."""
    assert {str(path.relative_to(ROOT)): lines for path in MODULES if (lines := numbered(path.read_text()))} == {}


def test_the_check_itself_finds_a_numbered_parameter() -> None:
    assert numbered('run("SELECT 1 WHERE ?1 IS NULL", 1)\nrun("SELECT 1 WHERE ? IS NULL", 1)') == [1]
