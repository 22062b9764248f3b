"""Sphinx extension: runs the notebooks in docs/notebooks, and puts what each cell printed or drew below it.

A notebook is a page in plain Markdown, which jupytext reads: each block of `python` or `sh` is a cell, and runs in the
notebook's folder. `alt="…"` after the word `python` says in words what the cell draws. An error, words on stderr
(warnings are there) and a picture without such words stop the build.

    python -m extensions.notebooks

writes each notebook, or those named, beside its page as .ipynb with its outputs, for people who want to change it.
"""

from __future__ import annotations

import base64
import html
import logging
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"

CELL_SECONDS = 600
"""How long one cell may run; none takes a tenth of it on a busy machine."""

SETTINGS = ("--InlineBackend.figure_formats=svg", "--HistoryManager.enabled=False")
"""Of the kernel: pictures that stay sharp, and no file of what was typed."""

HEADER = """---
jupyter:
  jupytext: {notebook_metadata_filter: "-all", cell_metadata_filter: "alt,-all"}
  kernelspec: {name: python3, display_name: Python 3, language: python}
---

"""
"""What jupytext is told before a page: its cells are Python, though more of them may be of the shell, and none of this
is in the page that it writes back."""

PERSONAL = ("HUBBUB_", "JUPYTER", "MATPLOTLIBRC", "MPLBACKEND")
"""How variables begin that would change what a notebook does. With another MPLBACKEND nothing is drawn."""

COLORS = re.compile(r"\x1b\[[0-9;]*m")
LAST_FENCE = re.compile(r"(?m)^```$")


class NotebookError(Exception):
    """A notebook cannot be shown; the message names the notebook, the cell and the remedy."""


def sources() -> list[Path]:
    """Return the notebooks, by their names."""
    return sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")


def executed(text: str, name: str, folder: Path = FOLDER) -> Any:
    """Return a notebook (`nbformat`) of a page's text, run in a kernel of this Python, with its outputs.

    Raises:
        NotebookError: if a cell raises an error or prints on stderr.
    """
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from traitlets.config import Config

    notebook = jupytext.reads(HEADER + text, fmt="md")
    with tempfile.TemporaryDirectory(prefix="hubbub-") as scratch:
        # The programs of this environment, though nobody activated it; and nothing of the person's own settings.
        path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
        around = {name: value for name, value in os.environ.items() if not name.startswith(PERSONAL)}
        own = {"PATH": path, "TMPDIR": scratch, "IPYTHONDIR": scratch, "COLUMNS": "100"}
        # Sockets of files: nobody else on the machine can connect, and no port is taken.
        manager = {"transport": "ipc", "connection_file": f"{scratch}/kernel.json"}
        client = NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name="python3",
            extra_arguments=list(SETTINGS),
            resources={"metadata": {"path": str(folder)}},
            config=Config(KernelManager=manager),
        )
        client.log.setLevel(logging.WARNING)
        try:
            client.execute(env={**around, **own})
        except CellExecutionError as error:
            raise NotebookError(
                f"{name}: a cell failed; run it, and mend the notebook or what it calls: {error}"
            ) from None
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise NotebookError(f"{name}: a cell wrote on stderr, and a notebook has no warnings: {output['text']}")
    return notebook


def with_outputs(text: str, name: str, folder: Path = FOLDER) -> str:
    """Return a page's text with each cell's outputs below it.

    Raises:
        NotebookError: as `executed`; or if the page has other fences than cells, or a picture without `alt`.
    """
    cells = [cell for cell in executed(text, name, folder).cells if cell.cell_type == "code"]
    parts = LAST_FENCE.split(text)
    if len(parts) != len(cells) + 1:
        raise NotebookError(f"{name} has {len(parts) - 1} blocks of code and {len(cells)} cells; use python and sh")
    shown = ["".join(_shown(cell, name)) for cell in cells]
    return "".join(f"{part}```\n{output}" for part, output in zip(parts, shown, strict=False)) + parts[-1]


def _shown(cell: Any, name: str) -> Iterator[str]:
    """Yield a cell's outputs as Markdown; what it printed comes in one block."""
    # A kernel asks programs for colors, and a page has none.
    printed = COLORS.sub("", "".join(each["text"] for each in cell.outputs if each.output_type == "stream"))
    if printed:
        yield _block(printed.rstrip())
    if "alt" in cell.metadata and not any("image/svg+xml" in each.get("data", {}) for each in cell.outputs):
        raise NotebookError(f"{name}: a cell says what it draws, and draws nothing; draw, or take alt away")
    for each in cell.outputs:
        data = each.get("data", {})
        if "image/svg+xml" in data:
            if "alt" not in cell.metadata:
                raise NotebookError(f'{name}: a cell draws, and nothing says what; write ```python alt="…"')
            picture = base64.b64encode(data["image/svg+xml"].encode()).decode()
            yield f'\n<img alt="{html.escape(cell.metadata["alt"])}" src="data:image/svg+xml;base64,{picture}">\n'
        elif "text/html" in data:
            yield f'\n<div class="table-wrapper">\n{_table(data["text/html"])}\n</div>\n'
        elif "text/plain" in data and not data["text/plain"].startswith("<"):
            yield _block(data["text/plain"])


def _block(text: str) -> str:
    """Return a block of text, with a longer fence than any in it, so that nothing of it becomes the page's."""
    fence = "`" * max(3, *(len(each) + 1 for each in re.findall(r"`+", text)), 0)
    return f"\n{fence}text\n{text}\n{fence}\n"


def _table(text: str) -> str:
    """Return a table's HTML without its own style, and without blank lines, which would end it in Markdown."""
    plain = re.sub(r"(?s)<style.*?</style>", "", text)
    plain = re.sub(r"<table[^>]*>", '<table class="docutils">', plain)
    return "\n".join(line for line in plain.splitlines() if line.strip())


def read(_app: Any, docname: str, source: list[str]) -> None:
    """Run a page that is a notebook."""
    path = ROOT / f"{docname}.md"
    if path in sources():
        from sphinx.errors import ExtensionError

        try:
            source[0] = with_outputs(source[0], docname)
        except NotebookError as error:
            raise ExtensionError(str(error)) from error


def setup(app: Any) -> dict[str, bool]:
    """Register the extension, before others add to a page's end."""
    app.connect("source-read", read, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(named: Sequence[str]) -> None:
    """Write each notebook, or those named without their endings, with its outputs beside its page.

    Raises:
        SystemExit: if there is none of a name, or one cannot be run.
    """
    from jupytext import write

    there = {path.stem: path for path in sources()}
    if strange := [name for name in named if name not in there]:
        sys.exit(f"no notebook is called {', '.join(strange)}; there are {', '.join(there)}")
    for name in named or there:
        written = there[name].with_suffix(".ipynb")
        try:
            write(executed(there[name].read_text(encoding="utf-8"), name), written, fmt="ipynb")
        except NotebookError as error:
            sys.exit(str(error))
        print(f"wrote {written.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
