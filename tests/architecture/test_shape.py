"""Modules fit a head and functions do one thing; everything that is published is there to be read."""

import ast
from pathlib import Path

import pytest

from support.tree import FOLDERS, MODULES, ROOT

MODULE_LINES = 400
"""Fewest lines of a module that is too long."""

FUNCTION_LINES = 40
"""Most lines of a function with its docstring, its parameters left out: a command has one a line for each option."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_fits_a_head(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MODULE_LINES


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_are_short(path: Path) -> None:
    assert long_functions(path.read_text()) == []


def long_functions(source: str) -> list[str]:
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [node.name for node in functions if (node.end_lineno or 0) - node.body[0].lineno >= FUNCTION_LINES]


def test_the_check_itself_sees_a_long_function() -> None:
    body = "    x = 1\n"
    assert long_functions("def f(\n    a,\n    b,\n):\n" + body * FUNCTION_LINES) == []
    assert long_functions("def f():\n" + body * (FUNCTION_LINES + 1)) == ["f"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_validity_is_never_checked_by_assert(path: Path) -> None:
    """`python -O` removes assertions."""
    assert [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_package_is_typed(folder: str) -> None:
    assert (ROOT / folder / "py.typed").is_file()
    assert (ROOT / "src" / "hubbub" / folder).resolve() == ROOT / folder
