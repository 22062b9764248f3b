"""Sphinx extension: a picture that has a dark twin is shown in the light, and its twin in the dark.

`round.webp` is in the Markdown, which GitHub shows; `round-dark.webp` beside it is shown where the site is dark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

DARK = "-dark"
"""The end of the name of a twin."""


def dark_of(uri: str, folder: Path) -> str | None:
    """Return the address of a picture's twin, if a file of that name is beside it; `folder` has the page."""
    path = Path(uri)
    twin = path.with_name(f"{path.stem}{DARK}{path.suffix}")
    return twin.as_posix() if "://" not in uri and (folder / twin).is_file() else None


def read(app: Any, doctree: Any) -> None:
    """Put twins beside their pictures, before Sphinx notes which files a page needs."""
    folder = Path(app.env.doc2path(app.env.docname)).parent
    for image in list(doctree.findall(lambda node: node.tagname == "image")):
        if twin := dark_of(image["uri"], folder):
            dark = image.deepcopy()
            dark["uri"] = twin
            # Furo knows these classes.
            dark["classes"].append("only-dark")
            image["classes"].append("only-light")
            image.parent.insert(image.parent.index(image) + 1, dark)


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-read", read, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
