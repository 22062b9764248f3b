"""Who may import whom, read from the source of all folders."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_tree import FOLDERS, MODULES, ROOT, parsed

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
    # The last reads numbers as people write them, in variables too.
    "client": {"protos", "queries", "accountant.mechanisms", "accountant.written_numbers"},
    "shuffler": {"service", "protos", "queries", "accountant"},
    "analyzer": {"service", "protos", "queries", "accountant"},
    "verification": {"protos", "queries", "accountant"},
    "results": {"verification", "protos", "queries", "accountant"},
    "planning": {"protos", "queries", "accountant"},
    "deploy": {
        *("client", "service", "shuffler", "analyzer", "planning", "verification", "results"),
        *("protos", "queries", "accountant"),
    },
    # The command line and pages for people: nothing else imports them.
    "pages": set(FOLDERS) - {"cli"},
    "cli": set(FOLDERS),
}
"""What each folder may import besides itself."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """The full name of everything that a module imports, anywhere in it."""
    for node in ast.walk(parsed(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and _called(node).endswith(("import_module", "__import__")):
            # The command line, which may import everything, loads its commands by name. The client's package loads what
            # it imports for type checkers too, where it is seen.
            known = all(isinstance(argument, ast.Constant) for argument in node.args)
            known |= path.is_relative_to(ROOT / "cli") or path == ROOT / "client" / "__init__.py"
            assert known, f"{path}: import by a known name"
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def _called(call: ast.Call) -> str:
    """The last part of the name of what is called; nothing where it has none."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def wrong_arrows(folder: str, names: Iterator[str]) -> list[str]:
    # The version is everybody's.
    ours = (name.removeprefix("hubbub.") for name in names if within(name, "hubbub") and name != "hubbub.__version__")
    return [name for name in ours if not any(within(name, target) for target in {folder, *ARROWS[folder]})]


def test_every_folder_is_looked_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(FOLDERS) == set(ARROWS)


def test_imports_follow_the_arrows() -> None:
    wrong = {
        module_name(path): arrows
        for path in MODULES
        if (arrows := wrong_arrows(path.relative_to(ROOT).parts[0], imported(path)))
    }
    assert wrong == {}


def test_own_packages_are_never_imported_by_their_bare_names() -> None:
    bare = {module_name(path): [name for name in imported(path) if name.split(".")[0] in FOLDERS] for path in MODULES}
    assert {name: found for name, found in bare.items() if found} == {}


WITH_MESSAGES = ("protos.codec", "protos.rpc", "service.rpc")
"""Where generated messages may be imported; generated servicers and stubs in all of these but the codec."""


OF_OTHERS = frozenset({"health_pb2", "health_pb2_grpc", "trace_service_pb2"})
"""Generated modules of libraries: gRPC's health, and OTLP."""


def test_generated_messages_stay_in_codec_and_rpc() -> None:
    wrong = {}
    for path in MODULES:
        name = module_name(path)
        parts = {part for what in imported(path) for part in what.split(".")}
        generated = {part for part in parts if part.endswith(("_pb2", "_pb2_grpc"))} - OF_OTHERS
        allowed = any(within(name, place) for place in WITH_MESSAGES)
        if not allowed or within(name, "protos.codec"):
            wrong[name] = {part for part in generated if not allowed or part.endswith("_grpc")}
    assert {name: found for name, found in wrong.items() if found} == {}


STORES = frozenset({"shuffler.stores.sqlite", "shuffler.stores.postgres"})
NEVER = {
    # A stage of the shuffler knows what a store promises, and no store.
    **dict.fromkeys(("shuffler.rounds", "shuffler.mix", "shuffler.release"), STORES),
    # No submission comes through the metrics, which only look on.
    "shuffler.admit": STORES | {"shuffler.metrics"},
    "shuffler.metrics": frozenset({"shuffler.admit"}),
    # What a device keeps does not depend on how it is sent.
    "client.state": frozenset(f"client.{name}" for name in ("session", "device", "fleet", "gateway", "recorder")),
}
"""What a folder within a folder never imports."""


def test_stages_know_no_store_and_state_no_session() -> None:
    wrong = {
        module_name(path): found
        for path in MODULES
        for place, never in NEVER.items()
        if within(module_name(path), place)
        and (
            found := [
                name for name in imported(path) if any(within(name.removeprefix("hubbub."), each) for each in never)
            ]
        )
    }
    assert wrong == {}


def test_accountant_has_no_randomness_clock_network_or_files() -> None:
    forbidden = {"random", "secrets", "time", "datetime", "socket", "asyncio", "grpc", "sqlite3", "os", "subprocess"}
    forbidden |= {"pathlib", "tempfile", "io"}
    accountant = [path for path in MODULES if path.is_relative_to(ROOT / "accountant")]
    found = {module_name(path): {name.split(".")[0] for name in imported(path)} & forbidden for path in accountant}
    assert accountant
    assert {name: names for name, names in found.items() if names} == {}


def test_accountant_package_itself_loads_nothing_until_a_public_name_is_asked_for() -> None:
    """Devices import the package with its mechanisms; its public names load the numerical libraries."""
    names = [name for name in imported(ROOT / "accountant" / "__init__.py") if not within(name, "typing")]
    lazy = ("hubbub.accountant.api", "hubbub.accountant.errors")
    assert [name for name in names if not any(within(name, each) for each in lazy)] == []
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
        ("client", "hubbub.shuffler.admit.admission", False),
        ("shuffler", "hubbub.analyzer", False),
        ("analyzer", "hubbub.client", False),
        ("protos", "hubbub.accountant.mechanisms", False),
        ("service", "hubbub.accountant.spending.ledger", True),
        ("service", "hubbub.accountant.certificate.terms", True),
        ("service", "hubbub.accountant.certificate.statement.statement", False),
        ("service", "hubbub.accountant.bounds", False),
        ("service", "hubbub.analyzer.stores.protocol", False),
        ("accountant", "hubbub.protos.task.task", False),
        ("deploy", "hubbub.analyzer.server", True),
        ("deploy", "hubbub.cli.terminal.output", False),
        ("verification", "hubbub.service.errors", False),
        ("planning", "hubbub.deploy.files", False),
        ("results", "hubbub.verification.results", True),
        ("results", "hubbub.service.settings", False),
        ("cli", "hubbub.deploy.files", True),
        ("shuffler", "hubbub.deploy", False),
        ("client", "numpy", True),
    ],
)
def test_the_check_itself_tells_right_from_wrong(folder: str, name: str, allowed: bool) -> None:
    assert (wrong_arrows(folder, iter([name])) == []) == allowed
