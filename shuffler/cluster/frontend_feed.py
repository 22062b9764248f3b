"""The tasks of a running front end: those of its files, and what its leader took of the feed.

A leader keeps the entries that it took in its database, before it does what they say. A front end reads them there, and
checks order and signatures itself. So it has no folder of the feed, and is never ahead of its leader.

It looks for new entries again and again, and before it refuses an unknown task: a device that has a task got it from a
process that found it in the database. A task that ended is refused from the next look on. What a front end stores until
then is as good as what the leader stores: a round that began keeps its word, and no other round begins.

A database that was put back from a backup may lack entries that a front end took, or get others in their place. So each
look checks that the database still has the last entry that was taken.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.entry import FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed, FeedPage
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.shuffler.admit.checks.capacity import unavailable
from hubbub.shuffler.admit.handler import no_feed
from hubbub.shuffler.feed_pages import FeedPages

LOOK_SECONDS = 1.0
"""Seconds between two looks."""

ELSEWHERE_SECONDS = 5.0
"""Seconds after which a device asks again, maybe another process, if this one cannot answer for a task."""

_EVENT = "feed not followed"

_LOG = structlog.get_logger(__name__)

Documents = Callable[[int, bytes], Awaitable[list[bytes]]]
"""Returns the entries in the database from a number on, as bytes; empty ones for those with that SHA-256."""


class FrontendFeed:
    """Changes the `tasks` of a front end in place, as its leader takes entries of the feed.

    `check` raises a HubbubError if this front end cannot answer the devices of a task. That is an incident, and the
    feed goes on without the task: the leader and other front ends run it.
    """

    def __init__(
        self,
        tasks: dict[bytes, Task],
        parties: FeedParties,
        documents: Documents,
        check: Callable[[Task], None],
        incidents: Incidents,
    ) -> None:
        self.feed = Feed()
        self.pages = FeedPages()
        self.pages.successions = parties.successions
        self._tasks, self._parties, self._documents, self._check = tasks, parties, documents, check
        self._incidents = incidents
        self._unable = set[bytes]()
        self._in_order = True
        self._last = b""
        """The SHA-256 of the last entry that was taken, as the database had it."""
        self._asked = self._seen = 0
        self._looking: asyncio.Task[None] | None = None

    async def look(self) -> None:
        """Take the entries that the leader took before this call.

        Raises:
            StoreError: if the database does not answer.
        """
        self._asked += 1
        mine = self._asked
        while self._seen < mine:
            # Whoever asked before a look began shares it: strangers who name invented tasks cost one look at a time. It
            # goes on if they hang up: a look that was broken off would leave its query, and the next begin another. If
            # it fails, all who wait learn so at once: one after the other, they would wait for a server in vain.
            if self._looking is None:
                self._looking = asyncio.create_task(self._look_once())
            await asyncio.shield(self._looking)

    async def seek(self, task_id: bytes) -> None:
        """Look for a task that is not known here.

        Raises:
            Refusal: NOT_READY, if others may answer for it, and this front end cannot.
            StoreError: if the database does not answer.
        """
        await self.look()
        if task_id not in self._tasks and (task_id in self._unable or not self._in_order):
            raise _elsewhere()

    async def _look_once(self) -> None:
        now = self._asked
        try:
            await self._take_new()
            self._seen = now
        finally:
            self._looking = None

    async def page(self, first: int) -> FeedPage:
        """Return entries of the feed from a number on, with those that the leader took just now.

        Raises:
            Refusal: NOT_READY, if the caller has entries that this front end cannot look for now, or cannot follow;
                UNKNOWN_TASK, if the leader took no entry.
        """
        try:
            await self.look()
        except StoreError as error:
            # An earlier page would look like an older copy of the feed.
            if first > self.pages.count:
                raise unavailable(error) from error
        if first > self.pages.count and not self._in_order:
            raise _elsewhere()
        if not self.pages.count:
            raise no_feed()
        return await self.pages.page(first)

    async def _take_new(self) -> None:
        try:
            taken = self.feed.position.number
            found = await self._documents(taken, self._last)
            if taken:
                self._check_last(*found[:1])
            # Without the one that was taken before. There is no entry 0.
            for document in found[1:] if taken else found:
                entry = FeedEntry.decode(document)
                after = self.feed.with_entry(entry)
                task = entry.check(self._parties)
                self.feed, self._last = after, hashlib.sha256(document).digest()
                self._take(entry, task)
                self.pages.add(entry)
        except StoreError:
            raise
        except HubbubError as error:
            self._in_order = False
            text = f"the feed is not followed: what the leader took of it is not in order: {error}"
            self._incidents.open(_EVENT, IncidentKind.FEED, _EVENT, text, error)
        else:
            self._in_order = True
            self._incidents.resolve(_EVENT)

    def _check_last(self, document: bytes | None = None) -> None:
        """Return if the database still has the last entry that was taken: `document`, empty if its bytes are the same.

        Raises:
            FeedError: if it has none with this number, or another one.
        """
        number = self.feed.position.number
        if document is None:
            raise FeedError(
                f"the database lacks entry {number}, which was taken before: an older copy of it was put back; put all "
                "entries into the leader's folder of the feed, and it takes them again"
            )
        if document and FeedEntry.decode(document).position != self.feed.position:
            raise FeedError(
                f"the database has another entry {number} than the one that was taken before: an older copy of it was "
                "put back, and the leader took others; find out who signed both, and restart this process"
            )

    def _take(self, entry: FeedEntry, task: Task | None) -> None:
        known = self._tasks.get(entry.task_id)
        if task is not None and known is None:
            known = self._able(task)
        if entry.after is not None:
            self._incidents.resolve((_EVENT, entry.task_id))
        if entry.after == -1:
            self._unable.discard(entry.task_id)
        if known is None:
            return
        self._tasks[known.id] = known if entry.after is None else replace(known, ends_after=entry.after)
        _LOG.info("feed entry taken", number=entry.number, action=entry.body["action"], task=known.name)

    def _able(self, task: Task) -> Task | None:
        try:
            self._check(task)
        except HubbubError as error:
            text = f"this front end does not answer for a task of the feed: {error}"
            self._incidents.open((_EVENT, task.id), IncidentKind.FEED, _EVENT, text, error)
            self._unable.add(task.id)
            return None
        return task


def _elsewhere() -> Refusal:
    message = "this front end cannot answer that now, though others may; ask again shortly"
    return Refusal(Reason.NOT_READY, message, ELSEWHERE_SECONDS)
