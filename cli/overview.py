"""Prints what `hubbub --help` does: usage, options and every command, without loading a parser or a command.

The parser's own list would load each command's module for its first sentence: most of a second on a slow machine.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator

from hubbub.cli.registry import ABOUT, SUMMARIES

WORDS = ((), ("--help",), ("-h",))
"""The words that ask for it."""

_OPTIONS = {"--version": "Print the version.", "-h, --help": "Show this message and exit."}

_WIDEST, _NARROWEST = 78, 40
"""Characters of a line, by the terminal's width."""


def text() -> str:
    """Return the overview, wrapped at the terminal's width."""
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns - 2))
    return "\n".join(
        (
            "Usage: hubbub [OPTIONS] COMMAND [ARGS]...",
            "",
            *_about(width),
            "",
            "  Example: hubbub demo",
            "",
            "Options:",
            *_list(_OPTIONS.items(), width),
            "",
            "Commands:",
            *_list(SUMMARIES.items(), width),
            "",
        )
    )


def _about(width: int) -> Iterator[str]:
    for number, paragraph in enumerate(ABOUT.split("\n\n")):
        if number:
            yield ""
        yield from textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")


def _list(rows: Iterable[tuple[str, str]], width: int) -> Iterator[str]:
    known = list(rows)
    indent = max(len(name) for name, _ in known) + 4
    for name, meaning in known:
        yield from textwrap.wrap(
            meaning,
            width,
            initial_indent=f"  {name}".ljust(indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
