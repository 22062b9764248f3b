"""Keeps what a service took of its feed of tasks in its database (`service.runtime.kept_feed.KeptFeed`).

The table only grows: the database refuses changes. A process that no longer leads adds nothing, as its transaction
begins with the check of its term.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hubbub.protos.task.feed.entry import FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.service.postgres.sessions import Connection, Sessions


def documents(connection: Connection) -> list[bytes]:
    """Return the entries that were taken, in order, as bytes."""
    return [bytes(entry) for (entry,) in connection.execute("SELECT entry FROM feed ORDER BY number").fetchall()]


def documents_from(connection: Connection, number: int, known: bytes) -> list[bytes]:
    """Return the entries from that number on, in order, as bytes; empty ones for those whose SHA-256 is `known`."""
    statement = (
        "SELECT CASE WHEN sha256(entry) = %s THEN '' ELSE entry END FROM feed WHERE number >= %s ORDER BY number"
    )
    return [bytes(entry) for (entry,) in connection.execute(statement, (known, number)).fetchall()]


def with_documents(feed: Feed, found: Iterable[bytes], parties: FeedParties | None = None) -> Feed:
    """Return the feed with further entries, their order checked, and with `parties` also the signatures.

    Raises:
        FeedError: if one is no entry, not the next one, or not signed by both.
    """
    for document in found:
        entry = FeedEntry.decode(document)
        feed = feed.with_entry(entry)
        if parties is not None:
            entry.check(parties)
    return feed


def insert(connection: Connection, entry: FeedEntry) -> None:
    """Add the next entry; one that is there already stays.

    Raises:
        FeedError: if another entry with this number is there.
    """
    statement = "INSERT INTO feed (number, entry) VALUES (%s, %s) ON CONFLICT DO NOTHING"
    if connection.execute(statement, (entry.number, entry.encode())).rowcount:
        return
    row = connection.execute("SELECT entry FROM feed WHERE number = %s", (entry.number,)).fetchone()
    if row is None or FeedEntry.decode(bytes(row[0])).position != entry.position:
        raise FeedError(
            f"{entry.name} is another one than the database has, which was taken before; put that one into the folder "
            "of the feed again"
        )


class DatabaseFeed:
    """Keeps entries in the table `feed` of a store (`KeptFeed`)."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def check_apart(self, folder: Path) -> None:
        """Return: a folder is never in the database."""

    def read(self, parties: FeedParties | None = None) -> Feed:
        """Return the entries in the database."""
        return with_documents(Feed(), self._sessions.read(documents), parties)

    def add(self, entry: FeedEntry) -> None:
        """Commit an entry."""
        self._sessions.change(lambda connection: insert(connection, entry))
