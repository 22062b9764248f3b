"""The pages of docs/howto as tests read them: fenced blocks, and code in backticks, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.markdown_blocks import fenced, without_fenced
from support.source_tree import ROOT

HOWTO = ROOT / "docs" / "howto"
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Part:
    """A part of a page, and where it is."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"docs/howto/{self.page.name}:{self.line}"


def pages() -> list[Path]:
    """All pages, in order."""
    return sorted(HOWTO.glob("*.md"))


def blocks(page: Path, language: str) -> Iterator[Part]:
    """The fenced blocks in a language, without their indent."""
    for block in fenced(page.read_text()):
        if block.language == language:
            yield Part(page, block.line, block.text)


def lines(block: Part) -> Iterator[Part]:
    """The lines of a block of shell, continued ones joined."""
    number, joined = block.line, ""
    for offset, line in enumerate(block.text.splitlines()):
        number = number if joined else block.line + offset
        joined += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield Part(block.page, number, joined)
            joined = ""


def prose(page: Path) -> str:
    """A page's text; the lines of its fenced blocks are empty."""
    return without_fenced(page.read_text())


def code(page: Path) -> Iterator[Part]:
    """What is in backticks in the text."""
    for number, line in enumerate(prose(page).splitlines(), 1):
        yield from (Part(page, number, found) for found in _CODE.findall(line))
