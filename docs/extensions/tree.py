"""Sphinx extension: the site's pages are the Markdown files as they are, so none has a line only for Sphinx.

The sidebar follows from the folders. A folder's front page is its `index.md`, or else its `README.md`. The pages of a
folder are below its front page: first those it links to, in that order, then the others by name. Pages of a folder
without a front page belong to the folder above. A link to a file that is not a page becomes the file's path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Pages at the top of the repository. They are below `FRONT`, with those of docs/."""
FRONT = "docs/index.md"
"""The site's first page."""

LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
FENCE = re.compile(r"(?ms)^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)\s*$")


def pages(root: Path = ROOT) -> list[str]:
    """Return every page of the site, as a path from the top of the repository."""
    inside = sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md"))
    return [*(name for name in TOP if (root / name).is_file()), *inside]


def front_of(page: str, all_pages: list[str]) -> str | None:
    """Return the front page that a page is below; None for the site's first page."""
    if page == FRONT:
        return None
    if page in TOP:
        return FRONT
    folders = [folder.as_posix() for folder in Path(page).parents if folder.as_posix() != "."]
    for folder in folders:
        for name in ("index.md", "README.md"):
            front = f"{folder}/{name}"
            if front in all_pages and front != page:
                return front
            if front == page:
                break
    return FRONT


def below(front: str, all_pages: list[str], root: Path = ROOT) -> list[str]:
    """Return the pages below a front page, in the order of the sidebar."""
    found = [page for page in all_pages if front_of(page, all_pages) == front]
    linked = [aimed for _, aimed in links((root / front).read_text(), front)]
    return sorted(found, key=lambda page: (linked.index(page) if page in linked else len(linked), page))


def links(text: str, page: str) -> Iterator[tuple[re.Match[str], str]]:
    """Return every relative link of a page outside code blocks, with the path that it leads to."""
    code = [found.span() for found in FENCE.finditer(text)]
    for found in LINK.finditer(text):
        if ":" in found["path"] or any(start <= found.start() < end for start, end in code):
            continue
        aimed = (ROOT / page).parent.joinpath(found["path"]).resolve()
        if aimed.is_relative_to(ROOT):
            yield found, aimed.relative_to(ROOT).as_posix()


def with_paths(text: str, page: str, all_pages: list[str]) -> str:
    """Return a page's text in which links to files that are not pages are the paths of these files."""
    parts, last = [], 0
    for found, aimed in links(text, page):
        # A link to nothing stays a link: MyST warns of it.
        if aimed not in all_pages and (ROOT / aimed).exists():
            parts += [text[last : found.start()], f"`{aimed}`"]
            last = found.end()
    return "".join([*parts, text[last:]])


def toctree(entries: list[str]) -> str:
    """Return the directive that puts pages into the sidebar."""
    lines = "\n".join(f"/{page.removesuffix('.md')}" for page in entries)
    return f"\n\n```{{toctree}}\n:hidden:\n\n{lines}\n```\n"


def read(_app: Any, docname: str, source: list[str]) -> None:
    """Prepare a page's text for MyST."""
    page, all_pages = f"{docname}.md", pages()
    source[0] = with_paths(source[0], page, all_pages)
    if entries := below(page, all_pages):
        source[0] += toctree(entries)


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
