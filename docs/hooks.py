"""What the site needs beside docs/: the texts at the top of the tree are pages too, and links to them lead there.

README.md is the site's first page. In the tree, links are relative to the file they are in, so that they work where the
sources are read; here they are turned into links between pages. A file that is not a page is named instead.
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

LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the texts at the top of the tree."""
    for name, page in TOP.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_others: object) -> str:
    """Turn links between files of the tree into links between pages."""
    sources = {page: name for name, page in TOP.items()}
    here = ROOT / sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return LINK.sub(lambda found: _link(here, page, *found.groups(default="")), markdown)


def _link(here: Path, page: Page, text: str, link: str, anchor: str) -> str:
    """Return a link from a page, whose file in the tree is `here`; the name of what is not a page."""
    aimed = (here.parent / link).resolve().relative_to(ROOT)
    if not (ROOT / aimed).exists():
        raise ValueError(f"{here.name} links to {link}, which is not there")
    target = _target(page, aimed.as_posix())
    return f"`{aimed}`" if target is None else f"[{text}]({target}{anchor})"


def _target(page: Page, aimed: str) -> str | None:
    """Return where a link to a file leads from a page; None where that file is not a page."""
    if aimed in TOP:
        uri = TOP[aimed]
    elif aimed.startswith("docs/"):
        uri = aimed.removeprefix("docs/")
    else:
        return None
    return "../" * page.file.src_uri.count("/") + uri
