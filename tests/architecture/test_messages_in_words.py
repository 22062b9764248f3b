"""No message shows a container as Python writes it: what is in it is put into words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_tree import MODULES, ROOT

CONTAINER = re.compile(r"(Sequence|list|tuple|dict|Mapping|set|frozenset|Collection|Iterable|Counter|deque)\b")
MAKES = {"list", "tuple", "dict", "set", "frozenset", "sorted", "Counter"}
LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp)
APART = {"tests"}

SHAPES = {"shape"}
"""Names of tuples that people read as they are, such as the shape of an array."""


def is_container(value: ast.expr) -> bool:
    """Return whether an expression surely makes a container."""
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in MAKES
    return made or isinstance(value, LITERALS)


def fields() -> set[str]:
    """Return the names of attributes that are containers in every class that has them."""
    found: dict[str, set[bool]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            for each in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    name, annotated = each.target.id, ast.unparse(each.annotation)
                elif isinstance(each, ast.FunctionDef) and each.decorator_list and each.returns is not None:
                    name, annotated = each.name, ast.unparse(each.returns)
                else:
                    continue
                found.setdefault(name, set()).add(bool(CONTAINER.match(annotated)))
    return {name for name, kinds in found.items() if kinds == {True}} - SHAPES


def names_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that are containers wherever a function gives them a value."""
    kinds: dict[str, set[bool]] = {}
    for argument in (*function.args.args, *function.args.kwonlyargs):
        if argument.annotation is not None:
            kinds.setdefault(argument.arg, set()).add(bool(CONTAINER.match(ast.unparse(argument.annotation))))
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kinds.setdefault(node.target.id, set()).add(bool(CONTAINER.match(ast.unparse(node.annotation))))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    kinds.setdefault(target.id, set()).add(is_container(node.value))
    return {name for name, found in kinds.items() if found == {True}}


def shown_containers(source: str, attributes: set[str]) -> Iterator[str]:
    """Yield what an f-string shows as Python writes it."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = names_in(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.FormattedValue):
                continue
            value = node.value
            is_one = is_container(value)
            is_one |= isinstance(value, ast.Name) and value.id in names
            is_one |= isinstance(value, ast.Attribute) and value.attr in attributes
            if is_one:
                yield f"{node.lineno}: {ast.unparse(value)}"


@pytest.mark.parametrize(
    ("body", "shows"),
    [
        ("x = [1]; return f'{x}'", True),
        ("return f'{sorted(y)}'", True),
        ("return f'{z.names_of_all}'", True),
        ("x = [1]; x = 'a'; return f'{x}'", False),
        ("x = [1]; return f'{len(x)} of {y}'", False),
    ],
)
def test_a_container_in_an_f_string_is_found(body: str, shows: bool) -> None:
    found = list(shown_containers(f"def f(y: int, z):\n    {body}", {"names_of_all"}))
    assert bool(found) is shows


def test_no_message_shows_a_container() -> None:
    attributes = fields()
    assert len(attributes) > 100
    found = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in MODULES
        if path.relative_to(ROOT).parts[0] not in APART
        for each in shown_containers(Path(path).read_text(), attributes)
    ]
    assert "\n".join(found) == ""
