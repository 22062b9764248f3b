"""What a leader tells whoever stands by of its keyring, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = bytes | int | str | None

COPY_BYTES = 16
"""Length of the names of copies, keyrings and streams, which are random."""


@dataclass(frozen=True)
class KeyringRow:
    """A row of a table as it is now; with what it is known by alone where it is gone."""

    table: str
    values: tuple[Value, ...] = field(repr=False)


@dataclass(frozen=True)
class FollowerPosition:
    """What a copy has on its disk: so many changes of a stream, or so many rows of a whole copy, which it asks for."""

    copy: bytes = field(repr=False)
    stream: bytes = field(default=b"", repr=False)
    position: int = 0
    offset: int = 0


@dataclass(frozen=True)
class KeyringChanges:
    """Rows of a stream up to a position; with a `keyring`, a part of a whole copy of it, which has `total` rows."""

    stream: bytes = field(repr=False)
    position: int
    rows: tuple[KeyringRow, ...] = ()
    keyring: bytes = field(default=b"", repr=False)
    total: int = 0
