"""`make mutants`: single changes in the functions that a commit touched; those that no test notices are listed.

    python tests/loop/mutants.py [--base REVISION] [--most N] [--seed N] [--list]

Each change is made in a copy of the tree and met by the tests that import its module (`affected.py`), until the first
fails. A survivor is a change that all of them pass: CONTRIBUTING says what to do with it.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from loop.affected import affected, exported, files_of_tests, module_of  # noqa: E402

SECONDS = 600
"""What a change may take, before it counts as noticed: it waits for ever where the tree does not."""

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A module's source with one change."""

    path: Path
    line: int
    was: str
    now: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was}  →  {self.now}"


def touched_lines(base: str, root: Path = ROOT) -> dict[Path, set[int]]:
    """The lines of each module of the package that a change since `base` wrote, or beside which it took some away."""
    command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", "*.py"]
    found: dict[Path, set[int]] = {}
    path = Path()
    for line in subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("+++ "):
            path = Path(line.removeprefix("+++ ").removeprefix("b/"))
        elif place := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(place[1]), int(place[2] or 1)
            found.setdefault(path, set()).update(range(first, first + max(count, 1)))
    return {path: lines for path, lines in found.items() if (module_of(path) or "").startswith("hubbub.")}


def mutants(path: Path, source: str, lines: set[int]) -> Iterator[Mutant]:
    """Every single change in the innermost functions that have one of these lines."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    # What is in a formatted text is worded, not computed, and its places are not told right by every Python.
    seen = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    for function in functions:
        if not lines & set(range(function.lineno, (function.end_lineno or 0) + 1)):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if id(node) not in seen:
                    seen.add(id(node))
                    yield from _changed(path, source, node)


def _changed(path: Path, source: str, node: ast.AST) -> Iterator[Mutant]:
    """The source with each other thing that this node might be."""
    if not isinstance(node, ast.expr | ast.stmt):
        return
    was = ast.unparse(node)
    for now in _instead(node):
        if now != was:
            yield Mutant(path, node.lineno, was.split("\n")[0], now, _replaced(source, node, now))


def _instead(node: ast.expr | ast.stmt) -> Iterator[str]:
    match node:
        case ast.Compare(ops=[only]) if type(only) in COMPARED:
            yield ast.unparse(ast.Compare(node.left, [COMPARED[type(only)]()], node.comparators))
        case ast.BinOp() if type(node.op) in COUNTED:
            yield f"({ast.unparse(ast.BinOp(node.left, COUNTED[type(node.op)](), node.right))})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not()):
            yield f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case ast.IfExp():
            yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign():
            yield "pass"


def _replaced(source: str, node: ast.expr | ast.stmt, now: str) -> str:
    """The source with the node's text replaced, all else as it is written."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    last = (node.end_lineno or node.lineno) - 1
    head, tail = lines[node.lineno - 1][: node.col_offset], lines[last][node.end_col_offset :]
    return b"".join([*lines[: node.lineno - 1], head + now.encode() + tail, *lines[last + 1 :]]).decode()


def copied(folder: Path, root: Path = ROOT) -> None:
    """Copy what git knows and does not ignore, links as links."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and os.path.lexists(root / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)


def passes(folder: Path, tests: Iterable[Path]) -> bool:
    """Whether these tests pass on the tree in `folder`."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *map(str, tests)]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def survivors(
    found: Iterable[Mutant], folder: Path, tests_of: Callable[[Path], list[Path]], passing: Callable[..., bool] = passes
) -> Iterator[Mutant]:
    """Those changes that the tests of their module pass, each tried in `folder`."""
    for mutant in found:
        place = folder / mutant.path
        before = place.read_text()
        place.write_text(mutant.source)
        if passing(folder, tests_of(mutant.path)):
            yield mutant
        place.write_text(before)


def main(arguments: list[str] | None = None) -> int:
    """Make changes, try them, list the survivors; return 1 where there are some."""
    parser = argparse.ArgumentParser(description="Change single things in what a commit touched; list what survives.")
    parser.add_argument("--base", default="HEAD~1", help="the revision since which functions were touched")
    parser.add_argument("--most", type=int, default=40, help="changes to try, drawn from all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--list", action="store_true", help="only say which")
    chosen = parser.parse_args(arguments)
    lines = touched_lines(chosen.base)
    every = [
        each
        for path in lines
        if (ROOT / path).is_file()
        for each in mutants(path, (ROOT / path).read_text(), lines[path])
    ]
    drawn = random.Random(chosen.seed).sample(every, min(chosen.most, len(every)))
    sys.stdout.write(f"{len(drawn)} of {len(every)} changes\n")
    if chosen.list:
        sys.stdout.write("".join(f"{each}\n" for each in drawn))
        return 0
    return _tried(drawn)


def _tried(drawn: list[Mutant]) -> int:
    sources, exports = files_of_tests(), exported()
    chosen = {path: affected([path], sources, exports) for path in {each.path for each in drawn}}
    with tempfile.TemporaryDirectory(prefix="hubbub-mutants-") as name:
        copied(Path(name))
        for path, tests in chosen.items():
            if not tests or not passes(Path(name), tests):
                sys.stdout.write(f"{path}: {'its tests fail as it is' if tests else 'no test imports it'}\n")
                return 1
        left = 0
        for mutant in survivors(drawn, Path(name), chosen.__getitem__):
            left += 1
            sys.stdout.write(f"survived  {mutant}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{left} survived\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
