"""The tasks of a running shuffler: those of its files, and what the feed publishes and ends while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from hubbub.accountant.errors import AccountingError
from hubbub.protos.errors import TaskError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import FeedFollower
from hubbub.service.runtime.kept_feed import KeptFeed
from hubbub.service.runtime.live_feed import LiveFeed, as_ended
from hubbub.service.runtime.task_files import check_one_way
from hubbub.shuffler.admit.device_ports import check_length, longest_envelope
from hubbub.shuffler.admit.handler import Pages
from hubbub.shuffler.admit.mtls import check_devices
from hubbub.shuffler.feed_pages import FeedPages
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.stores.factory import taken_of_feed
from hubbub.shuffler.tasks import Tasks, check_promise, warn_of
from hubbub.shuffler.workers.live_feed import FeedServer
from hubbub.shuffler.workers.store_server import StoreServer
from hubbub.shuffler.workers.supervisor import WorkerSupervisor


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
        self._feed = LiveFeed()
        self._longest: int | None = None
        self._pages = FeedPages()
        self._tell: Callable[[Task], Awaitable[None]] = _nobody

    def shared_with(self, workers: WorkerSupervisor | None, server: StoreServer) -> ShufflerLiveTasks:
        """Tell workers, if there are any, of each task that changes, and answer what they ask about the feed."""
        if workers is not None and self.pages is not None:
            self._tell = workers.tell_task
            server.with_feed(FeedServer(self._tasks, self.pages))
        return self

    @contextlib.asynccontextmanager
    async def followed(
        self, kept: KeptFeed, parties: FeedParties, incidents: Incidents
    ) -> AsyncIterator[FeedFollower | None]:
        """Take what the feed has, and during the block what it gets; without a feed in the settings, do nothing.

        `kept` has what was taken before, also by another leader of the same store.

        Raises:
            TaskError: if the entries that were taken before cannot be used.
        """
        self._parties = parties
        self._pages.successions = parties.successions
        feed = await self._feed.start(
            *(self._settings.feed, kept, parties, incidents), check=self._check, take=self._take
        )
        if feed is None:
            yield None
            return
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
        others = self._feed.beside(feed, self._tasks.values())
        check_one_way([(each.name, each.identities.hops) for each in (*others, task)], "analyzer")
        check_devices(self._settings, {task.id: task})
        if self._longest is not None:
            check_length(task, self._longest)

    @property
    def pages(self) -> Pages | None:
        """What devices get of the feed; None without one in the settings."""
        return None if self._settings.feed is None else self._pages.page

    async def _take(self, entry: FeedEntry) -> None:
        # Devices get the entries of a task that is not run, too: later ones follow them.
        if not self._feed.is_withdrawn(entry.task_id):
            await self._run(entry)
        self._pages.add(entry)

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
        self._tasks[known.id] = as_ended(known, entry)
        await self._tell(self._tasks[known.id])
        await self._rounds.changed(known.id)


def taken_before(settings: ShufflerSettings, parties: FeedParties) -> Tasks:
    """Return the tasks that a shuffler took of its feed until now, for a command while the service is stopped.

    Raises:
        FeedError: if the kept entries cannot be used.
    """
    if settings.feed is None:
        return {}
    return _tasks_of(taken_of_feed(settings, parties), parties)


def taken_by_leader(settings: ShufflerSettings, parties: FeedParties) -> Tasks:
    """Return the tasks that the leader took of its feed, each with its end, for a standby that may go on with them.

    Raises:
        HubbubError: if what the leader took cannot be read, or this process could not go on with it.
    """
    feed = taken_of_feed(settings, parties)
    if settings.feed is None and feed.entries:
        raise TaskError(
            f"the leader has taken {len(feed.entries)} entries of a feed of tasks, and `feed` is empty here; name a "
            "folder with the same feed in the settings, and restart this process"
        )
    ends = feed.ends
    tasks = _tasks_of(feed, parties)
    # One that was withdrawn is not run, so nothing of it is needed here.
    check_devices(settings, {key: task for key, task in tasks.items() if ends.get(key) != -1})
    return {key: replace(task, ends_after=ends[key]) if key in ends else task for key, task in tasks.items()}


def _tasks_of(feed: Feed, parties: FeedParties) -> dict[bytes, Task]:
    return {entry.task_id: task for entry in feed.entries if (task := entry.check(parties)) is not None}
