"""Two shufflers on one database, over real sockets: a round goes on with the one that stood by."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from unit.shuffler.test_server import Deployment, analyzer_at, channel, seal

from hubbub.deploy.local.ports import kept_address
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.transport.channels import TLS
from hubbub.shuffler.server import serve
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.stores.postgres.open_store import create_replicated
from hubbub.shuffler.stores.postgres.replication import replication
from support import postgres
from support.patience import CALL_SECONDS, pause


class Running:
    """A shuffler that acts, or stands by."""

    def __init__(self, settings: ShufflerSettings) -> None:
        self.stop = asyncio.Event()
        self.addresses: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(serve(settings, announce=self.addresses.set_result, stop=self.stop))

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
