"""The fake shuffler behind a real TLS port, and devices that talk to it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device, Fleet, Gateway, Retrying, RetryPolicy
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.transport import channels
from hubbub.service.rpc import serve_submissions
from hubbub.service.transport import grpc_server
from support.ended_with_test import opened_server
from support.fake_shuffler import Clock, FakeShuffler
from support.samples import Parties, make_tls, sample_task, signed


@pytest.fixture(scope="session")
def parties() -> Parties:
    return Parties.generate()


@pytest.fixture(scope="session")
def task(parties: Parties) -> Task:
    return sample_task(parties)


@pytest.fixture(scope="session")
def document(task: Task, parties: Parties) -> SignedTask:
    return signed(task, parties)


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> channels.TLS:
    return make_tls(tmp_path_factory.mktemp("tls"), "shuffler")["shuffler"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def retrying(clock: Clock) -> Retrying:
    return Retrying(RetryPolicy(total=30.0, call=5.0), monotonic=clock, sleep=clock.sleep)


@pytest.fixture
async def shuffler(task: Task, parties: Parties, tls: channels.TLS) -> AsyncIterator[FakeShuffler]:
    fake = FakeShuffler(task, parties)
    async with opened_server() as server:
        serve_submissions(server, fake)
        fake.address = f"127.0.0.1:{grpc_server.listen(server, '127.0.0.1:0', tls.server(mutual=False))}"
        await server.start()
        yield fake


@pytest.fixture
def settings(
    document: SignedTask, parties: Parties, tls: channels.TLS, clock: Clock, retrying: Retrying, tmp_path: Path
) -> dict[str, Any]:
    """What a device is made with, except for the shuffler's address."""
    return {
        "task": document.encode(),
        "operator_key": parties.operator.public,
        "shuffler_key": parties.shuffler.public,
        "state": tmp_path / "device.sqlite",
        "authority": tls.authority,
        "retrying": retrying,
        "clock": clock,
    }


@pytest.fixture
async def device(settings: dict[str, Any], shuffler: FakeShuffler) -> AsyncIterator[Callable[..., Device]]:
    made: list[Device] = []

    def make(**changes: Any) -> Device:
        made.append(Device(**{**settings, "shuffler": shuffler.address, **changes}))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def fleet(settings: dict[str, Any], shuffler: FakeShuffler) -> AsyncIterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(**changes: Any) -> Fleet:
        made.append(Fleet(**{**settings, "shuffler": shuffler.address, **changes}))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def gateway(settings: dict[str, Any], shuffler: FakeShuffler) -> AsyncIterator[Gateway]:
    """What carries sealed submissions; nothing of it is on disk."""
    given = {name: settings[name] for name in ("authority", "retrying")}
    async with Gateway(shuffler=shuffler.address, **given) as one:
        yield one


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """The fake's failures are on purpose; their tracebacks are of no interest."""
    logger = logging.getLogger("hubbub.service.rpc.pipeline")
    logger.disabled = True
    yield
    logger.disabled = False
