"""The feed of a running service, for its own classes that change its tasks: what all of these begin with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from hubbub.protos.task.feed.budgets import PurposeSpending
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import FeedFollower
from hubbub.service.runtime.kept_feed import KeptFeed


class LiveFeed:
    """The feed of a service, for what changes its tasks. Until it is followed, nothing is withdrawn or spent."""

    def __init__(self) -> None:
        self._follower: FeedFollower | None = None

    async def start(
        self,
        folder: Path | None,
        kept: KeptFeed,
        parties: FeedParties,
        incidents: Incidents,
        *,
        check: Callable[[Feed, FeedEntry], None],
        take: Callable[[FeedEntry], Awaitable[None]],
    ) -> FeedFollower | None:
        """Take what the feed in a folder has, and return its follower; None without one. `kept` has what was taken.

        For `check` and `take`, see `FeedFollower`.

        Raises:
            TaskError: if the entries that were taken before cannot be used.
        """
        if folder is None:
            return None
        # Known before it starts: what it takes then asks what is withdrawn.
        self._follower = FeedFollower(folder, kept, parties, incidents, check=check, take=take)
        await self._follower.start()
        return self._follower

    def is_withdrawn(self, task_id: bytes) -> bool:
        """Return whether this service cannot run a task, and the feed ended it before its first round."""
        return self._follower is not None and self._follower.withdrawn(task_id)

    def beside(self, feed: Feed, tasks: Iterable[Task]) -> list[Task]:
        """Return the tasks beside which a new one runs: the service's `tasks`, and those that the feed has until then.

        Those that are withdrawn, or ended before their first round, are left out.
        """
        published = [each.task for each in feed.published.values() if not self.is_withdrawn(each.task.id)]
        return feed.that_may_run([*tasks, *published])

    def spending(self, task_id: bytes) -> PurposeSpending | None:
        """Return the spending of the purpose of a task; None if the feed names none for it."""
        every = {} if self._follower is None else self._follower.feed.spending
        return next((each for each in every.values() if task_id in each.tasks), None)


def as_ended(task: Task, entry: FeedEntry) -> Task:
    """Return a task with the end that an entry of the feed gives it; unchanged if it gives none."""
    return task if entry.after is None else replace(task, ends_after=entry.after)
