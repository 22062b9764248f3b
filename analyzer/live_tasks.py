"""The tasks of a running analyzer: those of its files, and what the feed publishes and ends while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.analyzer.tasks import check_task
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.feed.budgets import PurposeSpending
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import FeedFollower
from hubbub.service.runtime.kept_feed import KeptFeed
from hubbub.service.runtime.live_feed import LiveFeed, as_ended


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
        self._feed = LiveFeed()

    async def feed(self, folder: Path | None, kept: KeptFeed, incidents: Incidents) -> FeedFollower | None:
        """Take what the feed in a folder has, and return its follower; None without one. `kept` has what was taken.

        Raises:
            TaskError: if the entries that were taken before cannot be used.
        """
        trusted = FeedParties(self._parties.operator, self._parties.shuffler, self._successions)
        return await self._feed.start(folder, kept, trusted, incidents, check=self._check, take=self._take)

    def spending(self, task_id: bytes) -> PurposeSpending | None:
        """Return the spending of the purpose of a task; None if the feed names none for it."""
        return self._feed.spending(task_id)

    def _check(self, _feed: Feed, entry: FeedEntry) -> None:
        """Check that a published task names this analyzer.

        Raises:
            SignatureError: if it does not.
        """
        if entry.signed is not None:
            check_task(entry.signed, self._parties, self._successions)

    async def _take(self, entry: FeedEntry) -> None:
        if self._feed.is_withdrawn(entry.task_id):
            return
        known = self._tasks.get(entry.task_id)
        if entry.signed is not None and known is None:
            known = replace(entry.signed, task=check_task(entry.signed, self._parties, self._successions))
            await self._store.add_tasks([known])
        if known is not None:
            self._tasks[entry.task_id] = replace(known, task=as_ended(known.task, entry))
