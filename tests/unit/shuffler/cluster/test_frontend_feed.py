"""A front end takes what its leader took of the feed, before it refuses a task as unknown."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from unit.service.runtime.test_feed_follower import PARTIES, TASKS, TRUSTED, both, feed_of

from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError, StoreFault
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.cluster.frontend_feed import FrontendFeed

FIRST, SECOND = TASKS[0].task, TASKS[1].task


class AwayError(StoreError):
    fault = StoreFault.DATABASE


class Database:
    """What the leader took, and how often it was asked for."""

    def __init__(self, feed: Feed) -> None:
        self.feed, self.asked, self.away, self.looked = feed, 0, False, asyncio.Event()
        self.broken_off, self.answers = 0, asyncio.Event()
        self.answers.set()

    async def documents(self, number: int, known: bytes) -> list[bytes]:
        self.asked += 1
        self.looked.set()
        try:
            await asyncio.sleep(0)
            await self.answers.wait()
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        if self.away:
            raise AwayError("the server is away")
        found = [entry.encode() for entry in self.feed.entries if entry.number >= number]
        return [b"" if hashlib.sha256(each).digest() == known else each for each in found]


class Frontend:
    """A front end whose leader took nothing at first; it cannot answer for the tasks of the names in `unable`."""

    def __init__(self) -> None:
        self.database, self.tasks, self.unable = Database(Feed()), dict[bytes, Task](), set[str]()
        self.incidents = Incidents()
        self.feed = FrontendFeed(self.tasks, TRUSTED, self.database.documents, self._check, self.incidents)

    def _check(self, task: Task) -> None:
        if task.name in self.unable:
            raise HubbubError(f"task {task.name} needs another port")

    async def first_entry(self) -> int:
        return len((await self.feed.page(1)).entries)


@pytest.fixture
def frontend() -> Frontend:
    return Frontend()


async def test_it_takes_tasks_and_ends_once_and_in_order(frontend: Frontend) -> None:
    frontend.database.feed = feed_of(0)
    await frontend.feed.look()
    assert frontend.tasks == {FIRST.id: FIRST}
    frontend.database.feed = feed = _ended(feed_of(0, 1), 0, 1)
    for _ in range(2):
        await frontend.feed.look()
    assert [each.ends_after for each in frontend.tasks.values()] == [1, None]
    assert (frontend.feed.feed, await frontend.first_entry()) == (feed, 3)
    assert not frontend.incidents.active()


async def test_who_asks_while_a_look_is_under_way_waits_for_the_next_one_and_shares_it(frontend: Frontend) -> None:
    looking = asyncio.create_task(frontend.feed.look())
    await frontend.database.looked.wait()
    waiting = [asyncio.create_task(frontend.feed.look()) for _ in range(50)]
    frontend.database.feed = feed_of(0)
    await asyncio.gather(looking, *waiting)
    # One look for the first, and one for all who waited.
    assert (frontend.database.asked, list(frontend.tasks)) == (2, [FIRST.id])


async def test_strangers_who_hang_up_leave_one_look_and_begin_no_other(frontend: Frontend) -> None:
    frontend.database.answers.clear()
    for _ in range(20):
        asking = asyncio.create_task(frontend.feed.look())
        # The look is under way by then, also where each begins one.
        for _ in range(5):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    frontend.database.feed = feed_of(0)
    frontend.database.answers.set()
    await frontend.feed.look()
    # That which they all shared, and one that began after the leader took the entry.
    assert (frontend.database.broken_off, frontend.database.asked) == (0, 2)
    assert list(frontend.tasks) == [FIRST.id]


async def test_all_who_wait_learn_at_once_that_the_database_does_not_answer(frontend: Frontend) -> None:
    frontend.database.answers.clear()
    waiting = [asyncio.create_task(frontend.feed.look()) for _ in range(50)]
    await frontend.database.looked.wait()
    frontend.database.away = True
    frontend.database.answers.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert ({type(each) for each in found}, frontend.database.asked) == ({AwayError}, 1)
    frontend.database.away = False
    await frontend.feed.look()


async def test_an_older_copy_of_the_database_is_an_incident_until_the_leader_has_taken_all_again(
    frontend: Frontend,
) -> None:
    frontend.database.feed = feed_of(0, 1)
    await frontend.feed.look()
    frontend.database.feed = feed_of(0)
    await frontend.feed.look()
    (text,) = [incident.text for _, _, incident in frontend.incidents.active()]
    assert "the database lacks entry 2, which was taken before" in text
    assert (list(frontend.tasks), await frontend.first_entry()) == ([FIRST.id, SECOND.id], 2)
    frontend.database.feed = _ended(feed_of(0, 1), 0, 1)
    await frontend.feed.look()
    assert (frontend.feed.feed, frontend.incidents.active()) == (frontend.database.feed, [])


async def test_other_entries_in_an_older_copy_of_the_database_are_never_mixed_with_those_before(
    frontend: Frontend,
) -> None:
    frontend.database.feed = feed_of(0, 1)
    await frontend.feed.look()
    frontend.database.feed = _ended(feed_of(0), 0, 1)
    await frontend.feed.look()
    (text,) = [incident.text for _, _, incident in frontend.incidents.active()]
    assert "the database has another entry 2 than the one that was taken before" in text
    # The database may have tasks that are not known here: a device asks another process for them, and for the feed.
    for asked in (frontend.feed.seek(bytes(32)), frontend.feed.page(3)):
        with pytest.raises(Refusal) as refused:
            await asked
        assert refused.value.reason is Reason.NOT_READY
    assert [each.ends_after for each in frontend.tasks.values()] == [None, None]


async def test_a_device_asks_again_for_a_task_that_only_others_can_answer_for(frontend: Frontend) -> None:
    frontend.unable.add(FIRST.name)
    frontend.database.feed = feed_of(0, 1)
    with pytest.raises(Refusal, match="though others may") as refused:
        await frontend.feed.seek(FIRST.id)
    assert refused.value.reason is Reason.NOT_READY
    for unknown in (bytes(32), SECOND.id):
        await frontend.feed.seek(unknown)
    # Nobody answers for a task that was withdrawn.
    frontend.database.feed = _ended(feed_of(0, 1), 0, -1)
    await frontend.feed.seek(FIRST.id)


async def test_what_is_not_in_order_is_an_incident_until_it_is(frontend: Frontend) -> None:
    frontend.database.feed = Feed((feed_of(0, 1).entries[1],))
    await frontend.feed.look()
    (text,) = [incident.text for _, _, incident in frontend.incidents.active()]
    assert text.startswith("the feed is not followed: what the leader took of it is not in order")
    assert frontend.incidents.count(IncidentKind.FEED) == 1
    frontend.database.feed = Feed((Feed().publishing(TASKS[0]).signed_by(PARTIES.operator),))
    await frontend.feed.look()
    assert frontend.tasks == {}
    frontend.database.feed = feed_of(0, 1)
    await frontend.feed.look()
    assert (list(frontend.tasks), frontend.incidents.active()) == ([FIRST.id, SECOND.id], [])


async def test_a_task_that_it_cannot_answer_for_is_an_incident_and_the_feed_goes_on(frontend: Frontend) -> None:
    frontend.unable.add(FIRST.name)
    frontend.database.feed = feed_of(0, 1)
    await frontend.feed.look()
    assert (list(frontend.tasks), await frontend.first_entry()) == ([SECOND.id], 2)
    (text,) = [incident.text for _, _, incident in frontend.incidents.active()]
    assert text == "this front end does not answer for a task of the feed: task first needs another port"
    frontend.database.feed = _ended(feed_of(0, 1), 0, -1)
    await frontend.feed.look()
    assert (list(frontend.tasks), frontend.incidents.active()) == ([SECOND.id], [])


async def test_devices_never_get_an_older_copy_of_the_feed_than_they_have(frontend: Frontend) -> None:
    with pytest.raises(Refusal, match="publishes no tasks by a feed"):
        await frontend.feed.page(1)
    frontend.database.feed = feed_of(0)
    assert await frontend.first_entry() == 1
    frontend.database.away = True
    assert await frontend.first_entry() == 1
    with pytest.raises(Refusal) as refused:
        await frontend.feed.page(2)
    assert refused.value.reason is Reason.NOT_READY
    frontend.database.feed, frontend.database.away = feed_of(0, 1), False
    assert len((await frontend.feed.page(2)).entries) == 1


async def test_a_task_is_looked_for_before_it_is_refused_as_unknown(frontend: Frontend) -> None:
    # A store that is not reached: each of these calls is answered before.
    admission = AdmissionHandler(
        frontend.tasks,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        lambda: 0.0,
        LoadShedder(10, 1.0),
        seek=frontend.feed.seek,
    )
    with pytest.raises(Refusal) as refused:
        await admission.get_round(FIRST.id, -1)
    assert refused.value.reason is Reason.UNKNOWN_TASK
    frontend.database.away = True
    with pytest.raises(Refusal) as refused:
        await admission.get_round(FIRST.id, -1)
    assert refused.value.reason is Reason.NOT_READY
    frontend.database.feed, frontend.database.away = feed_of(0), False
    with pytest.raises(Refusal) as refused:
        await admission.get_round(FIRST.id, -1)
    assert refused.value.reason is Reason.UNKNOWN_ROUND
    asked = frontend.database.asked
    with pytest.raises(Refusal, match="the task has rounds"):
        await admission.get_round(FIRST.id, -1)
    assert frontend.database.asked == asked


def _ended(feed: Feed, task: int, after: int) -> Feed:
    return feed.with_entry(both(feed.ending(TASKS[task].task.id, after)))
