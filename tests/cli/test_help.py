"""Every command explains itself."""

from __future__ import annotations

import pytest

from hubbub.deploy.cli import COMMANDS
from support.command import hubbub


def test_help_lists_every_command() -> None:
    ran = hubbub("--help")
    assert ran.status == 0
    for name in COMMANDS:
        assert f"  {name} " in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(name: str) -> None:
    words = (name, "epsilon") if name == "account" else (name,)
    ran = hubbub(*words, "--help")
    assert ran.status == 0
    assert "Example" in ran.out
    assert f"hubbub {name}" in ran.out


def test_unknown_command_is_bad_use() -> None:
    ran = hubbub("nothing")
    assert ran.status == 2
    assert "nothing" in ran.err


def test_version_is_printed() -> None:
    assert hubbub("--version").out.startswith("hubbub ")
