"""Real processes take and end tasks by the feed while devices answer; nobody is lost, and nobody counts twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.workers.test_supervisor import workers_of

from hubbub.client import Device, TaskFeed
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import add_entry
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from support import postgres
from support.patience import CALL_SECONDS, PATIENCE, pause

DEVICES, AT_A_TIME, CONNECTIONS = 16, 4, 8


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=2, close="operator")
    return Draft("first", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


class Published(LocalPipeline):
    """All services follow a feed, which publishes nothing at first."""

    following: tuple[str, ...] = (Role.SHUFFLER, Role.ANALYZER)
    """The parties whose folders get new entries."""

    def _place_stores(self) -> None:
        super()._place_stores()
        self.feed = Feed()
        for party in self.following:
            (self.folder.of(party) / "feed").mkdir()
            self._set(party, "feed", "feed")

    def add(self, entry: FeedEntry) -> None:
        for role in (Role.OPERATOR, Role.SHUFFLER):
            entry = entry.signed_by(Identity.load(self.folder.identity(role)))
        self.feed = self.feed.with_entry(entry)
        for party in self.following:
            add_entry(self.folder.of(party) / "feed", entry)

    def publish(self, name: str) -> SignedTask:
        """Publish a task with the questions of the first."""
        self.add(self.feed.publishing(SignedTask(replace(self.task.task, name=name))))
        (signed,) = [each for each in self.feed.published.values() if each.task.name == name]
        return signed

    def trusted(self) -> dict[str, object]:
        keys = {"operator_key": self.operator_key, "shuffler_key": self.shuffler_key}
        return {**keys, "shuffler": self.shuffler, "authority": self.authority}

    def fetched(self, number: int) -> TaskFeed:
        """The feed as a new application fetches it, over a connection of its own."""
        folder = self.folder.of("client") / f"feed-{number}"
        return TaskFeed(allow={"second"}, folder=folder, **self.trusted())  # type: ignore[arg-type]

    async def answer(self, task: bytes, name: str) -> None:
        state = self.folder.of("client") / f"{name}.db"
        async with Device(task, state=state, ticket=self.ticket(name), **self.trusted()) as device:  # type: ignore[arg-type]
            await device.submit({"theme": "dark"}, timeout=PATIENCE)

    async def known(self, name: str) -> None:
        """Wait until the shuffler, and all processes that answer for it, know the task of that name."""
        async with open_channel(self.services[Role.SHUFFLER].addresses["control"], self.operator_tls) as channel:
            while name not in {each.name for each in await ControlCaller(channel).list_tasks(CALL_SECONDS)}:
                await pause()

    async def counted(self, task: SignedTask) -> bytes:
        """Close the first round of a task, and return its certificate."""
        self.task = task
        assert (await self.close_round()).submissions == DEVICES
        return (await self.results()).certificate.replace(b" ", b"")


class PublishedWithHop(Published):
    """The hop follows a feed of its own, too."""

    following = (Role.SHUFFLER, Role.ANALYZER, "hop-2")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_workers_take_and_end_a_task_while_devices_answer_another(tmp_path: Path, store: str) -> None:
    database = postgres.new_database() if store == "postgres" else ""
    numbers, half = iter(range(DEVICES)), asyncio.Event()
    async with Published(draft(), tmp_path / "pipeline", workers=2, database=database) as pipeline:
        first = pipeline.task

        async def people_of_the_first() -> None:
            for number in numbers:
                await pipeline.answer(first.encode(), f"first {number}")
                if number >= DEVICES // 2:
                    half.set()

        async def people_of_the_second() -> SignedTask:
            await half.wait()
            second = pipeline.publish("second")
            for number in range(DEVICES):
                feed = pipeline.fetched(number)
                while not await feed.fetch(timeout=PATIENCE):
                    await pause()
                # A worker that is started again has the task, too.
                if number == DEVICES // 2:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(workers_of(pipeline.services[Role.SHUFFLER].pid or 0)[0], signal.SIGKILL)
                await pipeline.answer(feed.tasks()["second"], f"second {number}")
            return second

        *_, second = await asyncio.gather(
            *(people_of_the_first() for _ in range(AT_A_TIME)), pipeline.guard(people_of_the_second())
        )
        pipeline.add(pipeline.feed.ending(second.task.id, 0))
        pipeline.publish("third")
        # Entries are taken in order: once the third task is known, all know the end.
        await pipeline.known("third")
        for _ in range(CONNECTIONS):
            async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
                with pytest.raises(Refusal) as refused:
                    await SubmissionCaller(channel).get_round(second.task.id, 1, CALL_SECONDS)
                assert refused.value.reason is Reason.TASK_ENDED
        for task in (first, second):
            certificate = await pipeline.counted(task)
            assert f'"reports":{DEVICES}'.encode() in certificate


async def test_a_hop_takes_and_ends_a_task_by_a_feed_of_its_own(tmp_path: Path) -> None:
    numbers = iter(range(DEVICES))
    async with PublishedWithHop(draft(), tmp_path / "pipeline", hops=2) as pipeline:
        first = pipeline.task

        async def people_of_the_first() -> None:
            for number in numbers:
                await pipeline.answer(first.encode(), f"first {number}")

        async def people_of_the_second() -> SignedTask:
            second = pipeline.publish("second")
            for number in range(DEVICES):
                feed = pipeline.fetched(number)
                while not await feed.fetch(timeout=PATIENCE):
                    await pause()
                await pipeline.answer(feed.tasks()["second"], f"second {number}")
            return second

        *_, second = await asyncio.gather(
            *(people_of_the_first() for _ in range(AT_A_TIME)), pipeline.guard(people_of_the_second())
        )
        pipeline.add(pipeline.feed.ending(second.task.id, 0))
        pipeline.publish("third")
        await pipeline.known("third")
        # What was begun before the end is still passed on.
        for task in (first, second):
            certificate = await pipeline.counted(task)
            assert f'"reports":{DEVICES}'.encode() in certificate
