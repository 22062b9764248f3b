"""Reads the source as text: modules by folder, docstrings of enum members, and texts that are put together."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[3]
"""The top of the repository."""

FOLDERS = (
    *("accountant", "analyzer", "cli", "client", "deploy", "planning"),
    *("protos", "queries", "service", "shuffler", "verification"),
)
"""The folders of the package."""

NO_NAMES: Mapping[str, ast.expr] = MappingProxyType({})
"""No name has a known value."""


@cache
def tree_of(path: Path) -> ast.Module:
    """Return a module as a tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*folders: str) -> Iterator[Path]:
    """Return the modules of these folders, in the order of their names; none that a compiler of protocols made."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "_pb2" not in path.name:
                yield path


def member_docs(kind: type[Enum]) -> dict[str, str]:
    """Return the docstring under each member of an enum, by the member's value.

    Raises:
        ValueError: if a member has none.
    """
    path = ROOT / Path(*kind.__module__.split(".")[1:]).with_suffix(".py")
    body = next(
        node.body for node in tree_of(path).body if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    found = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = text_of(following.value) if isinstance(following, ast.Expr) else ""
            if not text:
                raise ValueError(f"{kind.__name__}.{node.targets[0].id} has no docstring under it in {path}")
            found[str(kind[node.targets[0].id].value)] = text
    return found


def calls(tree: ast.Module) -> Iterator[tuple[ast.Call, Mapping[str, ast.expr]]]:
    """Return every call of a module with the values that names have there: those of its function, then the module's."""
    everywhere = constants(ast.Module([node for node in tree.body if not isinstance(node, _SCOPES)], []))
    yield from _calls_in(tree, everywhere)


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _calls_in(scope: ast.AST, names: Mapping[str, ast.expr]) -> Iterator[tuple[ast.Call, Mapping[str, ast.expr]]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Call):
            yield node, names
        inner = names
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
            own = constants(node)
            inner = {name: value for name, value in names.items() if name not in parameters} | own
        yield from _calls_in(node, inner)


def constants(tree: ast.AST) -> dict[str, ast.expr]:
    """Return what is assigned to plain names directly in a module or function; a name that has two values is left out.

    What is assigned within an `if` or a loop of it counts, too.
    """
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for name, value in _pairs(node):
                found.setdefault(name, []).append(value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found.setdefault(node.target.id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for each, value in zip(target.elts, node.value.elts, strict=False):
                if isinstance(each, ast.Name):
                    yield each.id, value


def text_of(node: ast.expr | None, names: Mapping[str, ast.expr] = NO_NAMES, depth: int = 0) -> str:
    """Return the text that an expression gives, with a placeholder such as {name} for what is filled in.

    A name that `names` has is replaced by its text. It is empty if the expression is no text.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(each, names, depth) for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left, names, depth) + text_of(node.right, names, depth)
    if isinstance(node, ast.IfExp):
        either = [text_of(each, names, depth) for each in (node.body, node.orelse)]
        return " | ".join(each for each in either if each)
    if isinstance(node, ast.Name) and node.id in names and depth < 4:
        return text_of(names[node.id], names, depth + 1)
    return ""


def _part(node: ast.expr, names: Mapping[str, ast.expr], depth: int) -> str:
    if not isinstance(node, ast.FormattedValue):
        return text_of(node, names, depth)
    inner = node.value
    known = names.get(inner.id) if isinstance(inner, ast.Name) else None
    if isinstance(known, ast.Constant | ast.JoinedStr) and depth < 4:
        return text_of(known, names, depth + 1) or f"{{{placeholder(inner)}}}"
    return f"{{{placeholder(inner)}}}"


def placeholder(node: ast.expr) -> str:
    """Return the name that a reader sees for a value: the last word of what it is read from."""
    match node:
        case ast.Name():
            return node.id.lower() if node.id.isupper() else node.id
        case ast.Attribute():
            if node.attr in ("name", "value", "number", "id", "strerror", "__name__") and isinstance(
                node.value, ast.Name
            ):
                return f"{node.value.id} {node.attr.strip('_')}"
            return node.attr.strip("_").lower()
        case ast.Call(func=ast.Attribute(attr=("join" | "hex" | "strip" | "format_message")), args=args):
            return (
                placeholder(args[0])
                if args
                else placeholder(node.func.value)
                if isinstance(node.func, ast.Attribute)
                else "…"
            )
        case ast.Call():
            given = [placeholder(each) for each in node.args if not isinstance(each, ast.Constant)]
            return given[0] if given else placeholder(node.func)
        case ast.Subscript():
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return node.slice.value
            return placeholder(node.value)
        case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
            return placeholder(node.generators[0].iter)
        case ast.BinOp():
            return placeholder(node.left) if not isinstance(node.left, ast.Constant) else placeholder(node.right)
        case ast.BoolOp():
            return placeholder(node.values[0])
        case ast.IfExp():
            return placeholder(node.body) if not isinstance(node.body, ast.Constant) else placeholder(node.orelse)
        case ast.Starred() | ast.Await() | ast.FormattedValue():
            return placeholder(node.value)
        case ast.UnaryOp():
            return placeholder(node.operand)
        case ast.JoinedStr():
            return "".join(_part(each, NO_NAMES, 4) for each in node.values).strip("{}") or "text"
        case _:
            return "…"
