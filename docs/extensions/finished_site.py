"""Sphinx extension: checks the finished pages. Nothing is loaded from another host, and every link leads somewhere.

Sphinx checks links in the sources; this also sees what the theme and the API pages add.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements that make a browser load something, with the attribute that names it."""


class Page(HTMLParser):
    """What one HTML page loads, where it links to, and the anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if LOADED.get(tag) in values:
            self.loaded.append(values[LOADED[tag]])
        if tag == "a" and "href" in values:
            self.linked.append(values["href"])


@cache
def read(path: Path) -> Page:
    """Return a page, parsed once."""
    return Page(path.read_text(encoding="utf-8"))


def faults(site: Path) -> Iterator[str]:
    """Return a line for each thing that is loaded from another host, and for each link that leads nowhere."""
    for path in sorted(site.rglob("*.html")):
        name, page = path.relative_to(site), read(path)
        for url in page.loaded:
            if urlsplit(url).netloc:
                yield f"{name} loads {url} from another host"
        for url in (*page.loaded, *page.linked):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            aimed = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not aimed.is_file():
                yield f"{name} links to {url}, which is not there"
            elif parts.fragment and aimed.suffix == ".html" and unquote(parts.fragment) not in read(aimed).anchors:
                yield f"{name} links to {url}, and that page has no such anchor"


REDIRECT = '<!doctype html><meta charset="utf-8"><title>{0}</title><meta http-equiv="refresh" content="0; url={1}">\n'


def finish(app: Any, failure: Exception | None) -> None:
    """Let the site's folder lead to its first page, and check every page."""
    from sphinx.util.logging import getLogger

    if failure is not None or app.builder.name != "html":
        return
    site, first = Path(app.outdir), app.builder.get_target_uri(app.config.root_doc)
    (site / "index.html").write_text(REDIRECT.format(app.config.project, first) + f'<a href="{first}">{first}</a>\n')
    read.cache_clear()
    for fault in faults(site):
        getLogger(__name__).warning(fault)


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
