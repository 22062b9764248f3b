"""Every Markdown file reads well on GitHub and as a page of the site: links and anchors resolve, the form is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from extensions.tree import FRONT, TOP, below, pages
from support.source_tree import FOLDERS, NAMES, ROOT

PAGES = pages()
"""Every page of the site, as a path from the top of the repository."""
READMES = sorted(
    path.relative_to(ROOT).as_posix() for folder in (*FOLDERS, "tests") for path in (ROOT / folder).rglob("README.md")
)

FENCE = re.compile(r"(?ms)^ *(?P<fence>`{3,}|~{3,}).*?^ *(?P=fence)\s*?$")
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\[\]]*\]\((?P<target>[^)\s]+)\)|^\[[^\]]+\]: *(?P<named>\S+)", re.MULTILINE)
HEADING = re.compile(r"(?m)^(?P<signs>#{1,6}) +(?P<title>.+?) *#*$")


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text()


@cache
def prose(path: str) -> str:
    """A file's text with its code blocks left empty: every line keeps its number."""
    return FENCE.sub(lambda found: "\n" * found[0].count("\n"), text_of(path))


@cache
def anchors(path: str) -> frozenset[str]:
    """The anchors that GitHub and MyST give to a file's headings."""
    found: dict[str, int] = {}
    names = set()
    for heading in HEADING.finditer(prose(path)):
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading["title"])
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        names.add(slug if slug not in found else f"{slug}-{found[slug]}")
        found[slug] = found.get(slug, 0) + 1
    return frozenset(names)


def links(path: str) -> Iterator[tuple[str, str]]:
    """Every relative link of a file: the path that it leads to, from the top of the repository, and its anchor."""
    text = CODE.sub(lambda found: "x" * len(found[0]), prose(path))
    for found in LINK.finditer(text):
        target, _, anchor = (found["target"] or found["named"]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        aimed = (ROOT / path).parent.joinpath(target).resolve() if target else ROOT / path
        assert aimed.is_relative_to(ROOT), f"{path} links out of the repository: {target}"
        yield aimed.relative_to(ROOT).as_posix(), anchor


@pytest.mark.parametrize("path", [*PAGES, *READMES])
def test_links_and_anchors_lead_somewhere(path: str) -> None:
    broken = []
    for aimed, anchor in links(path):
        if not (ROOT / aimed).exists():
            broken.append(aimed)
        elif anchor and (not aimed.endswith(".md") or anchor not in anchors(aimed)):
            broken.append(f"{aimed}#{anchor}")
    assert sorted(set(broken)) == []


def test_every_page_is_reached_by_links_from_the_first() -> None:
    reached, ahead = {FRONT}, [FRONT]
    while ahead:
        for aimed, _ in links(ahead.pop()):
            if aimed in PAGES and aimed not in reached:
                reached.add(aimed)
                ahead.append(aimed)
    assert sorted(set(PAGES) - reached) == []


def test_every_page_is_in_the_sidebar_once() -> None:
    listed = [page for front in PAGES for page in below(front, PAGES)]
    assert sorted([FRONT, *listed]) == sorted(PAGES)


FRONTS = ("index.md", "README.md")


def test_a_folders_front_page_names_all_its_pages() -> None:
    """So that who reads the repository finds them too. The first page leads to folders, not to each page."""
    named = {front: {aimed for aimed, _ in links(front)} for front in PAGES if Path(front).name in FRONTS}
    missing = {front: lost for front in named if (lost := sorted(set(below(front, PAGES)) - named[front]))}
    assert missing == {}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_title_and_lines_that_fit(page: str) -> None:
    titles = [found["title"] for found in HEADING.finditer(prose(page)) if found["signs"] == "#"]
    assert len(titles) == 1
    assert len(text_of(page).splitlines()) <= 400
    long = [
        f"{page}:{number}"
        for number, line in enumerate(prose(page).splitlines(), start=1)
        if not line.startswith(("|", "#", "    ", "![")) and len(re.sub(r"\]\([^)]*\)", "]", line)) > 100
    ]
    assert long == []


PROMISED = ("hubbub.queries", "hubbub.accountant.spending", "hubbub.accountant.certificate")
"""Packages whose modules are all on the pages for Python."""


def test_the_pages_for_python_name_modules_that_are_there() -> None:
    text = "".join(map(text_of, (page for page in PAGES if page.startswith("docs/reference/api/"))))
    named = re.findall(r"(?m)^\.\. automodule:: (\S+)$", text)
    assert len(named) == len(set(named))
    assert [name for name in named if name not in NAMES] == []
    inside = [name for name in NAMES if name.startswith(tuple(f"{package}." for package in PROMISED))]
    assert [name for name in inside if name not in named] == []


def test_pages_at_the_top_are_there() -> None:
    assert [name for name in TOP if not (ROOT / name).is_file()] == []


def test_no_file_has_the_marks_of_an_unresolved_merge() -> None:
    marks = re.compile(r"(?m)^(?:<{7}|>{7}) ")
    assert [path for path in (*PAGES, *READMES) if marks.search(text_of(path))] == []
