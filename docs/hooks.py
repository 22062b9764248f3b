"""What the site needs beside docs/: the texts at the top of the tree are pages too, and links to them lead there.

README.md is the site's first page. In the tree, links are relative to the file they are in, so that they work where the
sources are read; here they are turned into links between pages, or to the file's name where a file is not a page.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
TOP = {"README.md": "index.md"} | {name: name for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")}
"""Texts at the top of the tree, with the page that each becomes."""

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the texts at the top of the tree."""
    for name, page in TOP.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_others: object) -> str:
    """Turn links between files of the tree into links between pages."""
    sources = {page: name for name, page in TOP.items()}
    here = ROOT / sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return LINK.sub(lambda found: f"]({_target(here, page, found[1])}{found[2] or ''})", markdown)


def _target(here: Path, page: Page, link: str) -> str:
    """Return where a link leads from a page; `here` is the page's file in the tree."""
    aimed = (here.parent / link).resolve().relative_to(ROOT).as_posix()
    if aimed in TOP:
        uri = TOP[aimed]
    elif aimed.startswith("docs/"):
        uri = aimed.removeprefix("docs/")
    else:
        raise ValueError(f"{here.name} links to {link}, which is not a page; name the file as text instead")
    return "../" * page.file.src_uri.count("/") + uri
