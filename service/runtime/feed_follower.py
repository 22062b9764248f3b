"""Follows the feed of tasks of a running service: takes new entries in order, and keeps a copy of what was taken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import structlog

from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.task.feed.entry import FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import Stamp, read_entries, stamp_of, with_checked
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.runtime.kept_feed import KeptFeed

LOOK_SECONDS = 1.0
"""How often the folder is looked at for new entries."""

LOOKS = 15
"""Looks after which an unchanged folder is read again, if the machine or the store refused to read or keep an entry."""

INCIDENT = "feed"
"""The key of the incident that the feed cannot be followed."""

_LOG = structlog.get_logger(__name__)


class FeedFollower:
    """The feed of a service: the entries that it has taken, and those of the folder that its settings name.

    Whatever is wrong with the folder changes nothing: it is an incident, and the service goes on with what it has
    taken. That is `kept`, so that an older copy of the feed is noticed after a restart, too.

    An entry may be right for everybody but this service, which cannot run its task. It stays, as others took it. Once
    a later entry ends that task before its first round, the task is withdrawn: this service takes both entries without
    the task, and goes on.
    """

    def __init__(
        self,
        folder: Path,
        kept: KeptFeed,
        parties: FeedParties,
        incidents: Incidents,
        *,
        check: Callable[[Feed, FeedEntry], None],
        take: Callable[[FeedEntry], Awaitable[None]],
    ) -> None:
        """`check` raises a HubbubError if the service cannot do what a signed entry says; `take` does it.

        `check` gets the feed before the entry, too, which may be ahead of what was taken. It runs in a thread. `take`
        is called again if it fails, and may be called for what is done already. It is called for a withdrawn task, too.
        Both ask `withdrawn`.
        """
        self.feed = Feed()
        self._folder, self._kept, self._parties, self._incidents = folder, kept, parties, incidents
        self._check, self._take = check, take
        self._seen: Stamp | None = None
        self._looks, self._by_machine = 0, False
        self._failure: Exception | None = None
        self._waiting: list[FeedEntry] = []
        self._withdrawn = set[bytes]()

    def withdrawn(self, task_id: bytes) -> bool:
        """Return whether this service cannot run a task, and the feed ended it before its first round."""
        return task_id in self._withdrawn

    async def start(self) -> None:
        """Take the kept entries, then the new ones.

        Raises:
            TaskError: if the kept entries cannot be used, or their folder is that of the settings.
        """
        self._kept.check_apart(self._folder)
        self.feed = await asyncio.to_thread(self._read_kept)
        for entry in self.feed.entries:
            await self._take(entry)
        await self.look()

    def _read_kept(self) -> Feed:
        try:
            feed = self._kept.read(self._parties)
            # After a kill between a withdrawn task's entry and its end, only the folder of the settings has the end.
            ahead = self._ahead(feed)[0]
            for entry in feed.entries:
                # As when it was taken: beside the entries before it, and not beside a task that was withdrawn later.
                self._check_or_withdraw(Feed(feed.entries[: entry.number - 1]), entry, ahead)
        except HubbubError as error:
            raise TaskError(f"what was taken of the feed cannot be used: {error}") from error
        return feed

    async def look(self) -> None:
        """Take the entries that are new since the last look."""
        if not self._waiting:
            await asyncio.to_thread(self._read_new)
        failure = self._failure
        try:
            while self._waiting:
                entry = self._waiting[0]
                await self._take(entry)
                self._waiting.pop(0)
                _LOG.info("feed entry taken", number=entry.number, action=entry.body["action"], task=self._name(entry))
        except Exception as error:
            # Any error: without this loop no later entry would be taken, and nobody would know.
            failure = error
        if failure is None:
            self._incidents.resolve(INCIDENT)
        else:
            text = f"the feed is not followed: {failure}; meanwhile the service goes on with the tasks that it has"
            self._incidents.open(INCIDENT, IncidentKind.FEED, "feed not followed", text, failure)

    def _read_new(self) -> None:
        """Check and keep the entries that are new; remember why one cannot be taken until the folder changes."""
        stamp = None
        try:
            stamp = stamp_of(self._folder)
            self._looks += 1
            if stamp == self._seen and not (self._by_machine and self._looks >= LOOKS):
                return
            self._looks, self._by_machine, self._failure = 0, False, None
            ahead, failure = self._ahead(self.feed)
            for entry in ahead.entries[self.feed.position.number :]:
                self._check_or_withdraw(self.feed, entry, ahead)
                # Kept before it is taken: after a kill in between, the next start takes it.
                self._kept.add(entry)
                self.feed = self.feed.with_entry(entry)
                self._waiting.append(entry)
            if failure is not None:
                raise failure
            self._seen = stamp
        except Exception as error:
            # Any error, as in `look`.
            self._failure = error
            # The stamp of before the reading: a file that has become whole meanwhile is read again.
            self._seen = stamp
            # Such as a full disk: it may succeed although the folder is unchanged.
            self._by_machine = isinstance(error, StoreError) or isinstance(error.__cause__, OSError)

    def _ahead(self, feed: Feed) -> tuple[Feed, HubbubError | None]:
        """Return the feed with the entries of the folder that are in order and signed, and why there are no more."""
        try:
            for entry in read_entries(self._folder, feed):
                feed = with_checked(self._folder, feed, entry, self._parties)
        except HubbubError as error:
            return feed, error
        return feed, None

    def _check_or_withdraw(self, feed: Feed, entry: FeedEntry, ahead: Feed) -> None:
        """Check that this service can do what an entry says, or that the feed that is `ahead` withdraws its task.

        Raises:
            FeedError: if neither is so, saying how to go on.
        """
        try:
            self._check(feed, entry)
        except HubbubError as error:
            last = ahead.ends.get(entry.task_id)
            if last != -1:
                name = ahead.published[entry.task_id].task.name
                # An end is final: a task that ended after a round cannot be withdrawn any more.
                remedy = (
                    f": end its task by `hubbub tasks end FEED {name} --after -1`, and publish a corrected one"
                    if last is None
                    else f", as does the end of its task after round {last}; change here what the reason names, and "
                    "restart this service, or begin a new deployment"
                )
                raise FeedError(
                    f"{entry.name} cannot be taken here: {error}. Both parties signed it, so it stays{remedy}"
                ) from error
            self._withdrawn.add(entry.task_id)

    def _name(self, entry: FeedEntry) -> str:
        return self.feed.published[entry.task_id].task.name

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """During the block, look for new entries every second."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self.look()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


@contextlib.asynccontextmanager
async def watched(feed: FeedFollower | None) -> AsyncIterator[None]:
    """During the block, look for new entries of a feed, if there is one."""
    if feed is None:
        yield
        return
    async with feed.watched():
        yield
