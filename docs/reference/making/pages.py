"""All pages of the reference: those that are generated, the list of them, and what is on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from reference.making import (
    alerts,
    certificate,
    commands,
    errors,
    events,
    metrics,
    refusals,
    settings,
    speed,
    task_keys,
)
from reference.making.page import MARK, Page, section, table, wrapped

FOLDER = Path(__file__).parents[1]
"""docs/reference."""

SUBJECTS: tuple[Callable[[], list[Page]], ...] = (
    commands.pages,
    settings.pages,
    task_keys.pages,
    certificate.pages,
    metrics.pages,
    alerts.pages,
    events.pages,
    refusals.pages,
    errors.pages,
    speed.pages,
)
"""What makes the pages, in the order of the list."""

WRITTEN: Mapping[str, str] = MappingProxyType(
    {
        "formats.md": "documents that parties sign, and their formats",
        "formats-results.md": "counts, results, and the table of exported estimates",
        "formats-feeds.md": "entries that publish tasks and end them",
        "formats-log.md": "the transparency log: its files, checkpoints and proofs",
        "oblivious-http.md": "calls through a relay, byte by byte",
        "formats-stores.md": "the stores of the services in PostgreSQL",
        "limits.md": "how far hubbub goes",
        "port-limits.md": "what callers may take of each port",
        "demo-document.md": "the document that `hubbub demo --json` prints",
        "api/index.md": "the Python interface",
        "../glossary.md": "every term, with one meaning each",
    }
)
"""Pages of the reference that people write, with what is on each."""


def pages() -> list[Page]:
    """Return every generated page, the list of all pages first.

    Raises:
        ValueError: if two pages have one name.
    """
    made = [page for subject in SUBJECTS for page in subject()]
    names = [page.name for page in made]
    if len(set(names)) != len(names):
        raise ValueError("two pages have one name")
    return [_index(made), *made]


def texts() -> dict[str, str]:
    """Return the content of every generated page, by the name of its file."""
    return {f"{page.name}.md": page.text for page in pages()}


def stale(folder: Path = FOLDER) -> list[str]:
    """Return the files that differ from what the code gives, are missing, or are left of a page that is no more."""
    now = texts()
    differ = [name for name, text in now.items() if _read(folder / name) != text]
    return sorted({*differ, *(path.name for path in generated(folder) if path.name not in now)})


def write(folder: Path = FOLDER) -> None:
    """Write every page, and remove what is left of pages that are no more."""
    now = texts()
    for path in list(generated(folder)):
        if path.name not in now:
            path.unlink()
    for name, text in now.items():
        (folder / name).write_text(text, encoding="utf-8")


def generated(folder: Path = FOLDER) -> Iterator[Path]:
    """Return the files of a folder that were generated, by their first line."""
    return (path for path in sorted(folder.glob("*.md")) if _read(path).startswith(MARK))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _index(made: list[Page]) -> Page:
    rows = [[f"[{page.title}]({page.name}.md)", page.summary] for page in made]
    written = [[f"[{_title(name)}]({name})", about] for name, about in WRITTEN.items()]
    made_so = (
        "`make reference` makes these pages from the code, and a test fails if one of them is stale. "
        "To change a page, change the description in the code."
    )
    heads = ("page", "what is on it")
    return Page(
        "index",
        "Reference",
        "Look up a command, a setting, a metric, a refusal, a message or a member of a document.",
        "",
        (
            section("Made from the code", wrapped(made_so), table(heads, rows)),
            section("Written by hand", table(heads, written)),
        ),
    )


def _title(name: str) -> str:
    """Return the title of a page that people write."""
    lines = _read(FOLDER / name).splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), name)
