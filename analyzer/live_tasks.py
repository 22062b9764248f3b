"""The tasks of a running analyzer: those of its files, and what the feed publishes and ends while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.analyzer.tasks import check_task
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.feed.budgets import PurposeSpending
from hubbub.protos.task.feed.feed import Feed, FeedEntry, FeedParties
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import FeedFollower
from hubbub.service.runtime.kept_feed import KeptFeed


class AnalyzerLiveTasks:
    """Changes the tasks of a running analyzer in place: every part of it has the same mapping.

    It makes keys for the rounds of a task that the feed publishes, and for no round after the one with which the feed
    ends a task. What was released of earlier rounds is still counted.
    """

    def __init__(
        self,
        tasks: dict[bytes, SignedTask],
        store: AnalyzerStore,
        parties: Identities,
        successions: Sequence[Succession],
    ) -> None:
        self._tasks, self._store, self._parties, self._successions = tasks, store, parties, successions
        self._follower: FeedFollower | None = None

    async def feed(self, folder: Path | None, kept: KeptFeed, incidents: Incidents) -> FeedFollower | None:
        """Take what the feed in a folder has, and return its follower; None without one. `kept` has what was taken.

        Raises:
            TaskError: if the entries that were taken before cannot be used.
        """
        if folder is None:
            return None
        trusted = FeedParties(self._parties.operator, self._parties.shuffler, self._successions)
        self._follower = FeedFollower(folder, kept, trusted, incidents, check=self._check, take=self._take)
        await self._follower.start()
        return self._follower

    def spending(self, task_id: bytes) -> PurposeSpending | None:
        """Return the spending of the purpose of a task; None if the feed names none for it."""
        every = {} if self._follower is None else self._follower.feed.spending
        return next((each for each in every.values() if task_id in each.tasks), None)

    def _check(self, _feed: Feed, entry: FeedEntry) -> None:
        """Check that a published task names this analyzer.

        Raises:
            SignatureError: if it does not.
        """
        if entry.signed is not None:
            check_task(entry.signed, self._parties, self._successions)

    async def _take(self, entry: FeedEntry) -> None:
        if self._follower is not None and self._follower.withdrawn(entry.task_id):
            return
        known = self._tasks.get(entry.task_id)
        if entry.signed is not None and known is None:
            known = replace(entry.signed, task=check_task(entry.signed, self._parties, self._successions))
            await self._store.add_tasks([known])
        if known is not None and entry.after is not None:
            known = replace(known, task=replace(known.task, ends_after=entry.after))
        if known is not None:
            self._tasks[entry.task_id] = known
