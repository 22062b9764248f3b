"""Shows rows by group: each group is named once, above its rows, so that labels are short enough for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from hubbub.queries.estimation.estimates import Group

Shown = TypeVar("Shown")

INDENT = "  "
"""Before the label of a row that belongs to the group above it."""


def heading(group: Group) -> str:
    """Return the name of a group. Of two attributes the values are enough: each alone is a group too, above it."""
    if len(group) > 1:
        return ", ".join(value for _, value in group)
    return "".join(f"{attribute}={value}" for attribute, value in group)


def with_headings(rows: Iterable[tuple[Group, Shown]]) -> Iterator[tuple[str, Shown | None]]:
    """Yield each row with what to put before its label; before the first row of a group its name, without a row."""
    last: Group = ()
    for group, row in rows:
        if group and group != last:
            yield heading(group), None
        last = group
        yield INDENT if group else "", row
