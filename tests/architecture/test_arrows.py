"""Who may import whom, read from the source of all folders."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tree import FOLDERS, MODULES, ROOT

ARROWS = {
    "accountant": set(),
    "queries": {"accountant.mechanisms"},
    "protos": {"queries"},
    "service": {
        "protos",
        # Ledgers: what a round costs, the terms that a task states it in, and what is raised otherwise.
        "accountant.spending",
        "accountant.certificate.terms",
        "accountant.errors",
    },
    "client": {"protos", "queries", "accountant.mechanisms"},
    "shuffler": {"service", "protos", "queries", "accountant"},
    "analyzer": {"service", "protos", "queries", "accountant"},
    "deploy": {"service", "protos", "queries", "client", "shuffler", "analyzer", "accountant"},
}
"""What each folder may import besides itself."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """The full name of everything that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            # The command line, which may import everything, loads its commands by name; nobody else may.
            known = all(isinstance(argument, ast.Constant) for argument in node.args)
            assert known or path.is_relative_to(ROOT / "deploy"), f"{path}: import by a known name"
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def wrong_arrows(folder: str, names: Iterator[str]) -> list[str]:
    ours = (name.removeprefix("hubbub.") for name in names if within(name, "hubbub"))
    return [name for name in ours if not any(within(name, target) for target in {folder, *ARROWS[folder]})]


def test_every_folder_is_looked_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(FOLDERS) == set(ARROWS)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_follow_the_arrows(path: Path) -> None:
    folder = path.relative_to(ROOT).parts[0]
    assert wrong_arrows(folder, imported(path)) == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_own_packages_are_never_imported_by_their_bare_names(path: Path) -> None:
    assert [name for name in imported(path) if name.split(".")[0] in FOLDERS] == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_generated_messages_stay_in_codec_and_wire(path: Path) -> None:
    name = module_name(path)
    generated = {part for what in imported(path) for part in what.split(".") if part.endswith(("_pb2", "_pb2_grpc"))}
    generated -= {"health_pb2", "health_pb2_grpc"}
    in_wire, in_codec = within(name, "protos.wire"), within(name, "protos.codec")
    assert in_wire or in_codec or not generated
    assert in_wire or not any(part.endswith("_grpc") for part in generated)


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.is_relative_to(ROOT / "accountant")], ids=module_name
)
def test_accountant_has_no_randomness_clock_network_or_files(path: Path) -> None:
    forbidden = {"random", "secrets", "time", "datetime", "socket", "asyncio", "grpc", "sqlite3", "os", "subprocess"}
    assert {name.split(".")[0] for name in imported(path)} & (forbidden | {"pathlib", "tempfile", "io"}) == set()


def test_accountant_package_itself_loads_nothing_until_a_public_name_is_asked_for() -> None:
    """Devices import the package with its mechanisms; its public names load the numerical libraries."""
    names = [name for name in imported(ROOT / "accountant" / "__init__.py") if not within(name, "typing")]
    assert [name for name in names if not within(name, "hubbub.accountant.api")] == []
    script = "import sys, hubbub.accountant; print([name for name in sys.modules if name.startswith('hubbub.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hubbub.accountant']"


@pytest.mark.parametrize(
    ("folder", "name", "allowed"),
    [
        ("client", "hubbub.accountant.mechanisms.KRR", True),
        ("client", "hubbub.accountant.mechanisms_extra", False),
        ("client", "hubbub.accountant", False),
        ("client", "hubbub.accountant.bounds", False),
        ("client", "hubbub.shuffler.admit", False),
        ("shuffler", "hubbub.analyzer", False),
        ("analyzer", "hubbub.client", False),
        ("protos", "hubbub.accountant.mechanisms", False),
        ("service", "hubbub.accountant.spending.ledger", True),
        ("service", "hubbub.accountant.certificate.terms", True),
        ("service", "hubbub.accountant.certificate.statement.statement", False),
        ("service", "hubbub.accountant.bounds", False),
        ("service", "hubbub.analyzer.store", False),
        ("accountant", "hubbub.protos.task", False),
        ("deploy", "hubbub.analyzer.server", True),
        ("shuffler", "hubbub.deploy", False),
        ("client", "numpy", True),
    ],
)
def test_the_check_itself_tells_right_from_wrong(folder: str, name: str, allowed: bool) -> None:
    assert (wrong_arrows(folder, iter([name])) == []) == allowed
