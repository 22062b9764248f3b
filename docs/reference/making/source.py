"""Reads the source as text: modules by folder, docstrings of enum members, and texts that are put together."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from pathlib import Path

from hubbub.accountant.errors import needs_extra

ROOT = Path(__file__).parents[3]
"""The top of the repository."""

FOLDERS = (
    *("accountant", "analyzer", "cli", "client", "deploy", "pages", "planning"),
    *("protos", "queries", "results", "service", "shuffler", "verification"),
)
"""The folders of the package."""


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


def calls(tree: ast.Module) -> Iterator[tuple[ast.Call, Names]]:
    """Return every call of a module with what names give there: in its function so far, then in the module."""
    yield from _calls_in(tree, Names(tree))


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Names:
    """What is assigned to plain names in a module or a function, in the order of the lines; looked up when asked."""

    def __init__(self, scope: ast.AST | None = None, outside: Names | None = None) -> None:
        """Begin with a scope's own names; those of the scope around it come after them."""
        self._scope = scope
        self._outside = outside

    def get(self, name: str, line: int) -> ast.expr | None:
        """Return what a name was last given before that line; of a constant further down, what it is given there."""
        values = self._values.get(name, ())
        before = [each for each in values if each.lineno <= line]
        if values:
            return before[-1] if before else values[0]
        return None if self._outside is None or name in self._parameters else self._outside.get(name, line)

    def returned(self, name: str) -> Sequence[ast.expr]:
        """Return what a function, or a method, of the module returns; nothing if several have that name."""
        if self._outside is not None:
            return self._outside.returned(name)
        found = self._functions.get(name, [])
        nodes = ast.walk(found[0]) if len(found) == 1 else ()
        return [each.value for each in nodes if isinstance(each, ast.Return) and each.value is not None]

    @property
    def outermost(self) -> Names:
        """The module's own names."""
        return self if self._outside is None else self._outside.outermost

    @cached_property
    def _values(self) -> Mapping[str, Sequence[ast.expr]]:
        if isinstance(self._scope, ast.Module):
            return _assigned(ast.Module([node for node in self._scope.body if not isinstance(node, _SCOPES)], []))
        return {} if self._scope is None else _assigned(self._scope)

    @cached_property
    def _functions(self) -> Mapping[str, list[ast.FunctionDef]]:
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in ast.walk(self._scope) if self._scope is not None else ():
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
        return found

    @cached_property
    def _parameters(self) -> frozenset[str]:
        if not isinstance(self._scope, ast.FunctionDef | ast.AsyncFunctionDef):
            return frozenset()
        return frozenset(each.arg for each in (*self._scope.args.args, *self._scope.args.kwonlyargs))


NO_NAMES = Names()
"""No name has a known value."""


def _calls_in(scope: ast.AST, names: Names) -> Iterator[tuple[ast.Call, Names]]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Call):
            yield node, names
        inner = Names(node, names) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else names
        yield from _calls_in(node, inner)


def _assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    changed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for name, value in _pairs(node):
                found.setdefault(name, []).append(value)
        elif isinstance(node, ast.AugAssign | ast.NamedExpr) and isinstance(node.target, ast.Name):
            changed.add(node.target.id)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found.setdefault(node.target.id, []).append(node.value)
    # A name that is counted up, or given anew within an expression, has no value that can be read off.
    return {name: sorted(values, key=lambda each: each.lineno) for name, values in found.items() if name not in changed}


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for each, value in zip(target.elts, node.value.elts, strict=False):
                if isinstance(each, ast.Name):
                    yield each.id, value


def text_of(node: ast.expr | None, names: Names = NO_NAMES, depth: int = 0) -> str:
    """Return the text that an expression gives, with a placeholder such as {name} for what is filled in.

    A name, or a function of the module, is replaced by its text if that is known; " | " is between texts of which it
    gives one. The text is empty if the expression is none.
    """
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_part(each, names, depth) for each in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = text_of(left, names, depth), text_of(right, names, depth)
            return first + (second or f"{{{placeholder(right)}}}") if first else ""
        case ast.IfExp(body=body, orelse=orelse):
            return _either((body, orelse), names, depth)
        case ast.BoolOp(values=values):
            return _either(values, names, depth)
        case ast.Name(id=name) if depth < DEEPEST:
            return text_of(names.get(name, node.lineno), names, depth + 1)
        case ast.Call(func=ast.Name(id="needs_extra"), args=args):
            return needs_extra(*(text_of(each, names, depth) or f"{{{placeholder(each)}}}" for each in args))
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return _either(names.returned(name), names, depth + 1) if depth < DEEPEST else ""
        case _:
            return ""


def _either(nodes: Sequence[ast.expr], names: Names, depth: int) -> str:
    texts = [text_of(each, names.outermost if depth else names, depth) for each in nodes]
    return " | ".join(dict.fromkeys(each for each in texts if each))


DEEPEST = 3
"""How many names in names are followed."""


def _part(node: ast.expr, names: Names, depth: int) -> str:
    if not isinstance(node, ast.FormattedValue):
        return text_of(node, names, depth)
    inner = node.value
    if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "needs_extra":
        return text_of(inner, names, depth)
    if isinstance(inner, ast.IfExp):
        # Of several wordings a reader needs one: that with a value in it.
        worded = [each for each in (inner.body, inner.orelse) if isinstance(each, ast.JoinedStr)]
        return text_of(worded[0], names, depth) if worded else f"{{{placeholder(inner)}}}"
    known = names.get(inner.id, inner.lineno) if isinstance(inner, ast.Name) and depth < DEEPEST else None
    if isinstance(known, ast.Constant | ast.JoinedStr):
        found = text_of(known, names, depth + 1)
        return found or (str(known.value) if isinstance(known, ast.Constant) else f"{{{placeholder(inner)}}}")
    return f"{{{placeholder(inner)}}}"


def placeholder(node: ast.expr) -> str:
    """Return the words that a reader sees for a value: the last name of what it is read from."""
    return _named(node).strip("_").replace("_", " ")


def _named(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id.lower() if node.id.isupper() else node.id
        case ast.Attribute():
            if (
                node.attr in ("name", "value", "number", "id", "strerror", "__name__")
                and isinstance(node.value, ast.Name)
                and node.value.id != "self"
            ):
                return f"{node.value.id} {node.attr.strip('_')}"
            return node.attr.lower()
        case ast.Call(func=ast.Attribute(value=whose, attr=("join" | "hex" | "strip" | "replace")), args=args):
            return _named(whose if not args or isinstance(args[0], ast.Constant) else args[0])
        case ast.Call():
            given = [_named(each) for each in node.args if not isinstance(each, ast.Constant)]
            counted = isinstance(node.func, ast.Name) and node.func.id == "len"
            if given:
                return f"number of {given[0]}" if counted else given[0]
            return _named(node.func.value if node.args and isinstance(node.func, ast.Attribute) else node.func)
        case ast.Subscript():
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                return node.slice.value
            return _named(node.value)
        case ast.GeneratorExp() | ast.ListComp() | ast.SetComp():
            return _named(node.generators[0].iter)
        case ast.BinOp():
            return _named(node.left) if not isinstance(node.left, ast.Constant) else _named(node.right)
        case ast.BoolOp():
            return _named(node.values[0])
        case ast.IfExp():
            return _named(node.body) if not isinstance(node.body, ast.Constant) else _named(node.orelse)
        case ast.Starred() | ast.Await() | ast.FormattedValue():
            return _named(node.value)
        case ast.UnaryOp():
            return _named(node.operand)
        case ast.JoinedStr():
            return "".join(_part(each, NO_NAMES, DEEPEST) for each in node.values).strip("{}") or "text"
        case _:
            return "…"
