"""The page on tasks: every key of a draft, held against the keys that the readers of drafts take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from hubbub.planning.draft_keys import KINDS, SHARED, TABLES, DraftKey
from hubbub.protos.task import draft
from hubbub.queries import fields
from hubbub.queries.registry import QUESTIONS, keys_of
from reference.making.page import Page, Section, code, divided, fenced, section, sentence, table, wrapped

_EXAMPLE = """
[task]
name = "usage"
start = 2026-12-01T00:00:00Z
length = "24h"
grace = "10m"
minimum_reports = 1000

[privacy]
epsilon = 1.0
delta = 1e-6

[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark", "system"]
"""
"""The shortest draft there is; a test reads it."""

_RULES = (
    "`hubbub plan` reads a draft, chooses the randomizers and writes the task that parties sign. A draft has the "
    "tables `[task]` and `[privacy]`, one `[[query]]` or more, and perhaps `[about]`, `[admission]` and `[log]`. A key "
    "that is not here is refused, with the line. `hubbub init` writes a draft with a comment for each key."
)
_HEADS = ("key", "values", "default", "means")

Keys = Mapping[str, DraftKey]


def pages() -> list[Page]:
    """Return the page on the keys of a draft.

    Raises:
        ValueError: if the keys that are described are not those that are read.
    """
    _check()
    tables = [
        section(f"The table {name}", table(_HEADS, _rows(keys, read_keys(name)))) for name, keys in TABLES.items()
    ]
    kinds = [_kind(name) for name in QUESTIONS]
    return divided(
        Page(
            "task-keys",
            "Keys of a task",
            "What can you write in the draft of a task, and what does each kind of query take?",
            "every key of a task's draft, for each kind of query",
            (
                section("", wrapped(_RULES), fenced("toml", _EXAMPLE)),
                *tables,
                section("Every query", table(_HEADS, _rows(SHARED, _shared()))),
                *kinds,
            ),
        )
    )


def _kind(name: str) -> Section:
    about = sentence((inspect.getdoc(QUESTIONS[name]) or "").split("\n\n")[0])
    rows = _rows(KINDS[name], kind_keys(name))
    # The table is empty for a kind without keys of its own.
    return section(name, wrapped(about), table(_HEADS, rows))


def _rows(described: Keys, read: Mapping[str, bool]) -> list[list[str]]:
    return [
        [code(key), each.values, "required" if read[key] else each.default, each.meaning]
        for key, each in described.items()
    ]


def _check() -> None:
    """Compare what is described with what is read."""
    expected: dict[str, tuple[Keys, Mapping[str, bool]]] = {
        **{name: (keys, read_keys(name)) for name, keys in TABLES.items()},
        "every query": (SHARED, _shared()),
        **{name: (KINDS.get(name, {}), kind_keys(name)) for name in QUESTIONS},
    }
    for where, (described, read) in expected.items():
        differing = sorted(described.keys() ^ read.keys())
        if differing:
            raise ValueError(f"planning/draft_keys.py: {where} differs from what is read: {', '.join(differing)}")
        missing = [key for key, required in read.items() if not required and not described[key].default]
        if missing:
            raise ValueError(f"planning/draft_keys.py: {where} has no default for {', '.join(missing)}")


def read_keys(name: str) -> dict[str, bool]:
    """Return the keys that the readers of a draft take in one of its tables, and whether each is required."""
    return dict.fromkeys(draft.REQUIRED[name], True) | dict.fromkeys(draft.OPTIONAL[name], False)


def kind_keys(name: str) -> dict[str, bool]:
    """Return the keys that a kind of question adds to those of every query, and whether each is required."""
    required, optional = keys_of(QUESTIONS[name])
    return dict.fromkeys(required, True) | dict.fromkeys(optional, False)


def _shared() -> dict[str, bool]:
    return dict.fromkeys(fields._SHARED, True) | dict.fromkeys(fields._SHARED_OPTIONAL, False)
