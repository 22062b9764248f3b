"""Says what a wrong word of a command was probably meant to be: the nearest name, or the nearest file that exists."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

from typer.models import ArgumentInfo

from hubbub.queries.errors import did_you_mean, nearest

ALIASES: Mapping[str, str] = {"unary": "rappor", "oue": "rappor", "grr": "krr", "olh": "hashed", "text": "hashed"}
"""Other names of mechanisms, as tasks and papers have them, and their names on the command line."""

MOST_FILES = 10_000
"""In a folder with more files, the nearest is one of these: a folder of that size is listed in milliseconds."""

_CHOICE = re.compile(r"(?:Value error, )?(['\"])(.*)\1 is not one of ('.+')\.", re.DOTALL)
_FIRST_SENTENCE = re.compile(r"(.+?)(?:\.(?:\s|$)|\s\[default|$)", re.DOTALL)

_expected: dict[str, str] = {}
"""What the running command expects of each file that it was given, by the file's name."""


def with_nearest(message: str) -> str:
    """Return the parser's message on a word that is no choice, with the choice that was probably meant.

    Any other message stays as it is.
    """
    found = _CHOICE.fullmatch(message)
    if found is None:
        return message
    word, names = found[2], re.findall(r"'([^']*)'", found[3])
    return f"{word!r} is not one of {found[3]}; {meant(word, names)}".rstrip("; ")


def meant(word: object, names: list[str]) -> str:
    """Return "did you mean NAME? " for another name of one of `names`, or one like it; "" if there is none."""
    alias = ALIASES.get(str(word).lower())
    return f"did you mean {alias}? " if alias in names else did_you_mean(word, names)


@contextmanager
def expecting(run: Callable[..., None], options: Mapping[str, Any], name_of: Callable[[str], str]) -> Iterator[None]:
    """While a command runs, know what its help says of each file that it was given; `name_of` writes an option."""
    hints = get_type_hints(run, include_extras=True)
    for name, value in options.items():
        for path in value if isinstance(value, list | tuple) else [value]:
            if isinstance(path, Path):
                said = getattr(hints[name], "__metadata__", (inspect.signature(run).parameters[name].default,))[0]
                word = (said.metavar or name) if isinstance(said, ArgumentInfo) else name_of(name)
                _expected[str(path)] = f"as {_bare(word)}: {_beginning(said.help or 'a file')}"
    try:
        yield
    finally:
        _expected.clear()


def _bare(word: str) -> str:
    """Return the name of an argument without the brackets around one that may be left out."""
    return word[1:-1] if word.startswith("[") and word.find("]") == len(word) - 1 else word


def _beginning(said: str) -> str:
    """Return the first sentence of a help, as it goes on after a colon."""
    found = _FIRST_SENTENCE.match(said)
    words = said if found is None else found[1]
    # "The task" becomes "the task", and "PEM file" stays.
    return words[0].lower() + words[1:] if words[1].islower() or words[1] == " " else words


def on_missing(error: FileNotFoundError) -> str:
    """Return the hint for a file that is not there: the nearest name in its folder, and what the command expects.

    It goes on after the message of the error, and is empty if nothing is known.
    """
    if not isinstance(error.filename, str | bytes):
        return ""
    path = Path(os.fsdecode(error.filename))
    # A path has no double slash: https://example.com becomes https:/example.com.
    if str(path).lower().startswith(("http:/", "https:/")):
        return "; it is an address: download it, and give the file"
    near, expected = _nearest_file(path).rstrip(), _expected.get(str(path))
    hint = f"; {near}" if near else ""
    if expected is None:
        return hint
    return f"{hint} Give {expected}" if near.endswith("?") else f"{hint}; give {expected}"


def _nearest_file(path: Path) -> str:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, MOST_FILES)]
    except FileNotFoundError:
        return f"there is no folder {path.parent}"
    except OSError:
        return ""
    # What is read follows from the ending, so a file of another ending is not meant.
    stems = [name.removesuffix(path.suffix) for name in names if name.endswith(path.suffix)]
    near = nearest(path.name.removesuffix(path.suffix), stems)
    return "" if near is None else f"did you mean {path.with_name(near + path.suffix)}?"
