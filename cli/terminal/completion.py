"""Answers a shell that completes the words of a command: with the script that it reads once, and with the next words.

The parser's library has a script and a format for each shell. It is asked for both here, as its own way needs options
of `hubbub` that write into a person's files.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

import typer
from typer import completion

from hubbub.cli.registry import SUMMARIES

VARIABLE = "_HUBBUB_COMPLETE"
"""Environment variable by which a shell asks, as of other programs."""

SHELLS = ("bash", "zsh", "fish")

_WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Variables in which the scripts state the words so far."""

_REMEDY = f"""in bash, run: eval "$({VARIABLE}=bash_source hubbub)"; zsh and fish have zsh_source and fish_source"""


def answer(asked: str) -> int:
    """Print what a shell asks for by its variable; return the exit status, 2 if it asks for anything else."""
    # The scripts say complete_bash. People know bash_source of other programs, so both orders are read.
    parts = set(asked.split("_"))
    shell = next((each for each in SHELLS if each in parts), "")
    if parts == {shell, "source"}:
        script_of = completion.get_completion_script  # type: ignore[attr-defined] # it imports the function
        sys.stdout.write(f"{script_of(prog_name='hubbub', complete_var=VARIABLE, shell=shell)}\n")
        return 0
    if parts != {shell, "complete"}:
        sys.stderr.write(f"error: {VARIABLE} is {asked!r}; {_REMEDY}, or unset it\n")
        return 2
    if shell == "bash" and not (_WORDS[0] in os.environ and os.environ.get("COMP_CWORD", "").isdecimal()):
        sys.stderr.write(f"error: bash states no words to complete; {_REMEDY}\n")
        return 2
    completion.completion_init()  # type: ignore[attr-defined] # without it, the library knows no shell
    os.environ[VARIABLE] = f"complete_{shell}"
    return _app()(args=[], prog_name="hubbub", standalone_mode=False) or 0


def _app() -> typer.Typer:
    """Return the command that the words name; if they name none yet, all names, without the commands' modules."""
    from hubbub.cli.app import build

    named = _words()[1:2]
    if named and named[0] in SUMMARIES:
        return build(named)
    names = typer.Typer(add_completion=False, rich_markup_mode=None)
    for name, summary in SUMMARIES.items():
        names.command(name, help=summary)(_nothing)
    return names


def _words() -> Sequence[str]:
    text = next((os.environ[name] for name in _WORDS if name in os.environ), "")
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is open yet
        return text.split()


def _nothing() -> None:
    """Stand for a command whose name is completed."""
