"""Keeps what a service took of its feed of tasks, so that an older copy of the feed is noticed after a restart.

A service with SQLite keeps the entries in a folder beside its store. One with PostgreSQL keeps them in the database
(`service.postgres.kept_feed`). There every process of a cluster has them: whoever takes over goes on from the last
entry that any leader took, though its own disk is new, or has an older copy.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from hubbub.protos.errors import TaskError
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import add_entry, feed_in

KEPT = "feed"
"""The name of the folder, in that of the store, which has the entries that were taken."""


class KeptFeed(Protocol):
    """The entries that a service took. All calls block; they may come from any thread."""

    def check_apart(self, folder: Path) -> None:
        """Return only if the service may follow the feed in that folder.

        Raises:
            TaskError: if the entries are kept there, too.
        """

    def read(self, parties: FeedParties | None = None) -> Feed:
        """Return the entries in order, and with `parties` with their signatures checked.

        Raises:
            HubbubError: if they cannot be read, or are not as they were kept.
        """

    def add(self, entry: FeedEntry) -> None:
        """Keep the next entry: it is on the disk once this returns. It may be repeated.

        Raises:
            HubbubError: if that failed, or another entry with its number is there.
        """


class FolderFeed:
    """Keeps entries in a folder, which is made when it is first read (`KeptFeed`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check_apart(self, folder: Path) -> None:
        """Return only if `folder` is another one."""
        # An older copy of the feed would otherwise be one of what was taken, too, and nobody would notice.
        # Not Path.resolve, which raises another error than OSError for a link to itself.
        if os.path.realpath(folder) == os.path.realpath(self._folder):
            raise TaskError(f"`feed` names {self._folder}, where the service keeps its own copy; name another folder")

    def read(self, parties: FeedParties | None = None) -> Feed:
        """Return the entries in the folder."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise TaskError(f"cannot use {self._folder}: {error.strerror}; let this account write there") from error
        return feed_in(self._folder, parties)

    def add(self, entry: FeedEntry) -> None:
        """Write an entry into a file of its own."""
        add_entry(self._folder, entry)


def kept_feed_of(store: object, data: Path) -> KeptFeed:
    """Return where a store keeps what was taken of the feed: in its database, or in a folder in `data`."""
    found: KeptFeed | None = getattr(store, "kept_feed", None)
    return FolderFeed(data / KEPT) if found is None else found
