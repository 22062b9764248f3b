"""Stores and state files that tests change by hand."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from hubbub.protos.sqlite_layout import add_checksums


def by_hand(path: Path, **named: Any) -> sqlite3.Connection:
    """Open a store to change its rows as somebody does who computes their checksums, too."""
    connection: sqlite3.Connection = sqlite3.connect(path, **named)
    add_checksums(connection)
    return connection
