"""`make check`: the tests that import what changed.

    python tests/loop/affected.py [--base REVISION] [--list]

What changed against the base, HEAD where none is given, is looked up in the imports of every test, read from its
source. A test is chosen if it changed, if it lies where a changed module's tests lie, if it imports a changed module,
also under a name that a package gives it, or if it names a changed file that is no module. Changed files of `tests/`
are followed to every test that reaches them; changed modules of the package are not, as nearly all tests reach nearly
all of them. Slow tests are left to `make test ALL=1`, and tests of whole programs that did not change to `make test`.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from support.source_tree import FOLDERS  # noqa: E402

LONG = 400
"""Lines of a module from which `make check` says so; `test_shape.py` fails at its own limit."""

ONE_SUBJECT = {
    "accountant/calibration/noise.py": "one search: its start, its bounds and its last check",
    "accountant/composition.py": "one computation: each question merges the same parts and tilts the same curves",
    "accountant/divergence/whole_law.py": "one bound, and the sums that it is made of",
    "cli/commands/account/__init__.py": "commands that read the same options and print the same way",
    "cli/commands/demo.py": "one command: most of it is the help of its options",
    "cli/commands/plan.py": "one command: most of it is the help of its options",
    "client/device.py": "one class, whose docstrings are the reference of applications",
    "client/fleet.py": "one class, and the summary that it returns",
    "client/recorder.py": "one class and its thread, which share one lock",
    "client/settings.py": "one list of settings; how each is read and named in errors follows from it",
    "client/state/store.py": "one class: the operations on one file",
    "client/submit.py": "one way to the shuffler; a submission goes through no more files than it has to",
    "deploy/demo/demo.py": "one run, from its draft to its document",
    "deploy/local/pipeline.py": "one class: the processes of one pipeline",
    "planning/simulate/notation.py": "one class: how a file writes its values",
    "planning/simulate/table_files.py": "one function: each form of a file has its reader and its errors",
    "protos/task/task.py": "one value, and the parts that it is made of",
    "queries/randomizers/hashed_decoding.py": "one decoding, whose steps share one table",
    "service/rpc/servicers.py": "a servicer for each service, which only reads, calls and writes",
    "service/settings.py": "the tables of settings that all services share, and how they are read",
    "service/transport/http_connection.py": "one class: the state of one connection",
    "shuffler/release/delivery.py": "one delivery, with what is checked before and after it",
    "shuffler/rounds/lifecycle.py": "one class: the steps of a round, in their order",
    "verification/certificate.py": "one order of checks, from the form to the numbers",
}
"""Modules that are as long and stay whole, each with why. Nothing is said of them."""


SECONDS = ("unit", "docs", "property", "architecture", "contract")
"""Folders of tests that take seconds; a test in another one is run if it changed itself."""

PACKAGES = ("__init__.py", "api.py")
"""Files in which a package gives names of its modules to others."""


def changed_since(base: str, root: Path = ROOT) -> set[Path]:
    """Every file that differs from `base`, those that git does not know yet among them; relative to the root."""
    commands = (["diff", "--name-only", "-z", base], ["ls-files", "-z", "--others", "--exclude-standard"])
    found: set[Path] = set()
    for command in commands:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True)
        found |= {Path(name) for name in done.stdout.split("\0") if name}
    return found


def module_of(path: Path) -> str | None:
    """The name by which the file is imported: `hubbub.…`, or from `tests/` on; None for what is no module."""
    if path.suffix != ".py":
        return None
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    if path.parts[0] == "tests":
        return name.removeprefix("tests.")
    return f"hubbub.{name}" if path.parts[0] in FOLDERS else None


def imported_by(source: str) -> set[str]:
    """Every name that a source imports anywhere: each may be a module, or something in one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def files_of_tests(root: Path = ROOT) -> dict[Path, str]:
    """Every source in `tests/`, by its path from the root."""
    return {path.relative_to(root): path.read_text() for path in sorted((root / "tests").rglob("*.py"))}


def exported(root: Path = ROOT) -> dict[str, str]:
    """The full names of what packages import from their modules for others to use, with the module of each."""
    found: dict[str, str] = {}
    for path in sorted(path for folder in FOLDERS for name in PACKAGES for path in (root / folder).glob(f"**/{name}")):
        package = module_of(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                found |= {f"{package}.{alias.asname or alias.name}": node.module for alias in node.names}
    return found


def resolved(names: set[str], exports: Mapping[str, str]) -> set[str]:
    """The names, and the modules from which packages have them, each by its name or with all of a module."""
    found, new = set(names), set(names)
    while new:
        led = set()
        for name in new:
            package, _, last = name.rpartition(".")
            for module in (exports.get(name), exports.get(f"{package}.*")):
                led |= set() if module is None else {module, f"{module}.{last}"}
        new = led - found
        found |= new
    return found


def affected(changed: Iterable[Path], tests: Mapping[Path, str], exports: Mapping[str, str]) -> list[Path]:
    """The files of tests that a change of these files may fail at once; see above."""
    touched = set(changed)
    modules = {name for path in touched - tests.keys() if (name := module_of(path)) is not None}
    beside = {Path("tests/unit", *path.parts[:-1], f"test_{path.name}") for path in touched}
    others = [path.name for path in touched if module_of(path) is None]
    imports = {path: resolved(imported_by(source), exports) for path, source in tests.items()}
    found = {
        path
        for path, source in tests.items()
        if path in touched | beside
        or imports[path] & modules
        or any(f'"{name}"' in source or f"/{name}" in source for name in others)
    }
    helpers = {name for path in touched if path in tests and (name := module_of(path)) is not None}
    while more := {path for path in tests if imports[path] & helpers} - found:
        found |= more
        helpers |= {name for path in more if (name := module_of(path)) is not None}
    under = {path.parent for path in touched if path.name == "conftest.py"}
    return sorted(
        path for path in tests if path.name.startswith("test_") and (path in found or under & {*path.parents})
    )


def long_modules(changed: Iterable[Path], root: Path = ROOT) -> Iterator[str]:
    """A warning for each changed module of the package that has become long."""
    for path in sorted(changed):
        if (module_of(path) or "").startswith("hubbub.") and (root / path).is_file():
            lines = len((root / path).read_text().splitlines())
            if lines >= LONG and path.as_posix() not in ONE_SUBJECT:
                yield f"{path} has {lines} lines: see what of it is a subject of its own"


def main(arguments: list[str] | None = None) -> int:
    """Choose tests, say which, run them; return their exit status."""
    parser = argparse.ArgumentParser(description="Run the tests that import what changed.")
    parser.add_argument("--base", default="HEAD", help="the revision against which to look for changes")
    parser.add_argument("--list", action="store_true", help="only say which")
    chosen = parser.parse_args(arguments)
    changed = changed_since(chosen.base)
    for warning in long_modules(changed):
        sys.stderr.write(f"warning: {warning}\n")
    found = affected(changed, files_of_tests(), exported())
    tests = [path for path in found if path.parts[1] in SECONDS or path in changed]
    sys.stdout.write("".join(f"{path}\n" for path in tests) or "no test imports what changed\n")
    if left := len(found) - len(tests):
        sys.stdout.write(f"{left} files of tests of whole programs are left to make test\n")
    sys.stdout.flush()
    if chosen.list or not tests:
        return 0
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "--durations=0",
        "--durations-min=5",
        *map(str, tests),
    ]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    # 5: nothing was left, as all of them are slow.
    return 0 if status == 5 else status


if __name__ == "__main__":
    sys.exit(main())
