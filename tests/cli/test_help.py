"""Every command explains itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest
import typer

from hubbub import __version__
from hubbub.cli.app import build
from hubbub.cli.main import COMMANDS
from hubbub.cli.registry import SUMMARIES
from support.cli import hubbub, hubbub_here


def test_help_lists_every_command() -> None:
    ran = hubbub("--help")
    assert ran.status == 0
    for name in COMMANDS:
        assert f"  {name} " in ran.out


LOADED = """
import contextlib, io, sys
from hubbub.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["--help"])
print(*sorted(name for name in sys.modules if name.startswith(("typer", "rich", "grpc", "hubbub.cli.commands"))))
"""


def test_the_list_of_commands_loads_none_of_them() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_each_commands_line_in_the_list_is_the_first_sentence_of_its_help() -> None:
    parser: Any = typer.main.get_command(build())
    assert {name: parser.commands[name].get_short_help_str(1000) for name in COMMANDS} == SUMMARIES


def test_an_unknown_option_is_told_by_the_parser() -> None:
    ran = hubbub("--nothing")
    assert (ran.status, ran.out) == (2, "")
    assert "--nothing" in ran.err


@pytest.mark.parametrize("words", [(), ("keys",), ("account",)])
def test_no_description_is_cut_in_a_narrow_terminal(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def descriptions(columns: str) -> str:
        monkeypatch.setenv("COLUMNS", columns)
        return " ".join(hubbub_here(*words, "--help").out.partition("Commands:")[2].split())

    assert "..." not in descriptions("40")
    assert descriptions("40") == descriptions("200")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(name: str) -> None:
    words = (name, "epsilon") if name == "account" else (name,)
    ran = hubbub(*words, "--help")
    assert ran.status == 0
    assert "Example" in ran.out
    assert f"hubbub {name}" in ran.out


@pytest.mark.parametrize("words", [("account", "epsilon"), ("account", "plot"), ("plan",), ("demo",), ("submit",)])
def test_examples_can_be_copied(words: tuple[str, ...]) -> None:
    shown = hubbub(*words, "--help").out.partition("Example")[2].partition("\n\n")[0].partition("\n")[2]
    commands = [" ".join(command.split()) for command in shown.replace(" \\\n", " ").splitlines()]
    module = importlib.import_module(f"hubbub.cli.commands.{words[0]}")
    written = " ".join((getattr(module, words[-1], None) or module.command).__doc__.split())
    assert commands
    for command in commands:
        assert command.startswith(f"hubbub {' '.join(words)}")
        assert command in written
    assert all(len(line) < 80 for line in shown.splitlines())


def test_no_default_is_shown_in_brackets_of_its_own() -> None:
    assert "default: 400" in hubbub("audit", "--help").out
    assert "(400)" not in hubbub("audit", "--help").out


def test_unknown_command_is_bad_use() -> None:
    ran = hubbub("nothing")
    assert ran.status == 2
    assert "nothing" in ran.err


def test_version_is_printed() -> None:
    assert hubbub("--version").out == f"hubbub {__version__}\n"
