"""A running shuffler takes and ends tasks by its feed; other tasks, and rounds that began, go on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from unit.shuffler.test_server import Deployment, analyzer_at, channel, running, seal
from unit.shuffler.world import START, World

from hubbub.client import Device, NotLogged, TaskFeed
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.task.feed.entry import FeedEntry, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import add_entry
from hubbub.protos.task.schedule import Schedule, prepared_from
from hubbub.protos.task.task import Privacy, Task
from hubbub.protos.transport.channels import TLS
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.kept_feed import KEPT, FolderFeed
from hubbub.shuffler import feed_pages
from hubbub.shuffler.live_tasks import ShufflerLiveTasks
from hubbub.shuffler.records import Round, StoreError
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.server import own_tasks
from hubbub.shuffler.settings import ShufflerSettings, load
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.logged_tasks import demanding, proof_of
from support.messages import DIFFERENT_WAYS
from support.patience import CALL_SECONDS, pause, when_ready
from support.samples import Parties, sample_task, signed
from support.source_tree import ROOT


def both(entry: FeedEntry, parties: Parties) -> FeedEntry:
    return entry.signed_by(parties.operator).signed_by(parties.shuffler)


class Publisher:
    """The feed of a deployment."""

    def __init__(self, folder: Path, parties: Parties) -> None:
        folder.mkdir()
        self.folder, self.parties, self.feed = folder, parties, Feed()

    def publish(self, task: Task) -> FeedEntry:
        document = signed(task, self.parties)
        proof = None if task.log is None else proof_of(document.encode()).encode()
        return self._add(self.feed.publishing(document, log_proof=proof))

    def end(self, task: Task, after: int) -> FeedEntry:
        return self._add(self.feed.ending(task.id, after))

    def _add(self, entry: FeedEntry) -> FeedEntry:
        entry = both(entry, self.parties)
        self.feed = self.feed.with_entry(entry)
        add_entry(self.folder, entry)
        return entry


# In virtual time


@pytest.fixture
async def live(world: World, tmp_path: Path) -> tuple[World, ShufflerLiveTasks]:
    settings = load(ROOT / "deploy/samples/shuffler.toml").model_copy(update={"feed": tmp_path / "of the settings"})
    made = ShufflerLiveTasks(settings, world.tasks, {}, world.rounds)
    made._parties = FeedParties(world.parties.operator.public, world.parties.shuffler.public)
    return world, made


async def test_a_published_task_begins_with_its_round_and_the_first_goes_on(
    live: tuple[World, ShufflerLiveTasks],
) -> None:
    world, tasks = live
    submissions = await world.seal([(0, 0)] * 3)
    second = sample_task(world.parties, name="second", schedule=Schedule(START, length=3600, grace=60, rounds=3))
    await tasks._take(both(Feed().publishing(signed(second, world.parties)), world.parties))
    await world.until(lambda: (second.id, 0) in world.store._snapshot.rounds)
    answers = await world.admission.submit(await world.destination(), submissions)
    assert all(isinstance(answer, Receipt) for answer in answers)
    assert world.state is RoundState.OPEN


async def test_an_ended_task_s_open_round_is_released_and_no_other_begins(
    live: tuple[World, ShufflerLiveTasks],
) -> None:
    world, tasks = live
    feed = Feed((both(Feed().publishing(signed(world.task, world.parties)), world.parties),))
    before = await world.seal([(number % 3, number % 7) for number in range(30)])
    destination = await world.destination()
    await world.admission.submit(destination, before)
    # The feed ends the task while the round is open; the next one is prepared already.
    await world.until(lambda: world.found(1) is not None)
    await tasks._take(both(feed.ending(world.task.id, 0), world.parties))
    assert isinstance((await world.admission.submit(destination, before[:1]))[0], Receipt)
    with pytest.raises(Refusal, match="has ended after round 0") as refused:
        await world.admission.get_round(world.task.id, 1)
    assert refused.value.reason is Reason.TASK_ENDED
    status = {each.round: each.waiting_for for each in await world.control.get_status(world.task.id)}
    assert "its task has ended, and it takes nothing more" in status[1]
    await world.cut()
    await world.over(RoundState.ERASED)
    await world.cut(1)
    await world.until(lambda: getattr(world.found(1), "state", None) is RoundState.EXPIRED)
    await world.cut(2)
    with pytest.raises(Refusal) as refused:
        await world.admission.get_round(world.task.id, 2)
    assert refused.value.reason is Reason.TASK_ENDED
    assert world.found(2) is None
    assert len(world.analyzer.committed) == 2


async def test_a_round_that_was_open_beyond_the_end_still_keeps_its_word(live: tuple[World, ShufflerLiveTasks]) -> None:
    world, tasks = live
    feed = Feed((both(Feed().publishing(signed(world.task, world.parties)), world.parties),))
    submissions = await world.seal([(number % 3, number % 7) for number in range(31)])
    destination = await world.destination()
    await world.admission.submit(destination, submissions[:30])
    await tasks._take(both(feed.ending(world.task.id, -1), world.parties))
    answers = await world.admission.submit(destination, submissions)
    # Who has a receipt gets it again; who is new is told that the task has ended.
    assert all(isinstance(answer, Receipt) for answer in answers[:30])
    assert isinstance(answers[30], Refusal)
    assert answers[30].reason is Reason.TASK_ENDED
    assert "has ended before its first round" in answers[30].message
    await world.cut()
    await world.over(RoundState.ERASED)
    assert len(world.analyzer.committed) == 2


def test_a_task_that_cannot_run_here_is_refused(live: tuple[World, ShufflerLiveTasks]) -> None:
    world, tasks = live

    def refused(parties: Parties = world.parties, **changes: Any) -> str:
        task = replace(sample_task(world.parties, name="second"), **changes)
        with pytest.raises(HubbubError) as caught:
            tasks._check(Feed(), Feed().publishing(signed(task, parties)))
        return str(caught.value)

    hops = replace(world.parties.public, hops=(Parties.generate().shuffler.public,))
    assert DIFFERENT_WAYS in refused(identities=hops)
    # Also if it has the name of the one that runs.
    assert DIFFERENT_WAYS in refused(identities=hops, name=world.task.name)
    assert "task second: " in refused(privacy=Privacy(epsilon=0.001, delta=1e-9, epsilon_local=20.0))
    tasks._longest = 10
    assert "bytes, and the open ports take at most 10; restart this process" in refused()


def test_tasks_of_different_ways_are_refused_if_both_come_at_once(live: tuple[World, ShufflerLiveTasks]) -> None:
    world, tasks = live
    tasks._tasks = {}
    one = sample_task(world.parties, name="one")
    feed = Feed((both(Feed().publishing(signed(one, world.parties)), world.parties),))
    hops = replace(world.parties.public, hops=(Parties.generate().shuffler.public,))
    other = replace(sample_task(world.parties, name="other"), identities=hops)
    with pytest.raises(HubbubError, match=DIFFERENT_WAYS):
        tasks._check(feed, feed.publishing(signed(other, world.parties)))


async def test_a_round_that_got_no_keys_before_its_task_s_end_is_given_up_at_once(
    live: tuple[World, ShufflerLiveTasks],
) -> None:
    world, tasks = live
    feed = Feed((both(Feed().publishing(signed(world.task, world.parties)), world.parties),))

    def ended(_call: str) -> None:
        raise Refusal(Reason.TASK_ENDED, "the task has ended after round 1")

    # The analyzer has learned of the end first.
    world.analyzer.incident = ended
    world.clock.now = prepared_from(world.task.schedule, 2)
    world.rounds.timer.recheck()
    await world.until(lambda: world.found(2) is not None and bool(world.rounds.incidents.now()))
    await tasks._take(both(feed.ending(world.task.id, 1), world.parties))
    await world.until(lambda: getattr(world.found(2), "state", None) is RoundState.EXPIRED)
    assert getattr(world.found(2), "reason", "") == "its task ended before the round had keys"
    await world.until(lambda: not world.rounds.incidents.now())
    # The round before had keys, and goes on.
    assert getattr(world.found(1), "state", None) is RoundState.OPEN


async def test_an_end_is_an_end_of_the_incident_that_the_next_round_cannot_begin(
    live: tuple[World, ShufflerLiveTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, tasks = live
    feed = Feed((both(Feed().publishing(signed(world.task, world.parties)), world.parties),))

    async def fail(_store: ShufflerSqliteStore, _task_id: bytes, _number: int) -> Round:
        raise StoreError("no room")

    monkeypatch.setattr(ShufflerSqliteStore, "add_round", fail)
    world.clock.now = prepared_from(world.task.schedule, 2)
    world.rounds.timer.recheck()
    await world.until(lambda: world.rounds.cannot_begin(world.task))
    await tasks._take(both(feed.ending(world.task.id, 1), world.parties))
    await world.until(lambda: not world.rounds.cannot_begin(world.task))


# Over real sockets


@contextlib.asynccontextmanager
async def called(
    settings: ShufflerSettings, deployment: Deployment
) -> AsyncIterator[tuple[SubmissionCaller, ControlCaller]]:
    """A running shuffler, as devices and its operator call it."""
    devices, operator = TLS(deployment.tls["shuffler"].authority), deployment.tls["operator"]
    async with contextlib.AsyncExitStack() as stack:
        at = await stack.enter_async_context(running(settings))
        public = await stack.enter_async_context(channel(at["submission"], devices))
        own = await stack.enter_async_context(channel(at["control"], operator))
        yield SubmissionCaller(public), ControlCaller(own)


async def test_a_task_goes_live_and_ends_without_a_restart(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    publisher = Publisher(tmp_path / "feed", deployment.parties)
    first, second = deployment.task, replace(deployment.task, name="second")
    settings = deployment.settings("127.0.0.1:1").model_copy(update={"feed": publisher.folder})

    async def names(control: ControlCaller) -> list[str]:
        return [each.name for each in await control.list_tasks(CALL_SECONDS)]

    async with called(settings, deployment) as (caller, control):
        assert await names(control) == [first.name]
        publisher.publish(second)
        while await names(control) != sorted([first.name, second.name]):
            await pause()
        assert (await control.get_task(second.id, CALL_SECONDS)) == signed(second, deployment.parties)
        while second.id not in {each.task_id for each in await control.get_status(None, CALL_SECONDS)}:
            await pause()
        publisher.end(second, -1)

        async def ended() -> None:
            await caller.get_round(second.id, 0, CALL_SECONDS)

        with pytest.raises(Refusal) as refused:
            await when_ready(ended)
        assert refused.value.reason is Reason.TASK_ENDED
        with pytest.raises(Refusal) as refused:
            await caller.get_round(first.id, 0, CALL_SECONDS)
        assert refused.value.reason is Reason.NOT_READY  # the analyzer is away
    assert second.id in own_tasks(settings)[1]  # as `--give-up` reads them
    # The next start knows it, though the folder of the settings has an older copy.
    for path in publisher.folder.iterdir():
        path.unlink()
    async with called(settings, deployment) as (caller, control):
        with pytest.raises(Refusal) as refused:
            await caller.get_round(second.id, 0, CALL_SECONDS)
        assert refused.value.reason is Reason.TASK_ENDED
        (incident,) = [each for each in (await control.get_incidents(CALL_SECONDS)).incidents if each.kind == "feed"]
        assert "an older copy of the feed" in incident.text


async def test_a_shuffler_with_a_feed_starts_without_a_task_and_counts_its_first(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    (deployment.folder / "tasks" / "task.json").unlink()
    publisher = Publisher(tmp_path / "feed", deployment.parties)
    async with analyzer_at(deployment) as (name, analyzer):
        settings = deployment.settings(name).model_copy(update={"feed": publisher.folder})
        async with called(settings, deployment) as (caller, control):
            publisher.publish(deployment.task)
            while not await control.list_tasks(CALL_SECONDS):
                await pause()
            destination, submissions = await seal(caller, deployment.task, 60)
            answers = await caller.submit_batch(destination, submissions, CALL_SECONDS)
            assert all(isinstance(answer, Receipt) for answer in answers)
            publisher.end(deployment.task, 0)
            await control.close_round(deployment.task.id, 0, CALL_SECONDS)
            while (await control.get_status(None, CALL_SECONDS))[0].state is not RoundState.ERASED:
                await pause()
            assert sorted(analyzer.symbols(0)) == sorted(number % 3 for number in range(60))


async def test_a_device_fetches_its_logged_task_by_grpc_and_by_https_and_answers(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    deployment.task = demanding(deployment.task)
    parties = deployment.parties
    (deployment.folder / "tasks" / "task.json").unlink()
    publisher = Publisher(tmp_path / "feed", parties)
    publisher.publish(deployment.task)
    async with analyzer_at(deployment) as (name, _):
        changes = {"feed": publisher.folder, "https_listen": "127.0.0.1:0"}
        async with running(deployment.settings(name).model_copy(update=changes)) as at:
            trusted = {
                "operator_key": parties.operator.public,
                "shuffler_key": parties.shuffler.public,
                "authority": deployment.tls["shuffler"].authority,
            }
            for number, address in enumerate((at["submission"], f"https://{at['https']}")):
                feed = TaskFeed(allow={"flights"}, folder=tmp_path / f"taken-{number}", shuffler=address, **trusted)
                assert await feed.fetch() == 1
                state = tmp_path / f"device-{number}.db"
                (task,), (proof,) = feed.tasks().values(), feed.log_proofs().values()
                with pytest.raises(NotLogged):
                    Device(task, state=state, shuffler=address, **trusted)
                device = Device(task, log_proof=proof, state=state, shuffler=address, **trusted)
                async with device:
                    await when_ready(lambda device=device: device.submit({"carrier": "AA"}))  # type: ignore[misc]


async def test_the_page_s_application_ships_keys_and_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment(tmp_path)
    (tmp_path / "trust").mkdir()
    deployment.parties.operator.save_public(tmp_path / "trust" / "operator.pub.pem")
    deployment.parties.shuffler.save_public(tmp_path / "trust" / "shuffler.pub.pem")
    publisher = Publisher(tmp_path / "published", deployment.parties)
    publisher.publish(replace(deployment.task, name="colors"))
    publisher.publish(replace(deployment.task, name="not allowed"))
    (code,) = re.findall("```python\n(.*?)```", (ROOT / "docs/howto/publish-tasks.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    settings = deployment.settings("127.0.0.1:1").model_copy(update={"feed": publisher.folder})
    names: dict[str, Any] = {}
    async with running(settings) as at:
        await asyncio.to_thread(exec, code.replace("127.0.0.1:7301", at["submission"]), names)
    assert [device.task.name for device in names["devices"]] == ["colors"]


async def test_a_shuffler_without_a_feed_says_so(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    async with called(deployment.settings("127.0.0.1:1"), deployment) as (caller, _):
        with pytest.raises(Refusal, match="publishes no tasks by a feed") as refused:
            await caller.get_feed(1, CALL_SECONDS)
        assert refused.value.reason is Reason.UNKNOWN_TASK


async def test_devices_get_the_feed_in_pages(
    live: tuple[World, ShufflerLiveTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, tasks = live
    monkeypatch.setattr(feed_pages, "PAGE_BYTES", 1)
    feed = Feed()
    for number in range(4):
        feed = feed.with_entry(
            both(feed.publishing(signed(sample_task(world.parties, name=f"t{number}"), world.parties)), world.parties)
        )
    for entry in (*feed.entries, *feed.entries):
        await tasks._take(entry)  # the second time after a restart
    assert tasks.pages is not None
    documents = [entry.encode() for entry in feed.entries]
    pages = {first: list((await tasks.pages(first)).entries) for first in (0, 1, 3, 4, 5, 2**32 - 1)}
    assert pages == {0: documents[:3], 1: documents[:3], 3: documents[2:], 4: documents[3:], 5: [], 2**32 - 1: []}


async def test_a_withdrawn_task_is_not_run_and_devices_get_its_entries(
    live: tuple[World, ShufflerLiveTasks], tmp_path: Path
) -> None:
    world, tasks = live
    publisher = Publisher(tmp_path / "of the settings", world.parties)
    # No batch of two reports keeps its promise.
    wrong = sample_task(world.parties, name="wrong", minimum_reports=2, privacy=Privacy(0.1, 1e-9))
    right = sample_task(world.parties, name="right")
    tasks._settings = tasks._settings.model_copy(update={"data": tmp_path})
    incidents = Incidents()
    async with tasks.followed(FolderFeed(tmp_path / KEPT), FeedParties(*_public(world.parties)), incidents) as follower:
        assert follower is not None
        publisher.publish(wrong)
        await follower.look()
        assert follower.feed == Feed()
        publisher.end(wrong, -1)
        publisher.publish(right)
        await follower.look()
        assert (incidents.of("feed"), follower.feed) == (None, publisher.feed)
    assert (wrong.id in tasks._tasks, right.id in tasks._tasks) == (False, True)
    assert tasks.pages is not None
    assert list((await tasks.pages(1)).entries) == [each.encode() for each in publisher.feed.entries]


async def test_a_withdrawn_task_of_another_way_stops_neither_the_feed_nor_the_next_start(
    live: tuple[World, ShufflerLiveTasks], tmp_path: Path
) -> None:
    world, tasks = live
    publisher = Publisher(tmp_path / "of the settings", world.parties)
    hops = replace(world.parties.public, hops=(Parties.generate().shuffler.public,))
    wrong = replace(sample_task(world.parties, name="wrong"), identities=hops)
    earlier, later = (sample_task(world.parties, name=name) for name in ("earlier", "later"))
    tasks._settings = tasks._settings.model_copy(update={"data": tmp_path})
    parties, incidents, first = FeedParties(*_public(world.parties)), Incidents(), dict(world.tasks)
    async with tasks.followed(FolderFeed(tmp_path / KEPT), parties, incidents) as follower:
        assert follower is not None
        publisher.publish(earlier)
        publisher.publish(wrong)
        await follower.look()
        assert DIFFERENT_WAYS in incidents.of("feed").text  # type: ignore[union-attr]
        publisher.end(wrong, -1)
        publisher.publish(later)
        await follower.look()
        assert (incidents.of("feed"), follower.feed) == (None, publisher.feed)
    again = ShufflerLiveTasks(tasks._settings, first, {}, world.rounds)
    async with again.followed(FolderFeed(tmp_path / KEPT), parties, incidents) as follower:
        assert follower is not None
        assert (incidents.of("feed"), follower.feed) == (None, publisher.feed)
    assert {earlier.id, later.id} <= set(again._tasks)
    assert wrong.id not in again._tasks


async def test_a_withdrawn_task_of_another_way_does_not_stop_a_start_without_the_others(
    live: tuple[World, ShufflerLiveTasks], tmp_path: Path
) -> None:
    world, tasks = live
    publisher = Publisher(tmp_path / "of the settings", world.parties)
    hops = replace(world.parties.public, hops=(Parties.generate().shuffler.public,))
    wrong = replace(sample_task(world.parties, name="wrong"), identities=hops)
    publisher.publish(wrong)
    publisher.end(wrong, -1)
    publisher.publish(later := sample_task(world.parties, name="later"))
    tasks._settings = tasks._settings.model_copy(update={"data": tmp_path})
    parties, incidents = FeedParties(*_public(world.parties)), Incidents()
    # Each start is that of a process of its own, whose rounds are not looked at here.
    rounds = create_autospec(RoundLifecycle, instance=True)
    # The second time without the task of a file, next to which the first one of the feed took another way.
    for of_files in ({world.task.id: world.task}, {}):
        begun = ShufflerLiveTasks(tasks._settings, of_files, {}, rounds)
        async with begun.followed(FolderFeed(tmp_path / KEPT), parties, incidents) as follower:
            assert follower is not None
            assert (incidents.of("feed"), follower.feed) == (None, publisher.feed)
        assert later.id in begun._tasks


def _public(parties: Parties) -> tuple[bytes, bytes]:
    return parties.operator.public, parties.shuffler.public
