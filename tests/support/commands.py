"""All commands with their options, read off the command line itself: a new one is covered without a line in a test."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import typer

from hubbub.cli.app import build

GIVEN = {
    "TASK.toml": "task.toml",
    "OPERATOR.toml": "deployment/operator/operator.toml",
    "CLIENT.toml": "deployment/client/client.toml",
    "SETTINGS.toml": "deployment/shuffler/shuffler.toml",
    "--key": "deployment/operator/identity.pem",
    "--authority": "deployment/operator",
    "--data": "data.csv",
}
"""What a parameter is given where another one is tried: files that exist let a command get further."""

PLAIN = {"devices": "2", "delta": "1e-6", "reports": "1000", "categories": "4", "wait": "0", "local_epsilon": "1"}


@dataclass(frozen=True)
class Leaf:
    """A command that can be run: its words, its parameters as the parser knows them, and what each is read as."""

    words: tuple[str, ...]
    parameters: tuple[Any, ...]
    kinds: Mapping[str, Any]

    @property
    def name(self) -> str:
        return " ".join(self.words)

    def kind(self, parameter: Any) -> type:
        """What a parameter is read as, without None and lists."""
        found = self.kinds[parameter.name]
        while get_args(found):
            found = get_args(found)[0]
        return cast(type, found)


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[Leaf]:
    below = getattr(command, "commands", {})
    for name, each in below.items():
        yield from leaves(each, (*words, name))
    if not below:
        parameters = tuple(each for each in command.params if each.name != "help")
        yield Leaf(words, parameters, get_type_hints(inspect.unwrap(command.callback)))


TOP: Any = typer.main.get_command(build())

LEAVES = tuple(leaves(TOP))


def is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False) or getattr(parameter, "is_bool_flag", False))


def option(parameter: Any) -> str:
    return str(parameter.opts[0]) if parameter.param_type_name == "option" else ""


def usual(leaf: Leaf, parameter: Any) -> str:
    """A value that the parameter may have."""
    for key in (option(parameter), str(parameter.metavar), str(parameter.name)):
        if key in GIVEN:
            return GIVEN[key]
        if key in PLAIN:
            return PLAIN[key]
    read_as = leaf.kind(parameter)
    if issubclass(read_as, Enum):
        return str(next(iter(read_as)).value)
    return {int: "3", float: "0.5", Path: "missing"}.get(read_as, "x")


def given(leaf: Leaf, instead: Any = None, value: str = "") -> list[str]:
    """The words of a call with all that is required, and one parameter that has this value."""
    return written(leaf, [] if instead is None else [(instead, value)])


def written(leaf: Leaf, chosen: Sequence[tuple[Any, str]]) -> list[str]:
    """The words of a call with these parameters and values, in this order, and all else that is required.

    The value of a flag is left out. A parameter may be there twice.
    """
    words, last = list(leaf.words), []
    has = {parameter.name for parameter, _ in chosen}
    more = [each for each in leaf.parameters if each.name not in has and not is_flag(each)]
    usually = [(each, usual(leaf, each)) for each in more if each.required or each.name in PLAIN]
    for parameter, text in (*chosen, *usually):
        if option(parameter):
            words += [option(parameter)] if is_flag(parameter) else [option(parameter), text]
        else:
            last.append((leaf.parameters.index(parameter), text))
    return [*words, *(text for _, text in sorted(last, key=lambda each: each[0]))]


def misunderstood(words: list[str]) -> str:
    """What the command line has against these words; empty if it takes them. A name alone is a mention."""
    name, command = "hubbub", TOP
    while hasattr(command, "get_command") and words:
        with command.make_context(name, list(words), resilient_parsing=True) as context:
            name, *words = words
            found = command.get_command(context, name)
        if found is None:
            return f"there is no command {name}"
        command = found
    if not words:
        return ""
    try:
        command.make_context(name, list(words))
    except Exception as error:  # typer has its usage errors from a library of its own
        return f"{type(error).__name__}: {error}"
    return ""
