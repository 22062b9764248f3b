"""Brings the feed to workers: tasks that are published and ended while they run, and the entries that devices ask for.

The main process follows the feed. A worker has each change before a round of it begins: it asks for all tasks once its
channel is open, and then confirms each one that it is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from hubbub.protos.identity.keys import Role
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.task.task import Task
from hubbub.shuffler.tasks import Tasks
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.handshake import task_document, task_of
from hubbub.shuffler.workers.ipc import Frame

Ask = Callable[[Frame, bytes], Awaitable[bytes]]
"""Asks the main process."""


def write_tasks(tasks: Iterable[Task]) -> bytes:
    """Encode tasks, each with the round that ends it."""
    return codec.write_document({"tasks": [task_document(each) for each in tasks]})


def read_tasks(payload: bytes, known: dict[Role, bytes]) -> dict[bytes, Task]:
    """Decode tasks, by their ids; `known` has the identities of operator and shuffler."""
    tasks = [task_of(each, known) for each in codec.read_document(payload)["tasks"]]
    return {task.id: task for task in tasks}


def write_page(page: FeedPage) -> bytes:
    """Encode entries of the feed."""
    return codec.write_document(
        {
            "entries": [each.decode() for each in page.entries],
            "successions": [each.decode() for each in page.successions],
        }
    )


def read_page(payload: bytes) -> FeedPage:
    """Decode entries of the feed."""
    content = codec.read_document(payload)
    entries, successions = ([each.encode() for each in content[name]] for name in ("entries", "successions"))
    return FeedPage(tuple(entries), tuple(successions))


class FeedServer:
    """Answers workers about the feed; `pages` returns entries from a number on."""

    def __init__(self, tasks: Tasks, pages: Callable[[int], Awaitable[FeedPage]]) -> None:
        self._tasks, self._pages = tasks, pages

    async def tasks(self, _payload: bytes) -> bytes:
        """Return all tasks."""
        return write_tasks(self._tasks.values())

    async def page(self, payload: bytes) -> bytes:
        """Return entries from the number on that a worker names."""
        return write_page(await self._pages(int.from_bytes(payload, "big")))


class RemoteFeed:
    """The feed of a worker, whose `tasks` it changes in place; `ask` asks the main process."""

    def __init__(self, tasks: dict[bytes, Task], known: dict[Role, bytes], ask: Ask) -> None:
        self._tasks, self._known, self._ask = tasks, known, ask

    async def start(self) -> None:
        """Take the tasks as they are now: one may have changed since this process got its start data."""
        self.take(await self._ask(Frame.TASKS, b""))

    def take(self, payload: bytes) -> None:
        """Take tasks that were published or ended."""
        self._tasks.update(read_tasks(payload, self._known))

    async def page(self, first: int) -> FeedPage:
        """Return entries of the feed from a number on."""
        return read_page(await self._ask(Frame.FEED, first.to_bytes(4, "big")))
