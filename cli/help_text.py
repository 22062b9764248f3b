"""Examples: the commands in a docstring's last paragraph, laid out in help so that they can be copied."""

from __future__ import annotations

import inspect
import re
import textwrap

COLUMNS = 70
"""Characters of the longest line; with indents and a backslash it fits a terminal of 80 columns."""

_NO_BREAK = "\0"
_EXAMPLES = re.compile(r"(Examples?:) (.+)", re.DOTALL)


def laid_out(text: str) -> str:
    """Return a command's help in which every example begins a line, and goes on only after a backslash.

    A paragraph of examples begins with "Example:" or "Examples:"; a semicolon stands between two of them.
    """
    return "\n\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    found = _EXAMPLES.fullmatch(text)
    if found is None:
        return text
    title, commands = found[1], " ".join(found[2].split()).split("; ")
    # The parser's help wraps every paragraph, within words, too, but for one that \b begins.
    return "\n".join(["\b", title, *map(_command, commands)])


def _command(words: str) -> str:
    # An option and its value stay on one line.
    together = re.sub(r"( --[a-z-]+) (?!-)", rf"\1{_NO_BREAK}", words)
    lines = textwrap.wrap(together, COLUMNS, break_on_hyphens=False, break_long_words=False)
    return "  " + " \\\n      ".join(lines).replace(_NO_BREAK, " ")
