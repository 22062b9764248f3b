"""Every command explains itself."""

from __future__ import annotations

import importlib

import pytest

from hubbub import __version__
from hubbub.cli.main import COMMANDS
from support.cli import hubbub, hubbub_here


def test_help_lists_every_command() -> None:
    ran = hubbub("--help")
    assert ran.status == 0
    for name in COMMANDS:
        assert f"  {name} " in ran.out


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
    assert "default: 60" in hubbub("submit", "--help").out
    assert "(60)" not in hubbub("submit", "--help").out


def test_unknown_command_is_bad_use() -> None:
    ran = hubbub("nothing")
    assert ran.status == 2
    assert "nothing" in ran.err


def test_version_is_printed() -> None:
    assert hubbub("--version").out == f"hubbub {__version__}\n"
