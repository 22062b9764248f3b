"""Defines, as plain values, the messages by which a leader replicates its keyring to standbys."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = bytes | int | str | None

COPY_BYTES = 16
"""Length of the random names of copies, keyrings and streams."""


@dataclass(frozen=True)
class KeyringRow:
    """The present state of a row of a table; a deleted row has only its key."""

    table: str
    values: tuple[Value, ...] = field(repr=False)


@dataclass(frozen=True)
class FollowerPosition:
    """The state of a copy's disk: the changes of a stream that it has, or the rows of a whole copy that it requests."""

    copy: bytes = field(repr=False)
    stream: bytes = field(default=b"", repr=False)
    position: int = 0
    offset: int = 0


@dataclass(frozen=True)
class KeyringChanges:
    """Rows of a stream up to a position; with a `keyring`, a part of a whole copy, which has `total` rows."""

    stream: bytes = field(repr=False)
    position: int
    rows: tuple[KeyringRow, ...] = ()
    keyring: bytes = field(default=b"", repr=False)
    total: int = 0
