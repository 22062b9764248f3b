"""How a secret is kept in a SQLite row, so that deleting the row leaves nothing of it in the file.

`secure_delete` zeroes a row in its place when it is deleted. But rows that share a page are moved when the page is
split or merged, and their place before is not zeroed. A value longer than a page goes on in overflow pages: those
belong to one row, are never copied, and are zeroed when they are freed. So a secret is put behind a page of zeros.
"""

from __future__ import annotations

import sqlite3

PAGE_BYTES = 4096
"""SQLite's page size; no more of a value than this is in a page that rows share."""

REWRITE_LIMIT_PAGES = 16_384
"""Files up to 64 MiB are written anew after something was erased: about 0.3 s, in which nothing else is written."""


def pad_for_erasure(secret: bytes) -> bytes:
    """Return a secret as it is to be stored."""
    return bytes(PAGE_BYTES) + secret


def unpad(stored: bytes) -> bytes:
    """Return the secret that `pad_for_erasure` made a stored value of."""
    return stored[PAGE_BYTES:]


def rewrite(connection: sqlite3.Connection) -> None:
    """Write a small file anew, without what rows left behind when they were moved; a large one stays as it is.

    In a large file such remains of envelopes go when their page is freed, with the round whose rows are still on it.
    """
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages <= REWRITE_LIMIT_PAGES:
        connection.execute("PRAGMA temp_store = MEMORY")  # the copy is not to be in a file of its own
        connection.execute("VACUUM")
