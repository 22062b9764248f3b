"""Gives devices the entries of the feed of tasks in pages, at each process that answers them and follows the feed."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.feed.feed import FeedPage

PAGE_BYTES = 128 * 1024
"""Bytes of the entries in one answer, if there are more than `FEWEST`: anybody may ask for them, with a few bytes."""

FEWEST = 3
"""Entries in an answer at least, if there are as many; three of the longest fit into a message. A device that asks from
its last entry on sees the next one, and whether the one after that withdraws it."""


class FeedPages:
    """The entries that this process gives devices, in order.

    An entry is added last of all that is done with it: a device that has a task may ask any process for it.
    """

    def __init__(self) -> None:
        self._documents: list[bytes] = []
        self.successions: Sequence[Succession] = ()
        """The successions of those who sign the entries."""

    @property
    def count(self) -> int:
        """How many entries devices may have."""
        return len(self._documents)

    def add(self, entry: FeedEntry) -> None:
        """Add the next entry; one that was added before changes nothing."""
        if entry.number > self.count:
            self._documents.append(entry.encode())

    async def page(self, first: int) -> FeedPage:
        """Return the entries from a number on: all that have `PAGE_BYTES`, and at least three."""
        found, size = list[bytes](), 0
        for document in self._documents[max(0, first - 1) :]:
            size += len(document)
            # A device asks from the last entry that it has: with one entry alone it would not get on.
            if len(found) >= FEWEST and size > PAGE_BYTES:
                break
            found.append(document)
        return FeedPage(tuple(found), tuple(each.encode() for each in self.successions))
