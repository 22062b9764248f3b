"""A page of the reference as lines of Markdown: headings, wrapped text, tables, and a division into several pages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MARK = "<!-- made by make reference; edit the code -->"
"""The first line of every page that is generated."""

COLUMNS = 100
"""Characters of the longest line of text. A row of a table may be longer: Markdown has no way to wrap it."""

MOST_LINES = 400
"""Most lines of a page."""


@dataclass(frozen=True)
class Section:
    """A part of a page under a heading of the second level; without a title it follows the page's first sentence."""

    title: str
    lines: tuple[str, ...]

    @property
    def all_lines(self) -> list[str]:
        """The heading and its lines, with an empty line before the heading."""
        return ["", f"## {self.title}", *self.lines] if self.title else list(self.lines)


@dataclass(frozen=True)
class Page:
    """A page: the name of its file, its title, the sentence that it begins with, and its sections.

    `summary` is what the list of pages says of it.
    """

    name: str
    title: str
    lead: str
    summary: str
    sections: tuple[Section, ...] = field(default=())

    @property
    def text(self) -> str:
        """The file's content."""
        lines = [MARK, "", f"# {self.title}", "", *wrapped(self.lead)]
        for section in self.sections:
            lines += section.all_lines
        return "\n".join(lines).rstrip("\n") + "\n"

    @property
    def line_count(self) -> int:
        """How many lines the file has."""
        return self.text.count("\n")


def section(title: str, *blocks: Iterable[str]) -> Section:
    """Return a section of blocks of lines, each with an empty line before it."""
    lines: list[str] = []
    for block in map(list, blocks):
        if block:
            lines += ["", *block]
    return Section(title, tuple(lines))


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Return a text as lines of at most `COLUMNS` characters; `first` and `rest` begin them.

    A code span, and a link, stays on one line.
    """
    indent = " " * len(first) if rest is None else rest
    # A space within backticks, or within the words of a link, must not become a line's end.
    whole = re.sub(
        r"\[[^\[\]]*\]\([^()\s]*\)|`[^`\n]*`", lambda span: span[0].replace(" ", "\0"), " ".join(text.split())
    )
    lines = textwrap.wrap(
        whole,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def bullets(items: Iterable[str]) -> list[str]:
    """Return a list, an item a bullet."""
    return [line for item in items for line in wrapped(item, "- ")]


def fenced(language: str, text: str) -> list[str]:
    """Return a block of code."""
    return [f"```{language}", *text.strip("\n").splitlines(), "```"]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; columns that are empty in every row are left out.

    Raises:
        ValueError: if a row has another number of cells than there are heads.
    """
    filled = [[cell(each) for each in row] for row in rows]
    if any(len(row) != len(heads) for row in filled):
        raise ValueError(f"a row has not the cells {', '.join(heads)}")
    shown = [place for place in range(len(heads)) if any(row[place] for row in filled)]
    lines = [[heads[place] for place in shown], ["---"] * len(shown)]
    lines += [[row[place] for place in shown] for row in filled]
    return ["|" + "".join(f" {each} |" if each else " |" for each in line) for line in lines] if filled else []


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: object) -> str:
    """Return a text as a code span, whatever backticks it has."""
    shown = str(text)
    if "`" not in shown:
        return f"`{shown}`"
    return f"`` {shown} ``"


def sentence(text: str) -> str:
    """Return a description with a capital at its beginning and a full stop at its end."""
    shown = " ".join(text.split())
    if "a" <= shown[:1] <= "z" and not re.match(r"[a-z]+[A-Z_:]", shown):
        shown = shown[0].upper() + shown[1:]
    return shown if not shown or shown.endswith((".", "?", "!")) else f"{shown}."


def anchor(title: str) -> str:
    """Return the anchor that a heading makes."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def divided(page: Page) -> list[Page]:
    """Return a page as it is, or as several of at most `MOST_LINES` lines, divided between sections.

    The second one is called NAME-2. Each names the others in its first sentence.

    Raises:
        ValueError: if one section alone is too long for a page.
    """
    parts: list[list[Section]] = [[]]
    for each in page.sections:
        trial = Page(page.name, page.title, page.lead, page.summary, (*parts[-1], each))
        # The list of the other pages needs a few lines more.
        if trial.line_count > MOST_LINES - 5 and parts[-1]:
            parts.append([])
        parts[-1].append(each)
    if len(parts) == 1:
        return [page]
    names = [page.name, *(f"{page.name}-{number}" for number in range(2, len(parts) + 1))]
    pages = []
    for number, (name, sections) in enumerate(zip(names, parts, strict=True), 1):
        others = ", ".join(f"[{place}]({other}.md)" for place, other in enumerate(names, 1) if other != name)
        lead = f"{page.lead} This is page {number} of {len(parts)}; the others: {others}."
        title = page.title if number == 1 else f"{page.title} ({number})"
        made = Page(name, title, lead, page.summary if number == 1 else f"{page.summary}, continued", tuple(sections))
        if made.line_count > MOST_LINES:
            raise ValueError(f"{name} has {made.line_count} lines; a section of it is too long for a page")
        pages.append(made)
    return pages
