"""Stores secrets in SQLite rows so that deleting the row leaves nothing of the secret in the file.

`secure_delete` zeroes a deleted row in its place. But SQLite moves rows that share a page when the page is split or
merged, and does not zero their earlier places. A value longer than a page continues in overflow pages: these belong to
one row, are never copied, and are zeroed when they are freed. So a secret is stored after a page of zeros.
"""

from __future__ import annotations

import sqlite3

PAGE_BYTES = 4096
"""SQLite's page size; at most this much of a value is in a page that rows share."""

REWRITE_LIMIT_PAGES = 16_384
"""Files up to 64 MiB are rewritten after an erasure: about 0.3 s, during which nothing else is written."""


def pad_for_erasure(secret: bytes) -> bytes:
    """Return the form in which a secret is stored."""
    return bytes(PAGE_BYTES) + secret


def unpad(stored: bytes) -> bytes:
    """Return the secret in a value that `pad_for_erasure` made."""
    return stored[PAGE_BYTES:]


def rewrite(connection: sqlite3.Connection) -> None:
    """Rewrite a small file without the remains of moved rows; a large file stays as it is.

    In a large file, such remains of envelopes disappear when their page is freed, with the round that still uses it.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages <= REWRITE_LIMIT_PAGES:
        connection.execute("PRAGMA temp_store = MEMORY")  # the copy must not be in a temporary file
        connection.execute("VACUUM")
