"""Whether the real command line takes some words, without running them."""

from __future__ import annotations

import functools
from typing import Any

import typer

from hubbub.cli.app import build


@functools.cache
def _top() -> Any:
    return typer.main.get_command(build())


def misunderstood(words: list[str]) -> str:
    """What the command line has against these words; empty if it takes them. A name alone is a mention."""
    name, command = "hubbub", _top()
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
