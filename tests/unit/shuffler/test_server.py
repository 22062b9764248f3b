"""TLS for devices, mutual TLS for the operator and towards the analyzer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.shuffler.world import FakeAnalyzer

from hubbub.protos.errors import HubbubError, TaskError
from hubbub.protos.messages import ListedTask, Receipt, RoundState, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, Task
from hubbub.protos.transport import channels
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.revoked_readers import write_revoked
from hubbub.service.rpc import serve_delivery
from hubbub.service.settings import TLSSettings
from hubbub.service.transport import grpc_server, health
from hubbub.shuffler.admit.openers import Openers
from hubbub.shuffler.records import StoreError
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.server import serve
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.ended_with_test import opened_server
from support.krr_queries import report
from support.messages import LAYOUT_THAT_IS_KNOWN, NO_TASK_TO_RUN, NOT_SIGNED_BY, OTHER_ROLE
from support.patience import CALL_SECONDS, when_ready
from support.samples import Parties, make_tls, sample_task, signed


class Deployment:
    """Files of a shuffler on loopback, and the analyzer that it talks to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parties = Parties.generate()
        self.tls = make_tls(folder / "tls", "shuffler", "frontend", "analyzer", "operator", "reader")
        schedule = Schedule(int(time.time()) - 3600, length=365 * 86400, grace=60, rounds=2, close="operator")
        self.task = sample_task(self.parties, schedule=schedule)
        self.parties.shuffler.save(folder / "identity.pem")
        self.parties.operator.save_public(folder / "operator.pub.pem")
        self.write(signed(self.task, self.parties))
        ShufflerSqliteStore.create(folder / "data")

    def write(self, task: SignedTask) -> None:
        (self.folder / "tasks").mkdir(exist_ok=True)
        (self.folder / "tasks" / "task.json").write_bytes(task.encode())

    def settings(self, analyzer: str) -> ShufflerSettings:
        own = self.tls["shuffler"]
        return ShufflerSettings(
            listen="127.0.0.1:0",
            control_listen="127.0.0.1:0",
            analyzer=analyzer,
            tasks=(self.folder / "tasks",),
            data=self.folder / "data",
            identity=self.folder / "identity.pem",
            operator_key=self.folder / "operator.pub.pem",
            processes=1,
            count_step=1,
            tls=TLSSettings(authority=own.authority, certificate=own.certificate, key=own.key),
        )


@contextlib.asynccontextmanager
async def analyzer_at(deployment: Deployment) -> AsyncIterator[tuple[str, FakeAnalyzer]]:
    fake = FakeAnalyzer(deployment.task, deployment.parties)
    async with opened_server() as server:
        serve_delivery(server, fake, {"shuffler"})
        port = grpc_server.listen(server, "127.0.0.1:0", deployment.tls["analyzer"].server(mutual=True))
        await server.start()
        yield f"127.0.0.1:{port}", fake


@contextlib.asynccontextmanager
async def running(settings: ShufflerSettings) -> AsyncIterator[dict[str, str]]:
    stop = asyncio.Event()
    announced: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    service = asyncio.create_task(serve(settings, announce=announced.set_result, stop=stop))
    await asyncio.wait([service, announced], return_when=asyncio.FIRST_COMPLETED)
    if service.done():
        service.result()
    try:
        yield announced.result()
    finally:
        stop.set()
        await service


@contextlib.asynccontextmanager
async def channel(address: str, tls: TLS) -> AsyncIterator[grpc.aio.Channel]:
    async with channels.open_channel(address, tls) as opened:
        yield opened


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


async def seal(caller: SubmissionCaller, task: Task, count: int) -> tuple[Destination, list[Submission]]:
    key_set = await when_ready(lambda: caller.get_round(task.id, 0, CALL_SECONDS))
    records = key_set.read(task.id, 0, task.suite, task.identities.shuffler, task.identities.analyzer)
    destination = Destination(task.id, 0, key_set.hash)
    sealer = Sealer(destination, *(record.public_key for record in records))
    submissions = []
    for number in range(count):
        submission_id = os.urandom(16)
        inners = [sealer.inner(report(number % 3), 0), sealer.inner(report(number % 9), 1)]
        submissions.append(Submission(submission_id, sealer.outer(inners, submission_id)))
    return destination, submissions


async def test_dummies_are_sealed_by_the_processes_that_open(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealing keeps the interpreter lock, which answering devices needs."""
    given: list[Any] = []

    def noted(*parts: Any, seal: Any, **others: Any) -> RoundLifecycle:
        given.append(seal)
        return RoundLifecycle(*parts, seal=seal, **others)

    monkeypatch.setattr("hubbub.shuffler.server.RoundLifecycle", noted)
    async with analyzer_at(deployment) as (name, _), running(deployment.settings(name)):
        pass
    assert [(seal.__func__, type(seal.__self__)) for seal in given] == [(Openers.seal, Openers)]


async def test_whole_round_over_real_sockets(deployment: Deployment) -> None:
    devices = TLS(deployment.tls["shuffler"].authority)
    async with contextlib.AsyncExitStack() as stack:
        name, analyzer = await stack.enter_async_context(analyzer_at(deployment))
        addresses = await stack.enter_async_context(running(deployment.settings(name)))
        public = await stack.enter_async_context(channel(addresses["submission"], devices))
        assert await health.is_serving(public, CALL_SECONDS)
        caller = SubmissionCaller(public)
        destination, submissions = await seal(caller, deployment.task, 60)
        answers = await caller.submit_batch(destination, submissions[:59], CALL_SECONDS)
        assert all(isinstance(answer, Receipt) for answer in answers)
        assert await caller.submit(destination, submissions[59], CALL_SECONDS) == Receipt(submissions[59].id, 0)
        control = ControlCaller(
            await stack.enter_async_context(channel(addresses["control"], deployment.tls["operator"]))
        )
        closed = await control.close_round(deployment.task.id, 0, CALL_SECONDS)
        assert closed.submissions == 60
        while (await control.get_status(None, CALL_SECONDS))[0].state is not RoundState.ERASED:  # noqa: ASYNC110 - over the wire
            await asyncio.sleep(0.02)
        assert sorted(analyzer.symbols(0)) == sorted(number % 3 for number in range(60))
        assert next(iter(analyzer.records.values())).closed_by == "operator"


async def test_a_reader_that_is_revoked_sees_nothing_more_without_a_restart(
    deployment: Deployment, tmp_path: Path
) -> None:
    revoked = tmp_path / "revoked-readers.txt"
    settings = deployment.settings("127.0.0.1:1").model_copy(update={"revoked_readers": revoked})
    async with contextlib.AsyncExitStack() as stack:
        address = (await stack.enter_async_context(running(settings)))["control"]
        reader, operator = [
            ControlCaller(await stack.enter_async_context(channel(address, deployment.tls[role])))
            for role in ("reader", "operator")
        ]
        before = await reader.list_tasks(CALL_SECONDS)
        revoked.write_text(write_revoked({"reader": int(time.time())}))
        with pytest.raises(Refusal, match="this certificate of reader was revoked"):
            await reader.list_tasks(CALL_SECONDS)
        assert await operator.list_tasks(CALL_SECONDS) == before


async def test_a_reader_sees_the_tasks_and_rounds_and_changes_nothing(deployment: Deployment) -> None:
    task = deployment.task
    async with contextlib.AsyncExitStack() as stack:
        addresses = await stack.enter_async_context(running(deployment.settings("127.0.0.1:1")))
        control = ControlCaller(
            await stack.enter_async_context(channel(addresses["control"], deployment.tls["reader"]))
        )
        assert await control.list_tasks(CALL_SECONDS) == [ListedTask(task.id, task.name)]
        assert (await control.get_task(task.id, CALL_SECONDS)) == signed(task, deployment.parties)
        with pytest.raises(Refusal) as unknown:
            await control.get_task(bytes(32), CALL_SECONDS)
        assert unknown.value.reason is Reason.UNKNOWN_TASK
        await control.get_status(None, CALL_SECONDS)
        with pytest.raises(Refusal, match=f"role operator, {OTHER_ROLE} reader") as refused:
            await control.close_round(task.id, 0, CALL_SECONDS)
        assert refused.value.reason is Reason.NOT_ALLOWED


async def test_control_port_answers_nobody_else(deployment: Deployment) -> None:
    async with contextlib.AsyncExitStack() as stack:
        addresses = await stack.enter_async_context(running(deployment.settings("127.0.0.1:1")))
        other = await stack.enter_async_context(channel(addresses["control"], deployment.tls["analyzer"]))
        with pytest.raises(Refusal, match=f"operator or reader, {OTHER_ROLE} analyzer") as refused:
            await ControlCaller(other).get_status(None, CALL_SECONDS)
        assert refused.value.reason is Reason.NOT_ALLOWED


async def _refused(deployment: Deployment) -> None:
    async with running(deployment.settings("127.0.0.1:1")):
        pass


async def test_task_whose_minimum_cannot_support_its_promise_is_refused_at_start(deployment: Deployment) -> None:
    weak = replace(deployment.task, privacy=Privacy(epsilon=0.01, delta=1e-9, epsilon_local=20.0))
    deployment.write(signed(weak, deployment.parties))
    with pytest.raises(TaskError, match="raise minimum_reports"):
        await _refused(deployment)


async def test_task_without_the_shufflers_signature_is_refused_at_start(deployment: Deployment) -> None:
    deployment.write(SignedTask(deployment.task).signed_by(deployment.parties.operator))
    with pytest.raises(TaskError, match="the shuffler has not signed"):
        await _refused(deployment)


async def test_tampered_task_is_refused_at_start(deployment: Deployment) -> None:
    path = deployment.folder / "tasks" / "task.json"
    path.write_bytes(path.read_bytes().replace(b'"minimum_reports":20', b'"minimum_reports":21'))
    with pytest.raises(TaskError, match=NOT_SIGNED_BY):
        await _refused(deployment)


async def test_task_of_another_shuffler_is_refused_at_start(deployment: Deployment) -> None:
    others = replace(deployment.parties, shuffler=Parties.generate().shuffler)
    deployment.write(signed(replace(deployment.task, identities=others.public), others))
    with pytest.raises(TaskError, match=r"this shuffler's identity is .* as shuffler: put the right identity"):
        await _refused(deployment)


async def test_tasks_that_take_different_ways_are_refused_at_start(deployment: Deployment) -> None:
    """All go to the party at `analyzer`: of these two, one would wait there for ever."""
    chained = replace(deployment.parties, hops=Parties.generate(1).hops)
    task = sample_task(chained, name="chained", schedule=deployment.task.schedule)
    (deployment.folder / "tasks" / "chained.json").write_bytes(signed(task, chained).encode())
    with pytest.raises(TaskError, match=r"`analyzer` names: chained goes on to hop .*; flights goes on to the anal"):
        await _refused(deployment)


async def test_start_without_any_task_is_refused(deployment: Deployment) -> None:
    (deployment.folder / "tasks" / "task.json").unlink()
    with pytest.raises(TaskError, match=NO_TASK_TO_RUN):
        await _refused(deployment)


async def test_start_without_an_identity_is_refused(deployment: Deployment) -> None:
    (deployment.folder / "identity.pem").unlink()
    with pytest.raises(HubbubError, match=r"cannot read .*identity\.pem"):
        await _refused(deployment)


async def test_store_of_another_version_is_refused_untouched(deployment: Deployment) -> None:
    data = deployment.folder / "data"
    with contextlib.closing(sqlite3.connect(data / "shuffler.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = (data / "shuffler.db").read_bytes()
    with pytest.raises(
        StoreError, match=f"of version 99, {LAYOUT_THAT_IS_KNOWN} 1; nothing was touched: install the hubbub"
    ):
        await _refused(deployment)
    assert sorted(path.name for path in data.iterdir()) == ["lock", "shuffler.db"]
    assert (data / "shuffler.db").read_bytes() == before
