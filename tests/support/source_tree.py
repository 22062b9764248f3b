"""The folders of the package and their modules, for the tests that read the source."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("accountant", "queries", "protos", "verification", "results", "planning", "service"),
    *("client", "shuffler", "analyzer", "deploy", "pages", "cli"),
)
"""Every folder of the package, from the one that imports nothing to the one that imports all."""

MODULES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if not path.match("protos/v1/*_pb2*.py")
)
"""Every module that people write."""


def name_of(path: Path) -> str:
    return "hubbub." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path): path for path in MODULES}
"""Every module by its full name."""


@cache
def parsed(source: str) -> ast.Module:
    """The tree of a source, for all tests that read it: nobody changes it."""
    return ast.parse(source)


def imported(path: Path) -> Iterator[str]:
    """Every module of ours that a module names anywhere: in functions and for type checkers too."""
    for node in ast.walk(parsed(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in NAMES else str(node.module)
