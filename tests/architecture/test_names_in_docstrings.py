"""A module that a docstring names is there, and has what is named of it: who renames one finds all that speak of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import pytest

from support.source_tree import FOLDERS, NAMES, ROOT, parsed

DOTTED = re.compile(r"`(?:hubbub\.)?([a-z_]+(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
"""A name in backticks, from a folder of the package on."""

FILES = (".toml", ".json", ".md", ".db", ".mark")
"""Ends of what is a file's name."""

PLACEHOLDERS = {"cli.commands.NAME"}
"""What stands for any name."""


def defined(source: str) -> set[str]:
    """Every name that a module defines or imports, those of its methods and attributes left out."""
    found: set[str] = set()
    for node in parsed(source).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {each.asname or each.name for each in names}
            case _:
                found |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found


def is_there(name: str, known: Callable[[str], set[str] | None]) -> bool:
    """Whether a name is a module, or something in one; `known` gives the names in a module, None if there is none."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        names = known(".".join(parts[:length]))
        if names is not None:
            return length == len(parts) or parts[length] in names
    return False


def known(module: str) -> set[str] | None:
    path = NAMES.get(f"hubbub.{module}")
    return None if path is None else defined(path.read_text())


def named(source: str, folder: str) -> Iterator[list[str]]:
    """Every dotted name that a source in a folder writes, as the full names that it may mean."""
    around = folder.split(".")
    bases = [".".join([*around[:length], ""]) for length in range(len(around), 0, -1)]
    for name in DOTTED.findall(source):
        first = name.partition(".")[0]
        if name.endswith(FILES) or name in PLACEHOLDERS:
            continue
        if first in FOLDERS:
            yield [name]
        elif inner := [base for base in bases if (ROOT / f"{base}{first}".replace(".", "/")).is_dir()]:
            yield [f"{base}{name}" for base in inner]


def test_what_a_docstring_names_is_there() -> None:
    missing = {
        str(path.relative_to(ROOT)): [full[0] for full in names if not any(is_there(each, known) for each in full)]
        for path in NAMES.values()
        if (names := [*named(path.read_text(), ".".join(path.parent.relative_to(ROOT).parts))])
    }
    assert {path: names for path, names in missing.items() if names} == {}


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("accountant.losses", True),
        ("accountant.losses.curves", True),
        ("accountant.losses.curves.Curve", True),
        ("accountant.losses.curves.Curve.method", True),
        ("accountant.losses.curves.nothing", False),
        ("accountant.losses.gone", False),
        ("gone", False),
    ],
)
def test_the_check_itself_knows_what_is_there(name: str, there: bool) -> None:
    modules = {"accountant": {"api"}, "accountant.losses": set(), "accountant.losses.curves": {"Curve"}}
    assert is_there(name, modules.get) == there


def test_the_check_itself_reads_what_a_source_names() -> None:
    source = "# `losses.curves`, `hubbub.queries.query.Query`, `self.value`, `shuffler.mark` and `shuffler.server()`."
    assert [*named(source, "accountant.pairs")] == [
        ["accountant.losses.curves"],
        ["queries.query.Query"],
        ["shuffler.server"],
    ]
