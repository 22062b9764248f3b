"""The tasks of a running shuffler: those of its files, and what the feed publishes and ends while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from hubbub.accountant.errors import AccountingError
from hubbub.protos.errors import TaskError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.feed import FeedEntry, FeedParties
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import KEPT, FeedFollower
from hubbub.service.runtime.task_files import check_one_way
from hubbub.shuffler.admit.device_ports import longest_envelope
from hubbub.shuffler.admit.mtls import check_devices
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.tasks import check_promise, warn_of


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
        self._longest: int | None = None

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
        await feed.start()
        # From here on the ports are open, with limits that follow from these tasks.
        self._longest = longest_envelope(self._tasks, live=True)
        async with feed.watched():
            yield feed

    def _check(self, entry: FeedEntry) -> None:
        """Check that this shuffler can run the task that an entry publishes.

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
        ways = {each.name: each.identities.hops for each in self._tasks.values()}
        check_one_way({**ways, task.name: task.identities.hops}, "analyzer")
        check_devices(self._settings, {task.id: task})
        if self._longest is not None and task.outer_bytes > self._longest:
            raise TaskError(
                f"submissions of task {task.name} have {task.outer_bytes} bytes, and the open ports take at most "
                f"{self._longest}; restart the shuffler, which then takes the task"
            )

    async def _take(self, entry: FeedEntry) -> None:
        known = self._tasks.get(entry.task_id)
        if entry.signed is not None and known is None and self._parties is not None:
            who = self._parties
            known = entry.signed.check(who.operator, who.shuffler, who.successions, Role.SHUFFLER)
            self._signed[known.id] = replace(entry.signed, task=known)
            warn_of(known)
        if known is not None:
            self._tasks[known.id] = known if entry.after is None else replace(known, ends_after=entry.after)
            await self._rounds.changed(known.id)
