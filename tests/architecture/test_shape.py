"""Modules fit a head, functions do one thing, and folders can be taken in at a glance."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import FOLDERS, MODULES, NAMES, ROOT, imported, parsed

MODULE_LINES = 600
"""Fewest lines of a module that is too long."""

CRUMB_LINES = 60
"""Fewest lines of a module that only one other imports, of the same folder: a smaller one is a part of that one."""

CRUMBS = {
    "client/recorder_counts.py": "what callers of a device are given",
    "queries/longitudinal/monotone.py": "brings numpy, which a device does not have",
    "results/arrow_table.py": "brings pyarrow, which nobody needs who only looks",
    "results/pandas_frame.py": "brings pandas, an extra of its own",
    "service/rpc/caller_access.py": "who may call and who looked, apart from how a call is passed on",
}
"""Smaller ones all the same, each with why. What a registry lists is one module a thing, however small."""

FUNCTION_LINES = 40
"""Most lines of a function with its docstring, its parameters left out: a command has one a line for each option."""

ENTRIES = 12
"""Most entries of a folder, `__init__.py` and `py.typed` left out."""

LISTS = {
    # One module for each thing of its kind: a longer list is no harder to read.
    "accountant/bounds": "bounds",
    "accountant/divergence": "divergences",
    "accountant/mechanisms": "mechanisms",
    "accountant/pairs": "pairs",
    "accountant/rigorous": "proofs",
    "cli/commands": "commands",
    "cli/tables": "tables",
    # The stages of a party stay in sight beside its folders.
    "accountant": "questions and subjects",
    "analyzer": "stages of the analyzer",
    "client": "verbs of a device",
    "deploy": "tools, and files that a deployment copies",
    "protos": "subjects and what they share",
    "service": "subjects",
    "shuffler": "stages of the shuffler",
    "shuffler/stores/postgres": "tables and transactions",
}
"""Folders that may have more entries, each with what its entries are."""


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_modules_fit_a_head() -> None:
    long = {str(path.relative_to(ROOT)): lines_of(path) for path in MODULES}
    assert {name: lines for name, lines in long.items() if lines >= MODULE_LINES} == {}


def test_a_small_module_serves_more_than_its_neighbor() -> None:
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in NAMES.items():
        for other in imported(path):
            importers[other].add(name)
    small = {name: path for name, path in NAMES.items() if lines_of(path) < CRUMB_LINES and path.stem != "__init__"}
    crumbs = {str(path.relative_to(ROOT)) for name, path in small.items() if is_crumb(name, importers[name] - {name})}
    assert crumbs == CRUMBS.keys(), "the exceptions are those that are needed"


def is_crumb(name: str, importers: set[str]) -> bool:
    """Whether one module of the same folder, and no other, imports this one; what registries list is none."""
    folder = name.rpartition(".")[0]
    return len(importers) == 1 and all(
        each.rpartition(".")[0] == folder and each != f"{folder}.registry" for each in importers
    )


def test_the_check_itself_knows_a_crumb() -> None:
    assert is_crumb("a.b", {"a.c"})
    assert not any(is_crumb("a.b", importers) for importers in (set(), {"a.c", "a.d"}, {"b.c"}, {"a.registry"}))


def test_functions_are_short() -> None:
    found = {str(path.relative_to(ROOT)): long_functions(path.read_text()) for path in MODULES}
    assert {name: functions for name, functions in found.items() if functions} == {}


def long_functions(source: str) -> list[str]:
    """Functions whose statements need too many lines. A docstring is not counted: a command's is its `--help`."""
    functions = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if (node.end_lineno or 0) - _first_line(node) >= FUNCTION_LINES]


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first, *others = node.body
    return others[0].lineno if others and ast.get_docstring(node) is not None else first.lineno


def test_the_check_itself_sees_a_long_function() -> None:
    body = "    x = 1\n"
    assert long_functions("def f(\n    a,\n    b,\n):\n" + body * FUNCTION_LINES) == []
    assert long_functions("def f():\n" + body * (FUNCTION_LINES + 1)) == ["f"]
    told = 'def f():\n    """Do it.' + "\n" * FUNCTION_LINES + '    """\n'
    assert long_functions(told + body * FUNCTION_LINES) == []
    assert long_functions(told + body * (FUNCTION_LINES + 1)) == ["f"]


def folders() -> Iterator[Path]:
    """Every folder of the package that holds modules."""
    yield from sorted({path.parent for path in MODULES} | {ROOT / folder for folder in FOLDERS})


def entries_of(folder: Path) -> list[str]:
    """What lies in a folder, its marks and what running leaves behind left out."""
    left_out = {"__init__.py", "__pycache__", "py.typed", "README.md"}
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in left_out)


def test_folders_can_be_taken_in_at_a_glance() -> None:
    crowded = {
        str(folder.relative_to(ROOT)): len(entries)
        for folder in folders()
        if len(entries := entries_of(folder)) > ENTRIES
    }
    assert crowded.keys() == LISTS.keys(), "the exceptions are those that are needed"


def test_validity_is_never_checked_by_assert() -> None:
    """`python -O` removes assertions."""
    found = {
        str(path.relative_to(ROOT)): [
            node.lineno for node in ast.walk(parsed(path.read_text())) if isinstance(node, ast.Assert)
        ]
        for path in MODULES
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_package_is_typed() -> None:
    assert (ROOT / "src" / "hubbub" / "py.typed").is_file()


def test_each_class_has_a_name_of_its_own() -> None:
    """What a name means does not depend on where it stands. A message may be called like what it carries."""
    assert shared_names({str(path.relative_to(ROOT)): path.read_text() for path in MODULES}) == {}


def shared_names(sources: dict[str, str]) -> dict[str, list[str]]:
    """Names of classes of several modules, by these; one that is private to its module counts without its mark."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, source in sources.items():
        for node in parsed(source).body:
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(name)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_the_check_itself_sees_a_shared_name() -> None:
    assert shared_names({"a": "class A: ...", "b": "class B: ...", "c": "class _A: ..."}) == {"A": ["a", "c"]}
