"""Everything that people see is printed through `cli.terminal.output`: nowhere else can a name be taken for markup."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import MODULES, ROOT, parsed

ALLOWED = {
    "cli/terminal/output.py": {"Printer", "sys.stdout.write", "sys.stderr.write"},
    # Where a signal ends the process, it cannot wait for a console.
    "cli/terminal/progress.py": {"_Bars", "os.write"},
    # Before the libraries of the command line are known to be there.
    "cli/main.py": {"sys.stdout.write", "sys.stderr.write"},
    # A shell runs what is printed, so that nothing may be wrapped or colored.
    "cli/terminal/completion.py": {"sys.stdout.write", "sys.stderr.write"},
    # A process of the demo, which talks JSON to its parent through a pipe.
    "deploy/load/worker.py": {"sys.stdout.write"},
    "deploy/audit/recording_analyzer.py": {"sys.stdout.write"},
    "deploy/demo/worker.py": {"sys.stdout.write"},
}
"""What makes or writes to a console, by the modules that may."""

COMMANDS = ("cli/", "deploy/", "planning/", "verification/")
"""Folders of commands; services and devices log instead."""

MAKERS = {
    "print",
    "Console",
    "Printer",
    "Progress",
    "_Bars",
    "TextColumn",
    "RichHandler",
    "from_markup",
    "render_markup",
    "track",
}
"""Calls, by their last name, that print or that take markup."""


def dotted(node: ast.expr) -> str:
    """The names of an attribute, such as sys.stdout.write; nothing where it is of a value."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def printing(tree: ast.AST) -> Iterator[str]:
    """What in a module prints around the one place, or asks for markup."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = dotted(node.func)
        last = name if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        # `console.print` is the one place; `print` alone is not.
        if last in MAKERS and not (last in {"print", "track"} and isinstance(node.func, ast.Attribute)):
            yield last
        if name in {"sys.stdout.write", "sys.stderr.write", "typer.echo", "typer.secho", "click.echo", "os.write"}:
            yield name
        for given in node.keywords:
            if given.arg in {"markup", "emoji"} and not (
                isinstance(given.value, ast.Constant) and given.value.value is False
            ):
                yield f"{given.arg}="


def found_in(path: Path) -> set[str]:
    return set(printing(parsed(path.read_text())))


def test_nothing_is_printed_around_the_one_place() -> None:
    named = {path.relative_to(ROOT).as_posix(): path for path in MODULES}
    commands = {name: path for name, path in named.items() if name.startswith(COMMANDS)}
    assert len(commands) > 100
    around = {name: found_in(path) - ALLOWED.get(name, set()) for name, path in commands.items()}
    assert {name: what for name, what in around.items() if what} == {}
    assert {name: what for name, what in ALLOWED.items() if what - found_in(named[name])} == {}


def test_services_and_clients_print_nothing_and_log_instead() -> None:
    # `log_writer.py` is what writes the log itself.
    others = {
        path.relative_to(ROOT).as_posix(): found_in(path)
        for path in MODULES
        if not path.relative_to(ROOT).as_posix().startswith(COMMANDS)
    }
    assert {name: what for name, what in others.items() if what} == {
        "service/observability/log_writer.py": {"os.write"}
    }


def test_the_search_finds_what_prints() -> None:
    lines = ("print(1)", "Console()", "x.print(1, markup=True)", "sys.stdout.write('')", "Text.from_markup('[b]')")
    assert [bool(set(printing(parsed(line)))) for line in lines] == [True] * 5
    assert not set(printing(parsed("console().print('a', markup=False, soft_wrap=True)")))
