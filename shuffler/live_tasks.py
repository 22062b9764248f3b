"""The tasks of a running shuffler: those of its files, and what the feed publishes and ends while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from hubbub.accountant.errors import AccountingError
from hubbub.protos.errors import TaskError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.feed.feed import Feed, FeedEntry, FeedPage, FeedParties
from hubbub.protos.task.feed.files import feed_in
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import KEPT, FeedFollower
from hubbub.service.runtime.task_files import check_one_way
from hubbub.shuffler.admit.device_ports import longest_envelope
from hubbub.shuffler.admit.handler import Pages
from hubbub.shuffler.admit.mtls import check_devices
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.tasks import Tasks, check_promise, warn_of
from hubbub.shuffler.workers.live_feed import FeedServer
from hubbub.shuffler.workers.store_server import StoreServer
from hubbub.shuffler.workers.supervisor import WorkerSupervisor

PAGE_BYTES = 128 * 1024
"""Bytes of the entries in one answer, if there are more than `FEWEST`: anybody may ask for them, with a few bytes."""

FEWEST = 3
"""Entries in an answer at least, if there are as many; three of the longest fit into a message. A device that asks from
its last entry on sees the next one, and whether the one after that withdraws it."""


async def _nobody(_task: Task) -> None:
    """Tell nobody: this process alone answers devices."""


class ShufflerLiveTasks:
    """Changes the tasks of a running shuffler in place: every part of it has the same mappings.

    A task that the feed publishes begins with its next round. A task that the feed ends begins no more rounds, and
    those that began go on to their results.
    """

    def __init__(
        self,
        settings: ShufflerSettings,
        tasks: dict[bytes, Task],
        signed: dict[bytes, SignedTask],
        rounds: RoundLifecycle,
    ) -> None:
        self._settings, self._tasks, self._signed, self._rounds = settings, tasks, signed, rounds
        self._parties: FeedParties | None = None
        self._follower: FeedFollower | None = None
        self._longest: int | None = None
        self._documents: list[bytes] = []
        self._tell: Callable[[Task], Awaitable[None]] = _nobody

    def shared_with(self, workers: WorkerSupervisor | None, server: StoreServer) -> ShufflerLiveTasks:
        """Tell workers, if there are any, of each task that changes, and answer what they ask about the feed."""
        if workers is not None and self.pages is not None:
            self._tell = workers.tell_task
            server.with_feed(FeedServer(self._tasks, self.pages))
        return self

    @contextlib.asynccontextmanager
    async def followed(self, parties: FeedParties, incidents: Incidents) -> AsyncIterator[FeedFollower | None]:
        """Take what the feed has, and during the block what it gets; without a feed in the settings, do nothing.

        Raises:
            TaskError: if the entries that were taken before cannot be used.
        """
        if self._settings.feed is None:
            yield None
            return
        self._parties = parties
        kept = self._settings.data / KEPT
        feed = FeedFollower(self._settings.feed, kept, parties, incidents, check=self._check, take=self._take)
        self._follower = feed
        await feed.start()
        # From here on the ports are open, with limits that follow from these tasks.
        self._longest = longest_envelope(self._tasks, live=True)
        async with feed.watched():
            yield feed

    def _check(self, feed: Feed, entry: FeedEntry) -> None:
        """Check that this shuffler can run the task that an entry publishes, beside those of the feed until then.

        Raises:
            HubbubError: if it cannot, naming the reason.
        """
        if entry.signed is None or entry.task_id in self._tasks:
            return
        task = entry.signed.task
        try:
            check_promise(task)
        except AccountingError as error:
            raise TaskError(f"task {task.name}: {error}") from error
        published = [each.task for each in feed.published.values() if not self._is_withdrawn(each.task.id)]
        others = [*self._tasks.values(), *published]
        check_one_way([(each.name, each.identities.hops) for each in (*others, task)], "analyzer")
        check_devices(self._settings, {task.id: task})
        if self._longest is not None and task.outer_bytes > self._longest:
            raise TaskError(
                f"submissions of task {task.name} have {task.outer_bytes} bytes, and the open ports take at most "
                f"{self._longest}; restart the shuffler, which then takes the task"
            )

    @property
    def pages(self) -> Pages | None:
        """What devices get of the feed; None without one in the settings."""
        return None if self._settings.feed is None else self._page

    async def _page(self, first: int) -> FeedPage:
        """Return the entries that were taken, from a number on: all that have `PAGE_BYTES`, and at least three."""
        found, size = list[bytes](), 0
        for document in self._documents[max(0, first - 1) :]:
            size += len(document)
            # A device asks from the last entry that it has: with one entry alone it would not get on.
            if len(found) >= FEWEST and size > PAGE_BYTES:
                break
            found.append(document)
        successions = () if self._parties is None else self._parties.successions
        return FeedPage(tuple(found), tuple(each.encode() for each in successions))

    async def _take(self, entry: FeedEntry) -> None:
        # Devices get the entries of a task that is not run, too: later ones follow them.
        if not self._is_withdrawn(entry.task_id):
            await self._run(entry)
        # Last: a device that has the task may ask any process for it.
        if entry.number > len(self._documents):
            self._documents.append(entry.encode())

    def _is_withdrawn(self, task_id: bytes) -> bool:
        return self._follower is not None and self._follower.withdrawn(task_id)

    async def _run(self, entry: FeedEntry) -> None:
        known = self._tasks.get(entry.task_id)
        if entry.signed is not None and known is None and self._parties is not None:
            who = self._parties
            known = entry.signed.check(who.operator, who.shuffler, who.successions, Role.SHUFFLER)
            self._signed[known.id] = replace(entry.signed, task=known)
            warn_of(known)
        if known is None:
            return
        # First: a process that begins to answer devices meanwhile asks for the tasks as they are here.
        self._tasks[known.id] = known if entry.after is None else replace(known, ends_after=entry.after)
        await self._tell(self._tasks[known.id])
        await self._rounds.changed(known.id)


def taken_before(settings: ShufflerSettings, parties: FeedParties) -> Tasks:
    """Return the tasks that a shuffler took of its feed until now, for a command while the service is stopped.

    Raises:
        FeedError: if the kept entries cannot be used.
    """
    kept = settings.data / KEPT
    if settings.feed is None or not kept.is_dir():
        return {}
    return {entry.task_id: task for entry in feed_in(kept).entries if (task := entry.check(parties)) is not None}
