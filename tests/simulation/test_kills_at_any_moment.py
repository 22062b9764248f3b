"""Front ends, leaders, the analyzer and PostgreSQL are killed at drawn moments while devices submit: all count once.

Real processes, as in `hubbub demo --cluster`: whatever was acknowledged is in the certificate, and nobody is twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from hubbub.deploy.init.hops import change
from hubbub.deploy.local.cluster import LocalCluster
from hubbub.deploy.local.databases import new_databases
from hubbub.deploy.local.process import ServiceProcess
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundStatus
from hubbub.protos.records.results import RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import open_channel
from hubbub.queries.questions.histogram import Histogram
from support.cli import hubbub
from support.patience import CALL_SECONDS, PATIENCE, when_ready
from support.postgres import OwnServer

DEVICES, AT_A_TIME = 80, 4
AGAIN_SECONDS = 0.2


@pytest.fixture
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    return Draft("kiosks", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


class Harm:
    """What happens to a cluster: each of its processes is killed and started again, and so is the server."""

    def __init__(self, cluster: LocalCluster, server: OwnServer) -> None:
        self._cluster, self._server = cluster, server
        self.leaders = [cluster.services[Role.SHUFFLER], cluster._standby]
        self._starts: list[asyncio.Task[None]] = []
        for frontend in cluster._frontends:
            # Devices know where it was: it is there again.
            change(frontend._settings, "listen", frontend.addresses["submission"])

    def deeds(self) -> list[Callable[[], Awaitable[None]]]:
        """One after the other, in any order."""
        again = [lambda each=each: self._again(each) for each in self._cluster._frontends]
        leaders = [lambda each=each: self._leader_again(each) for each in self.leaders]
        return [*again, *leaders, self._server_again, self._analyzer_again]

    async def _again(self, service: ServiceProcess) -> None:
        await service.kill()
        await service.start()

    async def _leader_again(self, service: ServiceProcess) -> None:
        """Whichever of the two keeps the rounds then; the one that is started serves once it is its turn."""
        await service.kill()
        service.timeout = PATIENCE
        self._starts.append(asyncio.create_task(service.start()))

    async def _server_again(self) -> None:
        await asyncio.to_thread(self._server.crash)
        await asyncio.to_thread(self._server.start)

    async def _analyzer_again(self) -> None:
        await self._cluster.kill(Role.ANALYZER)
        await self._cluster.start(Role.ANALYZER)

    async def end(self) -> None:
        """Leave nobody who waits for its turn."""
        for start in self._starts:
            start.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)


async def closed(cluster: LocalCluster, leaders: list[ServiceProcess]) -> RoundStatus:
    """Cut the round at whichever keeps it."""
    while True:
        for leader in leaders:
            if "control" not in leader.addresses:
                continue
            with contextlib.suppress(Unreachable):
                async with open_channel(leader.addresses["control"], cluster.operator_tls) as channel:
                    try:
                        return await ControlCaller(channel).close_round(cluster.task.task.id, 0, CALL_SECONDS)
                    except Refusal as refusal:
                        if refusal.reason is not Reason.NOT_READY:
                            raise
        await asyncio.sleep(AGAIN_SECONDS)


async def counted(cluster: LocalCluster) -> RoundResults:
    """Wait for the round's results."""
    async with open_channel(cluster.services[Role.ANALYZER].addresses["results"], cluster.operator_tls) as channel:
        caller = ResultsCaller(channel)
        return await when_ready(
            lambda: caller.get_results(cluster.task.task.id, 0, 10.0, CALL_SECONDS), Reason.NO_RESULTS
        )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
async def test_whoever_is_killed_and_whenever_everybody_counts_once(
    tmp_path: Path, server: OwnServer, seed: int
) -> None:
    random, names = Random(seed), iter([f"device {number}" for number in range(DEVICES)])
    acknowledged, changed = [0], asyncio.Condition()
    with new_databases(server.address) as databases:
        cluster = LocalCluster(draft(), tmp_path / "pipeline", databases=databases)
        async with asyncio.timeout(PATIENCE), cluster:
            harm = Harm(cluster, server)

            async def people() -> None:
                for name in names:
                    async with cluster.device(name) as device:
                        await device.submit({"theme": "dark"}, timeout=PATIENCE)
                    async with changed:
                        acknowledged[0] += 1
                        changed.notify_all()

            async def harmed() -> None:
                deeds = harm.deeds()
                random.shuffle(deeds)
                moments = sorted(random.sample(range(1, DEVICES - AT_A_TIME), len(deeds)))
                for moment, deed in zip(moments, deeds, strict=True):
                    async with changed:
                        await changed.wait_for(lambda moment=moment: acknowledged[0] >= moment)
                    await deed()

            try:
                await asyncio.gather(harmed(), *(people() for _ in range(AT_A_TIME)))
                status = await closed(cluster, harm.leaders)
                assert status.submissions == DEVICES
                found = await counted(cluster)
            finally:
                await harm.end()
    assert b'"reports":80' in found.certificate.replace(b" ", b"")
    path = tmp_path / "certificate.json"
    path.write_bytes(found.certificate)
    assert (await asyncio.to_thread(hubbub, "verify", path, "--json")).json["verified"]
