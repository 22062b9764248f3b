"""Reads the fenced blocks of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCED = re.compile(r"(?ms)^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text without the indent, the line of its first line, and its place."""

    language: str
    text: str
    line: int
    start: int
    end: int


def fenced(content: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    for found in _FENCED.finditer(content):
        text = re.sub(rf"(?m)^{found['indent']}", "", found["text"])
        line = content[: found.start("text")].count("\n") + 1
        yield Block(found["language"], text, line, found.start(), found.end())


def without_fenced(content: str) -> str:
    """Return a page with the lines of its fenced blocks empty."""
    return _FENCED.sub(lambda found: "\n" * found[0].count("\n"), content)
