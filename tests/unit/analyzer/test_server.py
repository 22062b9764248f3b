"""The analyzer over real sockets, with mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hubbub.analyzer import results
from hubbub.analyzer.server import serve
from hubbub.analyzer.settings import AnalyzerSettings
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore
from hubbub.protos.errors import HubbubError, TaskError, Unreachable
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes, ListedTask
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Release, ReleaseChunk, position_after
from hubbub.protos.records.results import QueryState, RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import DeliveryCaller, ResultsCaller
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Task
from hubbub.protos.transport import channels
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.revoked_readers import write_revoked
from hubbub.service.settings import LogSettings, TLSSettings
from hubbub.service.transport import ports
from support.ended_with_test import started_program
from support.krr_queries import report
from support.messages import DELIVERED_NOTHING, FOLDER_IN_USE
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import Parties, make_tls, sample_task, signed

NOW = Schedule(int(time.time()) // 3600 * 3600, length=3600, grace=60, rounds=3)
"""A round that is late is given up, so these are not."""


def task_of(parties: Parties) -> Task:
    return sample_task(parties, minimum_reports=20, schedule=NOW)


@dataclass
class Deployment:
    """One analyzer's files and everybody's keys."""

    parties: Parties
    tls: dict[str, TLS]
    settings: AnalyzerSettings

    @classmethod
    def make(cls, folder: Path) -> Deployment:
        parties = Parties.generate()
        tls = make_tls(folder / "tls", "shuffler", "analyzer", "operator", "reader", "stranger")
        parties.analyzer.save(folder / "identity.pem")
        parties.operator.save_public(folder / "operator.pem")
        parties.shuffler.save_public(folder / "shuffler.pem")
        (folder / "tasks").mkdir()
        task = task_of(parties)
        (folder / "tasks" / "flights.json").write_bytes(signed(task, parties).encode())
        AnalyzerSqliteStore.create(folder / "data")
        own = tls["analyzer"]
        assert own.certificate is not None
        assert own.key is not None
        settings = AnalyzerSettings(
            delivery_listen="127.0.0.1:0",
            results_listen="127.0.0.1:0",
            tasks=(folder / "tasks",),
            data=folder / "data",
            identity=folder / "identity.pem",
            operator_key=folder / "operator.pem",
            shuffler_key=folder / "shuffler.pem",
            processes=1,
            tls=TLSSettings(authority=own.authority, certificate=own.certificate, key=own.key),
            log=LogSettings(level="error"),
        )
        return cls(parties, tls, settings)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, str]]:
        stop, addresses = asyncio.Event(), asyncio.get_running_loop().create_future()
        server = asyncio.create_task(serve(self.settings, announce=addresses.set_result, stop=stop))
        await asyncio.wait([addresses, server], return_when=asyncio.FIRST_COMPLETED)
        if not addresses.done():
            await server
        try:
            yield addresses.result()
        finally:
            stop.set()
            await server

    @contextlib.asynccontextmanager
    async def delivery(self, address: str, role: str = "shuffler") -> AsyncIterator[DeliveryCaller]:
        async with channels.open_channel(address, self.tls[role]) as channel:
            yield DeliveryCaller(channel)

    @contextlib.asynccontextmanager
    async def results(self, address: str, role: str = "reader") -> AsyncIterator[ResultsCaller]:
        async with channels.open_channel(address, self.tls[role]) as channel:
            yield ResultsCaller(channel)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment.make(tmp_path)


async def test_a_reader_that_is_revoked_sees_nothing_more_without_a_restart(
    deployment: Deployment, tmp_path: Path
) -> None:
    revoked = tmp_path / "revoked-readers.txt"
    deployment.settings = deployment.settings.model_copy(update={"revoked_readers": revoked})
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        assert await reader.list_results(None, PATIENCE) == []
        revoked.write_text(write_revoked({"reader": int(time.time())}))
        with pytest.raises(Refusal, match="this certificate of reader was revoked"):
            await reader.list_results(None, PATIENCE)
        async with deployment.results(addresses["results"], "operator") as operator:
            assert await operator.list_results(None, PATIENCE) == []


Prepared = list[tuple[BatchRecord, KeySet, tuple[bytes, ...]]]


async def prepare(deployment: Deployment, caller: DeliveryCaller, reports: int = 30) -> Prepared:
    task = task_of(deployment.parties)
    analyzer = await caller.get_key(task.id, 0, CALL_SECONDS)
    shuffler_public = DEFAULT.generate_key()[1]
    record = KeyRecord(Role.SHUFFLER, task.id, 0, task.suite, shuffler_public, 0, 2**37)
    key_set = KeySet(record.signed_by(deployment.parties.shuffler), analyzer)
    public = KeyRecord.read(analyzer, deployment.parties.analyzer.public).public_key
    sealer = Sealer(Destination(task.id, 0, key_set.hash), shuffler_public, public)
    prepared = []
    for index, query in enumerate(task.queries):
        envelopes = tuple(sealer.inner(report(number % query.symbols), index) for number in range(reports))
        batch = BatchRecord(
            *(BatchId(task.id, 0, index), reports, released_digest(envelopes), key_set.hash, "schedule"),
            admission="open",
            position=position_after(task.id, ()),
        )
        prepared.append((batch, key_set, envelopes))
    return prepared


def release_of(prepared: Prepared, parties: Parties) -> ReleaseChunk:
    """The release of a round, the first of its task."""
    documents = [batch.signed_by(parties.shuffler) for batch, _, _ in prepared]
    first = prepared[0][0]
    return ReleaseChunk(0, (Release.signed(first.batch.round, first.reports, first.dummies, documents),))


async def deliver(
    deployment: Deployment, caller: DeliveryCaller, prepared: Prepared, releases: ReleaseChunk | None = None
) -> list[Committed]:
    answers, releases = [], releases or release_of(prepared, deployment.parties)
    for batch, key_set, envelopes in prepared:
        offset = await caller.begin(batch.signed_by(deployment.parties.shuffler), key_set, releases, CALL_SECONDS)
        await caller.put(Envelopes(batch.batch, offset, envelopes[offset:]), CALL_SECONDS)
        answers.append(await caller.commit(batch.batch, batch.digest, CALL_SECONDS))
    return answers


async def deliver_round(deployment: Deployment, caller: DeliveryCaller) -> list[Committed]:
    return await deliver(deployment, caller, await prepare(deployment, caller))


async def test_a_round_goes_from_delivery_to_certified_results_over_tls(deployment: Deployment) -> None:
    task = task_of(deployment.parties)
    async with deployment.running() as addresses, deployment.results(addresses["results"]) as reader:
        waiting = asyncio.create_task(reader.get_results(task.id, 0, CALL_SECONDS, PATIENCE))
        async with deployment.delivery(addresses["delivery"]) as caller:
            assert await deliver_round(deployment, caller) == [Committed(30, {}), Committed(30, {})]
        results = await waiting
        assert [query.state for query in results.queries] == [QueryState.PUBLISHED] * 2
        assert (await reader.list_results(None, CALL_SECONDS)) == [results.id]
        assert (await reader.list_tasks(5)) == [ListedTask(task.id, task.name)]
        assert (await reader.get_task(task.id, CALL_SECONDS)) == signed(task, deployment.parties)
    async with deployment.running() as addresses, deployment.results(addresses["results"], "operator") as reader:
        assert await reader.get_results(task.id, 0, 0, CALL_SECONDS) == results


@pytest.mark.parametrize("role", ["operator", "reader", "analyzer", "stranger"])
async def test_only_the_shuffler_delivers(deployment: Deployment, role: str) -> None:
    task = task_of(deployment.parties)
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"], role) as caller:
        with pytest.raises(Refusal) as refusal:
            await caller.get_key(task.id, 0, CALL_SECONDS)
        assert refusal.value.reason is Reason.NOT_ALLOWED


@pytest.mark.parametrize("role", ["shuffler", "stranger"])
async def test_only_operator_and_readers_read(deployment: Deployment, role: str) -> None:
    async with deployment.running() as addresses, deployment.results(addresses["results"], role) as caller:
        with pytest.raises(Refusal) as refusal:
            await caller.list_results(None, CALL_SECONDS)
        assert refusal.value.reason is Reason.NOT_ALLOWED


async def test_without_a_certificate_of_the_authority_nobody_connects(deployment: Deployment, tmp_path: Path) -> None:
    foreign = make_tls(tmp_path / "foreign", "shuffler")["shuffler"]
    authority = deployment.settings.tls.authority
    task = task_of(deployment.parties)
    async with deployment.running() as addresses:
        for tls in (TLS(authority), TLS(authority, foreign.certificate, foreign.key)):
            async with channels.open_channel(addresses["delivery"], tls) as channel:
                with pytest.raises(Unreachable):
                    await DeliveryCaller(channel).get_key(task.id, 0, 2)


async def test_a_reader_that_waits_does_not_hold_up_the_drain(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, waits, answer = task_of(deployment.parties), asyncio.Event(), results.Results.get_results

    async def noted(self: results.Results, task_id: bytes, round_number: int, wait: float) -> RoundResults:
        waits.set()
        return await answer(self, task_id, round_number, wait)

    monkeypatch.setattr(results.Results, "get_results", noted)
    # A drain that was held up would take longer than this test.
    monkeypatch.setattr(results, "LONGEST_WAIT_SECONDS", PATIENCE)
    monkeypatch.setattr(ports, "DRAIN_SECONDS", PATIENCE)
    async with contextlib.AsyncExitStack() as reader_stays, asyncio.timeout(CALL_SECONDS):
        async with deployment.running() as addresses:
            reader = await reader_stays.enter_async_context(deployment.results(addresses["results"]))
            waiting = asyncio.create_task(reader.get_results(task.id, 0, PATIENCE, PATIENCE))
            await waits.wait()
        with pytest.raises(Refusal, match=f"carrier: {DELIVERED_NOTHING}"):
            await waiting


async def test_a_second_analyzer_on_the_folder_is_refused(deployment: Deployment) -> None:
    async with deployment.running():
        with pytest.raises(HubbubError, match=FOLDER_IN_USE):
            await serve(deployment.settings, stop=asyncio.Event())


async def test_a_task_that_names_another_analyzer_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    others = Parties(deployment.parties.operator, deployment.parties.shuffler, Parties.generate().analyzer)
    (tmp_path / "tasks" / "other.json").write_bytes(signed(sample_task(others), others).encode())
    with pytest.raises(TaskError, match=r"other\.json: this analyzer.s identity is .* as analyzer: put the right"):
        await serve(deployment.settings, stop=asyncio.Event())


async def test_logs_are_json_lines_without_keys_or_digests(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogSettings(level="debug", format="json")
    deployment.settings = deployment.settings.model_copy(update={"log": log})
    task = task_of(deployment.parties)
    async with deployment.running() as addresses, deployment.delivery(addresses["delivery"]) as caller:
        record = KeyRecord.read(await caller.get_key(task.id, 0, CALL_SECONDS), deployment.parties.analyzer.public)
        await deliver_round(deployment, caller)
    output = capsys.readouterr()
    events = [json.loads(line)["event"] for line in output.err.splitlines()]
    assert {"serving", "batch announced", "batch committed", "draining"} <= set(events)
    assert not re.search(r"[0-9a-f]{32}", output.err)
    assert record.public_key.hex() not in output.err
    assert output.out == ""


SERVE = "import asyncio, sys; from pathlib import Path; from hubbub.analyzer.server import serve"
MAIN = f"""{SERVE}
from hubbub.analyzer.settings import load
if __name__ == '__main__':
    asyncio.run(serve(load(Path(sys.argv[1])), announce=lambda ports: print(*ports.values(), flush=True)))
"""


@contextlib.contextmanager
def process(deployment: Deployment, folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    settings = deployment.settings
    lines = [f'{name} = "{getattr(settings, name)}"' for name in ("data", "identity", "operator_key", "shuffler_key")]
    lines += [f'{name} = "127.0.0.1:0"' for name in ("delivery_listen", "results_listen")]
    lines += ['tasks = ["tasks"]', "processes = 1", "[tls]"]
    lines += [f'{name} = "{getattr(settings.tls, name)}"' for name in ("authority", "certificate", "key")]
    (folder / "analyzer.toml").write_text("\n".join(lines))
    (folder / "main.py").write_text(MAIN)
    command = [sys.executable, str(folder / "main.py"), str(folder / "analyzer.toml")]
    with (
        (folder / "log").open("w") as log,
        started_program(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        assert server.stdout is not None
        yield server, server.stdout.readline().split()


async def test_sigterm_drains_and_exits_well(deployment: Deployment, tmp_path: Path) -> None:
    with process(deployment, tmp_path) as (server, addresses):
        async with deployment.delivery(addresses[0]) as caller:
            await deliver_round(deployment, caller)
        server.terminate()
        assert await asyncio.to_thread(server.wait, PATIENCE) == 0


def children(parent: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            number, rest = path.read_text().split(" (", 1)
            if int(rest.rpartition(")")[2].split()[1]) == parent:
                found.add(int(number))
    return found


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_a_killed_analyzer_leaves_no_process_and_counts_once(deployment: Deployment, tmp_path: Path) -> None:
    with process(deployment, tmp_path) as (server, addresses):
        async with deployment.delivery(addresses[0]) as caller:
            prepared = await prepare(deployment, caller, 6000)
            counting = asyncio.create_task(deliver(deployment, caller, prepared))
            # The pool's resource tracker and its one worker.
            assert await asyncio.to_thread(comes_true, lambda: len(children(server.pid)) == 2)
            opening_pool = children(server.pid)
            for worker in opening_pool:  # so that not all is counted before the end comes
                os.kill(worker, signal.SIGSTOP)
            server.kill()
            for worker in opening_pool:
                os.kill(worker, signal.SIGCONT)
            with pytest.raises(Unreachable):
                await counting
    assert await asyncio.to_thread(
        comes_true, lambda: not any(Path(f"/proc/{worker}").exists() for worker in opening_pool)
    )
    with process(deployment, tmp_path) as (server, addresses):
        async with deployment.delivery(addresses[0]) as caller:
            assert await deliver(deployment, caller, prepared) == [Committed(6000, {})] * 2
        server.terminate()
        assert await asyncio.to_thread(server.wait, PATIENCE) == 0
