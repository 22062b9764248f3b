"""Devices behind a relay of Oblivious HTTP: all is counted, the shuffler sees the relay alone, and the relay nothing.

The relay is a process of another party, with a certificate of another authority. It calls the shuffler from an address
that nothing else on this machine has, so the shuffler's sockets and files can be searched for it, and for devices'.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hubbub.client import Device, Fleet, Unreachable
from hubbub.client.submit import Retrying, RetryPolicy, ShufflerLink
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import CredentialAction
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.task.task import Draft, Privacy, Schedule
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.relay import Relay
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.ohttp_relay import SEEN_FROM, RelayProcess, running_relay
from support.patience import CALL_SECONDS, PATIENCE, when_ready
from support.samples import FEW

DEVICES = 24
DRAFT = Draft(
    "usage",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0, large_delta=FEW),
    (Histogram("theme", ("light", "dark")),),
)
NOWHERE = "https://127.0.0.1:1"
"""A shuffler that nobody is at: whoever calls it directly fails."""

SHORT = Retrying(RetryPolicy(total=1.0, call=1.0, first_pause=0.05))
"""For calls that cannot succeed, however long they try."""


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalPipeline]:
    async with asyncio.timeout(PATIENCE), _with_workers(tmp_path_factory.mktemp("p")) as made:
        yield made


def _with_workers(folder: Path) -> LocalPipeline:
    """One whose port is opened by processes that do not have the shuffler's identity."""
    return LocalPipeline(DRAFT, folder / "p", https=True, workers=2)


def https_port(pipeline: LocalPipeline) -> str:
    return pipeline.shuffler.removeprefix(HTTPS)


def arguments(pipeline: LocalPipeline, relay: RelayProcess, state: Path, shuffler: str = NOWHERE) -> dict[str, Any]:
    return {
        "task": pipeline.task.encode(),
        "operator_key": pipeline.operator_key,
        "shuffler_key": pipeline.shuffler_key,
        "state": state,
        "shuffler": shuffler,
        "authority": relay.authority,
        "relay": relay.url,
    }


def connections(port: int) -> set[tuple[str, int]]:
    """The other ends of all connections with that port, those included that ended a minute ago."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if state != "0A":  # listening
            ends = [(each[:8], int(each[9:], 16)) for each in (local, remote)]
            for (_, here), (host, there) in (ends, ends[::-1]):
                if here == port:
                    found.add((socket.inet_ntoa(bytes.fromhex(host)[::-1]), there))
    return found


def peers(port: int, before: set[tuple[str, int]]) -> set[str]:
    """The addresses of the other ends of connections that were not there `before`, by another program at that port."""
    return {host for host, _ in connections(port) - before}


async def test_the_look_at_sockets_sees_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        before = connections(port)
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.79", 0)):
            assert peers(port, before) == {"127.0.0.79"}


async def test_all_is_counted_and_each_side_sees_its_own_half(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(DRAFT, folder, https=True) as pipeline,
        running_relay(https_port(pipeline), pipeline.authority, tmp_path) as relay,
    ):
        port = int(https_port(pipeline).rpartition(":")[2])
        before = connections(port)
        async with Device(**arguments(pipeline, relay, tmp_path / "one.db"), ticket=pipeline.ticket("one")) as one:
            assert (await one.submit({"theme": "dark"})).used
        async with Fleet(**arguments(pipeline, relay, tmp_path / "many.db"), tickets=pipeline.ticket) as many:
            answers = [(str(number), {"theme": "light"}) for number in range(DEVICES)]
            assert (await many.submit_many(answers, 0)).accepted == DEVICES
        # Devices connected to the relay alone, and nothing but the relay to the shuffler.
        assert peers(port, before) == {SEEN_FROM}
        seen = relay.seen.read_bytes()
        await pipeline.close_round(0)
        results = await pipeline.results(0)
    (query,) = verify(results.certificate, Pins()).content["queries"]
    assert query["valid"] == DEVICES + 1
    task = pipeline.task.task
    for secret in (task.id, task.name.encode(), b"SubmissionService", b"application/proto", NOWHERE[8:].encode()):
        assert secret not in seen
    needles = [SEEN_FROM.encode(), b"127.0.0.78".replace(b".", b"%2E")]
    assert not [
        path for path in folder.rglob("*") if path.is_file() and any(each in path.read_bytes() for each in needles)
    ]


async def test_requests_of_one_kind_have_one_length(pipeline: LocalPipeline, tmp_path: Path) -> None:
    async with running_relay(https_port(pipeline), pipeline.authority, tmp_path) as relay:
        for name in ("first", "a second one"):
            given = arguments(pipeline, relay, tmp_path / f"{name}.db")
            async with Device(**given, name=name, ticket=pipeline.ticket(name)) as device:
                assert (await device.submit({"theme": "dark"})).used
        lengths = [line for line in relay.seen.read_bytes().splitlines() if line.endswith(b" bytes")]
    half = len(lengths) // 2
    assert lengths[:half] == lengths[half:]


async def test_a_relay_that_changes_bytes_changes_no_answer(pipeline: LocalPipeline, tmp_path: Path) -> None:
    async with running_relay(https_port(pipeline), pipeline.authority, tmp_path, flip=2) as relay:
        given = arguments(pipeline, relay, tmp_path / "changed.db")
        patient = Retrying(RetryPolicy(total=CALL_SECONDS, first_pause=0.01))
        async with Device(**given, ticket=pipeline.ticket("changed"), retrying=patient) as device:
            assert (await device.submit({"theme": "dark"})).used


async def test_without_its_relay_a_device_calls_nobody(pipeline: LocalPipeline, tmp_path: Path) -> None:
    port = int(https_port(pipeline).rpartition(":")[2])
    async with running_relay(https_port(pipeline), pipeline.authority, tmp_path) as relay:
        # Both authorities: the way to the shuffler itself would be open.
        given = arguments(pipeline, relay, tmp_path / "down.db", pipeline.shuffler)
        given["authority"] = relay.authority.read_bytes() + pipeline.authority.read_bytes()
        await relay.stop()
        before = connections(port)
        async with Device(**given, ticket=pipeline.ticket("down"), retrying=SHORT) as device:
            with pytest.raises(Unreachable, match=r"relay at https://127\.0\.0\.1"):
                await device.submit({"theme": "dark"})
    assert peers(port, before) == set()


async def test_the_oblivious_key_changes_with_the_master_key_and_devices_go_on(
    pipeline: LocalPipeline, tmp_path: Path
) -> None:
    task = pipeline.task.task

    async def step(action: CredentialAction) -> None:
        control = pipeline.services[Role.SHUFFLER].addresses["control"]
        async with open_channel(control, pipeline.operator_tls) as channel:
            await ControlCaller(channel).manage_credentials(action, [], CALL_SECONDS)

    async with running_relay(https_port(pipeline), pipeline.authority, tmp_path) as relay:
        through = Relay(relay.url, lambda _successions: pipeline.shuffler_key, time.time)
        async with ShufflerLink(NOWHERE, TLS(relay.authority), through) as link:

            async def asked() -> int:
                key_set = await when_ready(lambda: link.caller.get_round(task.id, 0, CALL_SECONDS))
                record = through.known()
                assert key_set
                assert record is not None
                return record.configuration.key_id

            first = await asked()
            await step(CredentialAction.PREPARE)
            await step(CredentialAction.ACTIVATE)
            assert await asked() == first, "the retired key still opens"
            await step(CredentialAction.FORGET)
            assert await asked() == first + 1, "the device asked for the new key by itself"
