"""The tasks of a running front end: those of its files, and what its leader took of the feed.

A leader keeps the entries that it took in its database, before it does what they say. A front end reads them there, and
checks order and signatures itself. So it has no folder of the feed, and is never ahead of its leader.

It looks for new entries again and again, and before it refuses an unknown task: a device that has a task got it from a
process that found it in the database. A task that ended is refused from the next look on. What a front end stores until
then is as good as what the leader stores: a round that began keeps its word, and no other round begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.feed.feed import Feed, FeedEntry, FeedPage, FeedParties
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.shuffler.admit.checks.capacity import unavailable
from hubbub.shuffler.admit.handler import no_feed
from hubbub.shuffler.feed_pages import FeedPages

LOOK_SECONDS = 1.0
"""Seconds between two looks."""

_EVENT = "feed not followed"

_LOG = structlog.get_logger(__name__)

Documents = Callable[[int], Awaitable[list[bytes]]]
"""Returns the entries in the database after the one with that number, as bytes."""


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
        self._lock = asyncio.Lock()
        self._asked = self._seen = 0

    async def look(self) -> None:
        """Take the entries that the leader took before this call.

        Raises:
            StoreError: if the database does not answer.
        """
        self._asked += 1
        mine = self._asked
        async with self._lock:
            # Whoever asked before a look began shares it: strangers who name invented tasks cost one look at a time.
            if self._seen >= mine:
                return
            now = self._asked
            await self._take_new()
            self._seen = now

    async def page(self, first: int) -> FeedPage:
        """Return entries of the feed from a number on, with those that the leader took just now.

        Raises:
            Refusal: NOT_READY, if the caller has entries that this front end cannot look for now; UNKNOWN_TASK, if the
                leader took no entry.
        """
        try:
            await self.look()
        except StoreError as error:
            # An earlier page would look like an older copy of the feed.
            if first > self.pages.count:
                raise unavailable(error) from error
        if not self.pages.count:
            raise no_feed()
        return await self.pages.page(first)

    async def _take_new(self) -> None:
        try:
            for document in await self._documents(self.feed.position.number):
                entry = FeedEntry.decode(document)
                after = self.feed.with_entry(entry)
                task = entry.check(self._parties)
                self.feed = after
                self._take(entry, task)
                self.pages.add(entry)
        except StoreError:
            raise
        except HubbubError as error:
            text = f"the feed is not followed: what the leader took of it is not in order: {error}"
            self._incidents.open(_EVENT, IncidentKind.FEED, _EVENT, text, error)
        else:
            self._incidents.resolve(_EVENT)

    def _take(self, entry: FeedEntry, task: Task | None) -> None:
        known = self._tasks.get(entry.task_id)
        if task is not None and known is None:
            known = self._able(task)
        if entry.after is not None:
            self._incidents.resolve((_EVENT, entry.task_id))
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
            return None
        return task
