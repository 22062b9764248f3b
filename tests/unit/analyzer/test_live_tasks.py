"""A running analyzer takes tasks by its feed, and makes no keys for rounds after the end of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.analyzer.test_server import Deployment, deliver, prepare, task_of

from hubbub.protos.messages import Committed
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import add_entry
from hubbub.protos.task.signed_task import SignedTask
from support.patience import CALL_SECONDS, pause
from support.samples import Parties, signed


def both(entry: FeedEntry, parties: Parties) -> FeedEntry:
    return entry.signed_by(parties.operator).signed_by(parties.shuffler)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """An analyzer without a task, and with an empty feed."""
    made = Deployment.make(tmp_path)
    (tmp_path / "tasks" / "flights.json").unlink()
    (tmp_path / "feed").mkdir()
    made.settings = made.settings.model_copy(update={"feed": tmp_path / "feed"})
    return made


async def test_a_task_goes_live_is_counted_and_ends_without_a_restart(deployment: Deployment) -> None:
    parties, folder = deployment.parties, deployment.settings.feed
    assert folder is not None
    task = task_of(parties)
    async with (
        deployment.running() as at,
        deployment.results(at["results"]) as reader,
        deployment.delivery(at["delivery"]) as caller,
    ):
        with pytest.raises(Refusal) as refused:
            await caller.get_key(task.id, 0, CALL_SECONDS)
        assert refused.value.reason is Reason.UNKNOWN_TASK
        assert str(refused.value).endswith("`tasks`, or its entry to the analyzer's `feed`")
        feed = Feed().with_entry(both(Feed().publishing(signed(task, parties)), parties))
        add_entry(folder, feed.entries[0])
        while not await reader.list_tasks(CALL_SECONDS):
            await pause()
        prepared = await prepare(deployment, caller)
        feed = feed.with_entry(both(feed.ending(task.id, -1), parties))
        add_entry(folder, feed.entries[1])
        # Entries are taken in order: once the third one is, so is the end.
        add_entry(folder, both(feed.publishing(signed(replace(task, name="later"), parties)), parties))
        while len(await reader.list_tasks(CALL_SECONDS)) < 2:
            await pause()
        # The key of a round that began is given out again, and no other is made.
        with pytest.raises(Refusal) as refused:
            await caller.get_key(task.id, 1, CALL_SECONDS)
        assert refused.value.reason is Reason.TASK_ENDED
        await caller.get_key(task.id, 0, CALL_SECONDS)
        # What was under way is still counted.
        assert await deliver(deployment, caller, prepared) == [Committed(30, {}), Committed(30, {})]
        results = await reader.get_results(task.id, 0, 30, CALL_SECONDS)
        assert results.id.round == 0
    for path in folder.iterdir():
        path.unlink()
    async with deployment.running() as at, deployment.delivery(at["delivery"]) as caller:
        with pytest.raises(Refusal) as refused:
            await caller.get_key(task.id, 2, CALL_SECONDS)
        assert refused.value.reason is Reason.TASK_ENDED


async def test_a_task_of_another_analyzer_is_refused_until_it_is_withdrawn(deployment: Deployment) -> None:
    parties, folder = deployment.parties, deployment.settings.feed
    assert folder is not None
    other = replace(task_of(parties), identities=replace(parties.public, analyzer=Parties.generate().analyzer.public))
    feed = Feed().with_entry(both(Feed().publishing(SignedTask(other)), parties))
    add_entry(folder, feed.entries[0])
    async with deployment.running() as at, deployment.results(at["results"]) as reader:
        (incident,) = (await reader.get_incidents(CALL_SECONDS)).incidents
        assert incident.kind == "feed"
        assert "names" in incident.text
        assert await reader.list_tasks(CALL_SECONDS) == []
        assert "hubbub tasks end FEED flights --after -1" in incident.text
        feed = feed.with_entry(both(feed.ending(other.id, -1), parties))
        feed = feed.with_entry(both(feed.publishing(signed(task_of(parties), parties)), parties))
        for entry in feed.entries[1:]:
            add_entry(folder, entry)
        while not await reader.list_tasks(CALL_SECONDS):
            await pause()
    async with deployment.running() as at, deployment.results(at["results"]) as reader:
        assert [each.name for each in await reader.list_tasks(CALL_SECONDS)] == ["flights"]
        assert (await reader.get_incidents(CALL_SECONDS)).incidents == ()
