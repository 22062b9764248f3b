"""A hop over real sockets, with mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.deploy.operator.client import ask_hop
from hubbub.protos.errors import TaskError, Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import DeliveryCaller
from hubbub.protos.task.admission import ENROLLED
from hubbub.protos.task.task import Task
from hubbub.protos.transport import channels
from hubbub.protos.transport.tls_files import TlsCertificateError
from hubbub.service.settings import LogSettings, TLSSettings
from hubbub.shuffler.hop.server import serve
from hubbub.shuffler.hop.settings import HopSettings
from hubbub.shuffler.hop.sqlite import HopSqliteStore
from support.patience import CALL_SECONDS
from support.samples import Parties, make_tls, sample_task, signed


class Deployment:
    """One hop's files and everybody's keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parties = Parties.generate(1)
        self.tls = make_tls(folder / "tls", "shuffler", "hop-2", "analyzer", "reader", "operator")
        self.parties.hops[0].save(folder / "identity.pem")
        self.parties.operator.save_public(folder / "operator.pem")
        self.parties.shuffler.save_public(folder / "shuffler.pem")
        (folder / "tasks").mkdir()
        self.task = sample_task(self.parties, admission=ENROLLED)
        self.write(self.task)
        HopSqliteStore.create(folder / "data")

    def write(self, task: Task) -> None:
        (self.folder / "tasks" / "flights.json").write_bytes(signed(task, self.parties).encode())

    def settings(self, party: str = "hop-2") -> HopSettings:
        own = self.tls[party]
        assert own.certificate is not None
        assert own.key is not None
        return HopSettings(
            listen="127.0.0.1:0",
            next="127.0.0.1:1",
            metrics_listen="127.0.0.1:0",
            tasks=(self.folder / "tasks",),
            data=self.folder / "data",
            identity=self.folder / "identity.pem",
            operator_key=self.folder / "operator.pem",
            shuffler_key=self.folder / "shuffler.pem",
            tls=TLSSettings(authority=self.folder / "tls" / "authority.pem", certificate=own.certificate, key=own.key),
            log=LogSettings(),
        )

    @contextlib.asynccontextmanager
    async def running(self, settings: HopSettings | None = None) -> AsyncIterator[dict[str, str]]:
        serving: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        service = asyncio.create_task(serve(settings or self.settings(), announce=serving.set_result, stop=stop))
        await asyncio.wait({service, serving}, return_when=asyncio.FIRST_COMPLETED)
        if service.done():
            await service
        try:
            yield serving.result()
        finally:
            stop.set()
            await service

    async def get_key(self, address: str, task_id: bytes, caller: str = "shuffler") -> SignedDocument:
        async with channels.open_channel(address, self.tls[caller]) as channel:
            return await DeliveryCaller(channel).get_key(task_id, 0, CALL_SECONDS)


async def test_it_asks_who_comes_after_it_and_says_when_nobody_answers(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    async with deployment.running() as addresses:
        with pytest.raises(Refusal, match=r"127\.0\.0\.1:1, the party behind this hop, did not answer") as refused:
            await deployment.get_key(addresses["delivery"], deployment.task.id)
        assert refused.value.reason is Reason.NOT_READY
        with pytest.raises(Refusal) as forbidden:
            await deployment.get_key(addresses["delivery"], deployment.task.id, "reader")
        assert forbidden.value.reason is Reason.NOT_ALLOWED
    assert stat.S_IMODE((tmp_path / "data" / "hop.db").stat().st_mode) == 0o600


async def test_the_operator_learns_whether_it_works_and_nothing_else(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    async with deployment.running() as addresses:
        address = addresses["delivery"]
        assert await ask_hop("hop-2", address, deployment.tls["operator"]) == frozenset()
        with pytest.raises(Refusal) as forbidden:
            await deployment.get_key(address, deployment.task.id, "operator")
        assert forbidden.value.reason is Reason.NOT_ALLOWED
    with pytest.raises(Unreachable):
        await ask_hop("hop-2", address, deployment.tls["operator"])


async def test_a_task_that_does_not_name_it_is_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    others = Parties(deployment.parties.operator, deployment.parties.shuffler, deployment.parties.analyzer)
    deployment.parties, hop = others, deployment.parties
    deployment.write(sample_task(others))
    with pytest.raises(TaskError, match=r"names nobody as hop: put the right identity.*remove the file here, and"):
        async with deployment.running():
            pass
    assert hop.hops


async def test_tasks_that_name_different_parties_behind_it_are_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    longer = replace(deployment.parties, hops=(*deployment.parties.hops, *Parties.generate(1).hops))
    path = tmp_path / "tasks" / "longer.json"
    path.write_bytes(signed(sample_task(longer, name="longer", admission=ENROLLED), longer).encode())
    with pytest.raises(TaskError, match="`next` names: flights goes on to the analyzer, past no hop; longer goes on"):
        async with deployment.running():
            pass


async def test_another_partys_certificate_is_refused(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with pytest.raises(TlsCertificateError, match="is the analyzer's certificate; give the hop its own"):
        async with deployment.running(deployment.settings("analyzer")):
            pass
