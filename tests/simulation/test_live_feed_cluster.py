"""A leader, its standby and front ends take and end tasks by the feed; the leader is killed, and nobody is lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from simulation.test_live_feed import AT_A_TIME, DEVICES, Published, draft

from hubbub.deploy.local.cluster import STANDBY, LocalCluster
from hubbub.deploy.local.databases import Databases
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import TLS, open_channel
from support import postgres
from support.patience import CALL_SECONDS, PATIENCE, pause, when_ready


class PublishedCluster(Published, LocalCluster):
    """The standby follows a feed, too; its folder gets no entry before `copy_to_standby`."""

    def copy_to_standby(self) -> None:
        leader = self.folder.of(Role.SHUFFLER) / "feed"
        shutil.copytree(leader, self.folder.root / STANDBY / "feed", dirs_exist_ok=True)


async def test_a_task_goes_live_and_ends_while_the_leader_is_killed(tmp_path: Path) -> None:
    databases = Databases(postgres.new_database(), postgres.new_database())
    numbers, half = iter(range(DEVICES)), asyncio.Event()
    async with PublishedCluster(draft(), tmp_path / "cluster", databases=databases) as cluster:
        first, second = cluster.task, cluster.publish("second")

        async def people_of_the_first() -> None:
            for number in numbers:
                await cluster.answer(first.encode(), f"first {number}")

        async def people_of_the_second() -> None:
            for number in range(DEVICES):
                feed = cluster.fetched(number)
                # A front end has no entry before the leader takes the first.
                await when_ready(lambda feed=feed: feed.fetch(timeout=PATIENCE), Reason.UNKNOWN_TASK)  # type: ignore[misc]
                await cluster.answer(feed.tasks()["second"], f"second {number}")
                if number == DEVICES // 2:
                    half.set()

        async def takeover() -> None:
            await half.wait()
            await cluster.fail_over()

        await asyncio.gather(*(people_of_the_first() for _ in range(AT_A_TIME)), people_of_the_second(), takeover())
        cluster.add(cluster.feed.ending(second.task.id, 0))
        cluster.publish("third")
        # The new leader goes on from what the killed one took, and takes the rest from its own folder.
        cluster.copy_to_standby()
        await cluster.known("third")
        for address in cluster.shuffler.split(","):
            async with open_channel(address, TLS(cluster.authority)) as channel:
                caller = SubmissionCaller(channel)
                while len((await caller.get_feed(1, CALL_SECONDS)).entries) < 3:
                    await pause()
                with pytest.raises(Refusal) as refused:
                    await caller.get_round(second.task.id, 1, CALL_SECONDS)
                assert refused.value.reason is Reason.TASK_ENDED
        for task in (first, second):
            certificate = await cluster.counted(task)
            assert f'"reports":{DEVICES}'.encode() in certificate
