"""Builds the commands with their options and help; each first checks that the extra it needs is installed."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import typer
from typer.core import TyperGroup

from hubbub.cli.options.hints import expecting, with_nearest
from hubbub.cli.options.numbers import options_of, with_forms, written_out
from hubbub.cli.registry import ABOUT, FAILURE_STATUS, NEEDS, missing
from hubbub.cli.terminal.output import EXIT_FAILURE, failures, print_json
from hubbub.cli.terminal.signals import raises
from hubbub.protos.errors import HubbubError, UsageError

USAGE_ERROR: type[typer.BadParameter] = typer.BadParameter.__mro__[1]  # not a name of typer's own
"""The parser's exception for wrong words of a command."""

COLUMNS = 70
"""Characters of the longest line; with indents and a backslash it fits a terminal of 80 columns."""

_NO_BREAK = "\0"
_EXAMPLES = re.compile(r"(Examples?:) (.+)", re.DOTALL)


def run(names: Sequence[str], words: Sequence[str]) -> int:
    """Run one of the named commands with these words; return its exit status.

    A usage error of the parser is reported like those of commands: with --json also as a document on stdout.
    """
    commands = build(names)
    raises()
    try:
        written = written_out(words, _options(int, names), _options(float, names))
        return commands(args=written, prog_name="hubbub", standalone_mode=False) or 0
    except USAGE_ERROR as error:
        error.message = with_nearest(with_forms(error.message))
        if "--json" in words:
            print_json({"error": error.format_message()})
        error.show()
        return error.exit_code
    except typer.Abort as error:
        # The parser's library makes it of an EOFError, whose words it leaves out.
        ended = error.__cause__ or error
    raise ended


class _Commands(TyperGroup):
    """A list of commands whose descriptions are wrapped at the terminal's width; the library's own cuts them."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the name and the first sentence of each command."""
        rows = [(name, self.commands[name].get_short_help_str(WHOLE)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


WHOLE = 1000
"""More characters than the first sentence of any help has."""


def hubbub(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """Take the options before a command."""
    # `main` prints the version and the overview without the parser; here the option is only for its own help.
    del version


def build(names: Sequence[str] = tuple(NEEDS)) -> typer.Typer:
    """Return the command line with the named commands: module `cli.commands.NAME` has `command` or `app`."""
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback(help=ABOUT)(hubbub)
    for name in names:
        module = importlib.import_module(f"hubbub.cli.commands.{name}")
        if hasattr(module, "app"):
            app.add_typer(_checked(name, module.app), name=name)
        else:
            app.command(name)(_needing(name, module.command))
    return app


def _options(kind: type, names: Sequence[str]) -> set[str]:
    """Return the options of these commands that take a number of this kind."""
    found = set[str]()
    for name in names:
        module = importlib.import_module(f"hubbub.cli.commands.{name}")
        runs = (
            [each.callback for each in module.app.registered_commands] if hasattr(module, "app") else [module.command]
        )
        for run in runs:
            found |= options_of(kind, run, _option)
    return found


def _checked(name: str, commands: typer.Typer) -> typer.Typer:
    """Return the subcommands of a command; each first checks that the extra it needs is installed."""
    checked = typer.Typer(
        cls=_Commands, no_args_is_help=True, rich_markup_mode=None, help=laid_out(commands.info.help or "")
    )
    for each in commands.registered_commands:
        if each.callback is not None:
            word = each.name or each.callback.__name__
            checked.command(word)(_needing(f"{name} {word}", each.callback))
    return checked


def _needing(command: str, run: Callable[..., None]) -> Callable[..., None]:
    """Return a command that first checks that the extra it needs is installed; its help works without the extra."""

    @functools.wraps(run)  # typer reads the options from the wrapped function's signature
    def checked(*args: Any, **options: Any) -> None:
        with failures(bool(options.get("as_json")), FAILURE_STATUS.get(command, EXIT_FAILURE)):
            lacking = missing(command)
            if lacking is not None:
                raise HubbubError(lacking)
            for name, value in options.items():
                if isinstance(value, float) and not math.isfinite(value):
                    raise UsageError(f"{_option(run, name)} is {value}; give a finite number")
        with expecting(run, options, lambda name: _option(run, name)):
            run(*args, **options)

    checked.__doc__ = laid_out(run.__doc__ or "")
    return checked


def _option(run: Callable[..., None], name: str) -> str:
    """Return the option of a parameter, as it is written on the command line."""
    hint = get_type_hints(run, include_extras=True)[name]
    # The option is in the annotation or in the default value.
    said = getattr(hint, "__metadata__", (inspect.signature(run).parameters[name].default,))[0]
    # In an annotation, typer stores the first name of an option in place of its default value.
    names = [getattr(said, "default", None), *(getattr(said, "param_decls", None) or ())]
    options = [each for each in names if isinstance(each, str) and each.startswith("-")]
    return options[0] if options else f"--{name.replace('_', '-')}"


def laid_out(text: str) -> str:
    """Return a command's help in which every example begins a line and continues only after a backslash.

    A paragraph of examples begins with "Example:" or "Examples:"; a semicolon separates two examples.
    """
    return "\n\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    found = _EXAMPLES.fullmatch(text)
    if found is None:
        return text
    title, commands = found[1], " ".join(found[2].split()).split("; ")
    # The parser wraps every paragraph of the help, even within words, unless the paragraph begins with \b.
    return "\n".join(["\b", title, *map(_command, commands)])


def _command(words: str) -> str:
    # An option and its value stay on one line.
    together = re.sub(r"( --[a-z-]+) (?!-)", rf"\1{_NO_BREAK}", words)
    lines = textwrap.wrap(together, COLUMNS, break_on_hyphens=False, break_long_words=False)
    return "  " + " \\\n      ".join(lines).replace(_NO_BREAK, " ")
