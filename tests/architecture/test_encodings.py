"""Files of text are UTF-8 wherever they are read and written: in the C locale, Python would take them for ASCII."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_tree import MODULES, ROOT, parsed

METHODS = {"read_text": 1, "write_text": 2, "TextIOWrapper": 2}
"""What takes an encoding, and how many arguments it has with it."""

OPENING = {"open", "fdopen"}
"""Functions and methods whose mode may be one of text."""


def without_encoding(source: str) -> Iterator[str]:
    """What a module calls that reads or writes text without an encoding."""
    # Most modules have none of the names, and need not be parsed.
    for node in ast.walk(parsed(source)) if any(name in source for name in (*METHODS, *OPENING)) else ():
        if not isinstance(node, ast.Call) or any(each.arg in ("encoding", None) for each in node.keywords):
            continue
        of = node.func
        name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
        few = len(node.args) < METHODS.get(name, 0)
        if few or (name in OPENING and _of_text(node, first=isinstance(of, ast.Attribute) and not _is_module(of))):
            yield ast.unparse(node)


def _is_module(of: ast.Attribute) -> bool:
    return isinstance(of.value, ast.Name) and of.value.id in ("io", "os")


def _of_text(node: ast.Call, first: bool) -> bool:
    """Whether a call opens a text: a method's mode is its first argument, a function's its second."""
    stated = [each.value for each in node.keywords if each.arg == "mode"] or node.args[0 if first else 1 :][:1]
    mode = stated[0].value if stated and isinstance(stated[0], ast.Constant) else None
    if mode is None:
        # `open` of a path alone reads a text. So may be what other objects open, such as an incident or an envelope.
        return not first and not stated and isinstance(node.func, ast.Name)
    return isinstance(mode, str) and set(mode) <= set("rwaxt+") and "b" not in mode


def test_every_file_of_text_has_its_encoding_stated() -> None:
    found = {str(path.relative_to(ROOT)): sorted(without_encoding(path.read_text("utf-8"))) for path in MODULES}
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("path.read_text()", True),
        ("path.read_text('utf-8')", False),
        ("path.read_text(errors='replace')", True),
        ("path.write_text(text)", True),
        ("path.write_text(text, encoding='utf-8')", False),
        ("open(path)", True),
        ("open(path, 'rb')", False),
        ("path.open('a')", True),
        ("path.open('ab')", False),
        ("os.fdopen(number, 'w')", True),
        ("io.TextIOWrapper(file)", True),
        ("incidents.open('certify', kind)", False),
    ],
)
def test_what_depends_on_the_locale_is_found(source: str, refused: bool) -> None:
    assert bool([*without_encoding(source)]) == refused


def test_the_modules_are_there() -> None:
    assert Path(ROOT, "deploy/init/folders.py") in MODULES
