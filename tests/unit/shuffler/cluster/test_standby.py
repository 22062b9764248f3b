"""Two shufflers on one database, over real sockets: a round goes on with the one that stood by."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.shuffler.test_live_tasks import Publisher
from unit.shuffler.test_server import Deployment, analyzer_at, channel, seal

from hubbub.deploy.local.ports import kept_address
from hubbub.deploy.operator.health import ask, ask_why
from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.task.admission import AdmissionPolicy, Mode
from hubbub.protos.transport.channels import TLS
from hubbub.service.settings import TLSSettings
from hubbub.service.transport.health import Waits
from hubbub.shuffler.cluster.frontend import serve_frontend
from hubbub.shuffler.server import _readiness, serve
from hubbub.shuffler.settings import FrontendSettings, ShufflerSettings
from hubbub.shuffler.stores.postgres.open_store import create_replicated, open_as_leader
from hubbub.shuffler.stores.postgres.replication import replication
from support import postgres
from support.patience import CALL_SECONDS, pause, when_ready


class Running:
    """A shuffler that acts, or stands by."""

    def __init__(self, settings: Any, run: Callable[..., Coroutine[Any, Any, None]] = serve) -> None:
        self.stop = asyncio.Event()
        self.addresses: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(run(settings, announce=self.addresses.set_result, stop=self.stop))

    async def acts(self) -> dict[str, str]:
        """Return its addresses once it acts."""
        await asyncio.wait([self.task, self.addresses], return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            self.task.result()
        return self.addresses.result()

    async def end(self) -> None:
        self.stop.set()
        await self.task


def pair(deployment: Deployment, analyzer: str) -> list[ShufflerSettings]:
    address, listens = postgres.new_database(), [kept_address(), kept_address()]
    made = []
    for name, own, other in zip("ab", listens, listens[::-1], strict=True):
        update = {"store": address, "data": deployment.folder / name, "leader_listen": own, "leaders": (other,)}
        made.append(deployment.settings(analyzer).model_copy(update=update | {"standbys": 1 if name == "a" else 0}))
        create_replicated(made[-1].data, address)
    return made


async def test_a_round_goes_on_with_the_one_that_stood_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "AWAY_SECONDS", 0.5)
    deployment = Deployment(tmp_path)
    devices = TLS(deployment.tls["shuffler"].authority)
    async with contextlib.AsyncExitStack() as stack:
        name, analyzer = await stack.enter_async_context(analyzer_at(deployment))
        first, second = map(Running, pair(deployment, name))
        addresses = await first.acts()
        assert "leader" in addresses
        public = await stack.enter_async_context(channel(addresses["submission"], devices))
        caller = SubmissionCaller(public)
        # The round has keys only once the standby has them.
        destination, submissions = await seal(caller, deployment.task, 60)
        answers = await caller.submit_batch(destination, submissions[:40], CALL_SECONDS)
        assert all(isinstance(answer, Receipt) for answer in answers)
        await first.end()
        addresses = await second.acts()
        public = await stack.enter_async_context(channel(addresses["submission"], devices))
        caller = SubmissionCaller(public)
        answers = await caller.submit_batch(destination, submissions, CALL_SECONDS)
        assert all(isinstance(answer, Receipt) for answer in answers)
        operator = await stack.enter_async_context(channel(addresses["control"], deployment.tls["operator"]))
        control = ControlCaller(operator)
        status = await control.close_round(deployment.task.id, 0, CALL_SECONDS)
        assert status.submissions == 60
        while status.state is not RoundState.ERASED:
            await pause()
            (status,) = (each for each in await control.get_status(None, CALL_SECONDS) if each.round == 0)
        assert sorted(analyzer.symbols(0)) == sorted(number % 3 for number in range(60))
        await second.end()


async def test_who_takes_over_has_what_the_leader_took_of_the_feed_though_its_own_folder_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "AWAY_SECONDS", 0.5)
    deployment = Deployment(tmp_path)
    # The analyzer here makes keys for one task: the one whose round it is asked for first.
    (deployment.folder / "tasks" / "task.json").unlink()
    publisher = Publisher(tmp_path / "feed", deployment.parties)
    older = tmp_path / "older"
    second, third = (replace(deployment.task, name=name) for name in ("second", "third"))
    async with contextlib.AsyncExitStack() as stack:
        name, _ = await stack.enter_async_context(analyzer_at(deployment))
        folders = (publisher.folder, older)
        older.mkdir()
        settings = [
            each.model_copy(update={"feed": folder})
            for each, folder in zip(pair(deployment, name), folders, strict=True)
        ]
        leading, standing = map(Running, settings)
        addresses = await leading.acts()
        control = ControlCaller(
            await stack.enter_async_context(channel(addresses["control"], deployment.tls["operator"]))
        )

        async def known(to: ControlCaller, count: int) -> None:
            while len(await to.list_tasks(CALL_SECONDS)) < count:
                await pause()

        publisher.publish(second)
        await known(control, 1)
        devices = TLS(deployment.tls["shuffler"].authority)
        caller = SubmissionCaller(await stack.enter_async_context(channel(addresses["submission"], devices)))
        destination, submissions = await seal(caller, second, 60)
        answers = await caller.submit_batch(destination, submissions[:40], CALL_SECONDS)
        assert all(isinstance(answer, Receipt) for answer in answers)
        publisher.publish(third)
        publisher.end(third, 0)
        while len((await caller.get_feed(1, CALL_SECONDS)).entries) < 3:
            await pause()
        await leading.end()
        # Of the feed, this machine has nothing: no folder of entries that were taken, and an older copy to follow.
        addresses = await standing.acts()
        caller = SubmissionCaller(await stack.enter_async_context(channel(addresses["submission"], devices)))
        answers = await caller.submit_batch(destination, submissions, CALL_SECONDS)
        assert all(isinstance(answer, Receipt) for answer in answers)
        with pytest.raises(Refusal) as refused:
            await caller.get_round(third.id, 1, CALL_SECONDS)
        assert refused.value.reason is Reason.TASK_ENDED
        assert len((await caller.get_feed(1, CALL_SECONDS)).entries) == 3
        control = ControlCaller(
            await stack.enter_async_context(channel(addresses["control"], deployment.tls["operator"]))
        )
        (incident,) = [each for each in (await control.get_incidents(CALL_SECONDS)).incidents if each.kind == "feed"]
        assert "an older copy of the feed" in incident.text
        # Once its folder is as new, it takes what comes.
        shutil.copytree(publisher.folder, older, dirs_exist_ok=True)
        publisher.publish(replace(deployment.task, name="fourth"))
        shutil.copy(publisher.folder / "000004.json", older)
        await known(control, 3)
        status = await control.close_round(second.id, 0, CALL_SECONDS)
        assert status.submissions == 60
        while status.state is not RoundState.ERASED:
            await pause()
            (status,) = (each for each in await control.get_status(second.id, CALL_SECONDS) if each.round == 0)
        await standing.end()


async def test_a_standby_that_could_not_go_on_with_the_feed_says_so_beforehand(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    publisher = Publisher(tmp_path / "feed", deployment.parties)
    settings = pair(deployment, "127.0.0.1:1")[0].model_copy(update={"feed": publisher.folder})
    readiness = _readiness(settings, time.time)
    readiness.check()
    store = open_as_leader(settings.data, settings.store)
    try:
        store.kept_feed.add(publisher.publish(replace(deployment.task, name="second")))
        readiness.check()
        with pytest.raises(TaskError, match="the leader has taken 1 entries of a feed of tasks, and `feed` is empty"):
            _readiness(settings.model_copy(update={"feed": None}), time.time).check()
        shown = replace(deployment.task, name="third", admission=AdmissionPolicy(Mode.MTLS))
        store.kept_feed.add(publisher.publish(shown))
        # Read anew at each look.
        with pytest.raises(HubbubError, match="third"):
            readiness.check()
        store.kept_feed.add(publisher.end(shown, -1))
        readiness.check()
    finally:
        store.close()


async def test_a_front_end_without_a_task_waits_for_it_and_begins_when_the_leader_s_feed_brings_one(
    tmp_path: Path,
) -> None:
    deployment = Deployment(tmp_path)
    (deployment.folder / "tasks" / "task.json").unlink()
    publisher = Publisher(tmp_path / "feed", deployment.parties)
    devices = TLS(deployment.tls["shuffler"].authority)
    async with contextlib.AsyncExitStack() as stack:
        name, _ = await stack.enter_async_context(analyzer_at(deployment))
        settings, _ = pair(deployment, name)
        leading = Running(settings.model_copy(update={"feed": publisher.folder, "role": "leader", "standbys": 0}))
        await leading.acts()
        front = Running(frontend_settings(deployment, settings), serve_frontend)
        address = (await front.acts())["submission"]
        asked = {"submission": address}, deployment.tls["frontend"]
        assert await ask(*asked, 0) == {"submission": False}
        (why,) = (await ask_why(*asked, CALL_SECONDS)).values()
        assert isinstance(why, Waits)
        assert "it waits: there is no task to answer for" in str(why)
        assert "publish one (`hubbub tasks publish`)" in str(why)
        caller = SubmissionCaller(await stack.enter_async_context(channel(address, devices)))
        with pytest.raises(Refusal) as refused:
            await caller.get_round(deployment.task.id, 0, CALL_SECONDS)
        assert refused.value.reason is Reason.UNKNOWN_TASK
        publisher.publish(deployment.task)
        assert await ask(*asked, CALL_SECONDS) == {"submission": True}
        await when_ready(lambda: caller.get_round(deployment.task.id, 0, CALL_SECONDS))
        assert await ask_why({}, asked[1], CALL_SECONDS) == {}
        await front.end()
        await leading.end()


def frontend_settings(deployment: Deployment, leader: ShufflerSettings) -> FrontendSettings:
    own = deployment.tls["frontend"]
    deployment.parties.shuffler.save_public(deployment.folder / "shuffler.pub.pem")
    return FrontendSettings(
        role="frontend",
        store=leader.store,
        leaders=(leader.leader_listen,),
        shuffler_key=deployment.folder / "shuffler.pub.pem",
        listen="127.0.0.1:0",
        tasks=(deployment.folder / "tasks",),
        operator_key=deployment.folder / "operator.pub.pem",
        processes=1,
        count_step=1,
        tls=TLSSettings(authority=own.authority, certificate=own.certificate, key=own.key),
    )
