"""The tasks of a running hop: those of its files, and what the feed publishes and ends while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.task.two_signed import not_named
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import FeedFollower
from hubbub.service.runtime.kept_feed import KEPT, FolderFeed
from hubbub.service.runtime.live_feed import LiveFeed, as_ended
from hubbub.service.runtime.task_files import check_one_way, read_tasks
from hubbub.shuffler.hop.store import HopStore


class HopLiveTasks:
    """Changes the `tasks` of a running hop in place: every part of it has the same mapping.

    `parties` sign tasks and entries; the hop signs neither. It makes keys for the rounds of a task that the feed
    publishes. It makes none for a round after the one with which the feed ends the task. What has keys is still passed
    on.
    """

    def __init__(self, tasks: dict[bytes, Task], store: HopStore, parties: FeedParties, hop: bytes) -> None:
        self._tasks, self._store, self._parties, self._hop = tasks, store, parties, hop
        self._feed = LiveFeed()

    async def feed(self, folder: Path | None, data: Path, incidents: Incidents) -> FeedFollower | None:
        """Take what the feed in a folder has, and return its follower; None without one. `data` is the store's folder.

        Raises:
            TaskError: if the entries that were taken before cannot be used.
        """
        kept = FolderFeed(data / KEPT)
        return await self._feed.start(folder, kept, self._parties, incidents, check=self._check, take=self._take)

    def _check(self, feed: Feed, entry: FeedEntry) -> None:
        """Check that a published task names this hop, and goes on to the same party as those of the feed until then.

        Raises:
            HubbubError: if it does not.
        """
        if entry.signed is None or entry.task_id in self._tasks:
            return
        task = checked(entry.signed, self._parties, self._hop)
        check_same_way([*self._feed.beside(feed, self._tasks.values()), task], self._hop)

    async def _take(self, entry: FeedEntry) -> None:
        if self._feed.is_withdrawn(entry.task_id):
            return
        known = self._tasks.get(entry.task_id)
        if entry.signed is not None and known is None:
            known = checked(entry.signed, self._parties, self._hop)
            await self._store.add_tasks([known])
        if known is not None:
            self._tasks[known.id] = as_ended(known, entry)


def load_tasks(
    paths: Iterable[Path], parties: FeedParties, hop: bytes, *, any_number: bool = False
) -> dict[bytes, Task]:
    """Return the tasks in those files and folders (`*.json`), by id, that these parties signed and that name the hop.

    With `any_number` there may be none.

    Raises:
        TaskError: if a file contains another task, if tasks name different hops behind this one, or if there is no
            task at all.
    """

    def check(signed: SignedTask) -> Task:
        return checked(signed, parties, hop)

    found = read_tasks(paths, check, any_number=any_number)
    tasks = {task_id: check(signed) for task_id, signed in found.items()}
    check_same_way(tasks.values(), hop)
    return tasks


def checked(signed: SignedTask, parties: FeedParties, hop: bytes) -> Task:
    """Return a task that these parties signed and that names the hop.

    Raises:
        SignatureError: if it is not signed so, or names other hops.
    """
    task = signed.check(parties.operator, parties.shuffler, parties.successions)
    if hop not in task.identities.hops:
        raise SignatureError(
            f"{not_named(Role.HOP, hop, *task.identities.hops)}. If it is right that the task does not name this "
            "hop, remove the file here, and from the shuffler before it"
        )
    return task


def check_same_way(tasks: Iterable[Task], hop: bytes) -> None:
    """Return only if all tasks go on from the hop to the same parties.

    Raises:
        TaskError: if they do not.
    """
    check_one_way([(task.name, _behind(task, hop)) for task in tasks], "next")


def _behind(task: Task, hop: bytes) -> Sequence[bytes]:
    """Return the identities of the task's hops behind this one."""
    return task.identities.hops[task.identities.hops.index(hop) + 1 :]
