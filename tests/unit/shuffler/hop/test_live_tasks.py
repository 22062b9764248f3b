"""A running hop takes tasks by its feed, which it does not sign, and makes no keys for rounds after the end of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.hop.test_server import Deployment
from unit.shuffler.test_live_tasks import Publisher

from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.task import Task
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.feed_follower import FeedFollower
from hubbub.shuffler.hop.live_tasks import HopLiveTasks
from hubbub.shuffler.hop.sqlite import HopSqliteStore
from support.messages import DIFFERENT_WAYS
from support.patience import pause
from support.samples import Parties, sample_task


class FollowingHop:
    """A hop that follows a feed, and begins anew as after a restart."""

    def __init__(self, folder: Path) -> None:
        self.parties, self.folder = Parties.generate(1), folder
        self.publisher = Publisher(folder / "feed", self.parties)
        HopSqliteStore.create(folder / "data")
        self.store = HopSqliteStore(folder / "data")
        self.incidents, self.tasks = Incidents(), dict[bytes, Task]()

    @property
    def trouble(self) -> str:
        found = self.incidents.of("feed")
        return "" if found is None else found.text

    async def begin(self, *of_files: Task) -> FeedFollower:
        self.incidents, self.tasks = Incidents(), {each.id: each for each in of_files}
        await self.store.add_tasks(of_files)
        trusted = FeedParties(self.parties.operator.public, self.parties.shuffler.public)
        live = HopLiveTasks(self.tasks, self.store, trusted, self.parties.hops[0].public)
        follower = await live.feed(self.publisher.folder, self.folder / "data", self.incidents)
        assert follower is not None
        return follower

    def task(self, name: str) -> Task:
        return sample_task(self.parties, name=name)

    def elsewhere(self, name: str) -> Task:
        """A task that goes on from this hop to another one."""
        behind = replace(self.parties.public, hops=(*self.parties.public.hops, Parties.generate().shuffler.public))
        return replace(sample_task(self.parties, name=name), identities=behind)


@pytest.fixture
def hop(tmp_path: Path) -> Iterator[FollowingHop]:
    made = FollowingHop(tmp_path)
    yield made
    made.store.close()


async def test_a_task_goes_live_and_ends_without_a_restart(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    (tmp_path / "tasks" / "flights.json").unlink()
    publisher = Publisher(tmp_path / "feed", deployment.parties)
    settings = deployment.settings().model_copy(update={"feed": publisher.folder})

    async def refused_with(address: str, reason: Reason) -> None:
        while True:
            with pytest.raises(Refusal) as refused:
                await deployment.get_key(address, deployment.task.id)
            if refused.value.reason is reason:
                return
            await pause()

    async with deployment.running(settings) as addresses:
        await refused_with(addresses["delivery"], Reason.UNKNOWN_TASK)
        publisher.publish(deployment.task)
        await refused_with(addresses["delivery"], Reason.NOT_READY)  # nobody is behind it
        publisher.end(deployment.task, -1)
        await refused_with(addresses["delivery"], Reason.TASK_ENDED)
    # From what it took, though the folder has an older copy.
    for path in publisher.folder.iterdir():
        path.unlink()
    async with deployment.running(settings) as addresses:
        with pytest.raises(Refusal) as refused:
            await deployment.get_key(addresses["delivery"], deployment.task.id)
        assert refused.value.reason is Reason.TASK_ENDED


async def test_a_task_of_another_hop_is_refused_until_it_is_withdrawn(hop: FollowingHop) -> None:
    others = replace(hop.parties.public, hops=(Parties.generate().shuffler.public,))
    wrong = replace(hop.task("wrong"), identities=others)
    hop.publisher.publish(wrong)
    follower = await hop.begin()
    assert "cannot be taken here" in hop.trouble
    assert "tasks end FEED wrong --after -1" in hop.trouble
    hop.publisher.end(wrong, -1)
    hop.publisher.publish(right := hop.task("right"))
    await follower.look()
    assert (hop.trouble, list(hop.tasks)) == ("", [right.id])
    await hop.begin()
    assert (hop.trouble, list(hop.tasks)) == ("", [right.id])


async def test_a_withdrawn_task_of_another_way_never_stops_a_start(hop: FollowingHop) -> None:
    of_a_file, wrong, later = hop.task("file"), hop.elsewhere("wrong"), hop.task("later")
    hop.publisher.publish(wrong)
    hop.publisher.end(wrong, -1)
    hop.publisher.publish(later)
    await hop.begin(of_a_file)
    assert (hop.trouble, set(hop.tasks)) == ("", {of_a_file.id, later.id})
    # Without the file nothing tells that the first task takes another way.
    await hop.begin()
    assert (hop.trouble, hop.tasks[later.id]) == ("", later)


async def test_tasks_of_two_ways_are_refused(hop: FollowingHop) -> None:
    hop.publisher.publish(hop.task("first"))
    hop.publisher.publish(hop.elsewhere("second"))
    await hop.begin()
    assert DIFFERENT_WAYS in hop.trouble
    assert len(hop.tasks) == 1


def test_an_entry_needs_no_signature_of_a_hop(hop: FollowingHop) -> None:
    entry: FeedEntry = hop.publisher.publish(hop.task("first"))
    trusted = FeedParties(hop.parties.operator.public, hop.parties.shuffler.public)
    assert entry.check(trusted) is not None
    assert entry.missing == []
    with pytest.raises(HubbubError):
        Feed().publishing(entry.signed).signed_by(hop.parties.hops[0])  # type: ignore[arg-type]
