"""Behind a relay the shuffler works as ever, and no service writes down from where a submission came, relay or not.

The relay stands for any peer: its own address, 127.0.0.77, is what the shuffler's sockets see. It is one that nothing
else on this machine has, so it can be looked for. It passes bytes on and opens no TLS, as `stream` of nginx does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import Device, Fleet, Refusal
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.messages import Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import FEW

SEEN_FROM = "127.0.0.77"
SOCKET_BYTES = socket.inet_aton(SEEN_FROM)
DEVICES = 40
DRAFT = Draft(
    "usage",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0, large_delta=FEW),
    (Histogram("theme", ("light", "dark")),),
)


class Relay:
    """Passes every connection on to a service, from an address of its own; `ports` are those it had there."""

    def __init__(self, service: str) -> None:
        self._host, _, self._port = service.rpartition(":")
        self.ports: list[int] = []
        self.address = ""

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Relay]:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(self._host, int(self._port), local_addr=(SEEN_FROM, 0))
        host, port = ours.get_extra_info("sockname")[:2]
        assert host == SEEN_FROM
        self.ports.append(port)
        await asyncio.gather(_copy(reader, ours), _copy(theirs, writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while some := await source.read(65_536):
            target.write(some)
            await target.drain()
    with contextlib.suppress(OSError):
        target.close()


def needles(ports: list[int]) -> list[bytes]:
    """The peer's address as text and as a socket's bytes, and its ports as they stand behind a host.

    Four given bytes are among the 100,000 or so of envelopes and keys with a chance of 2e-5. So the socket's bytes are
    looked for twice in a file: false alarms below 1e-9. Each connection that is written down has them once.
    """
    hosts = [SEEN_FROM.encode(), SOCKET_BYTES]
    return [*hosts, *(form % port for port in ports for form in (b":%d", b"%%3A%d", b'"port":%d', b"port=%d"))]


def written(folder: Path, wanted: list[bytes]) -> Iterator[tuple[Path, bytes]]:
    """Every file of a pipeline in which one of these stands."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            yield from ((path, each) for each in wanted if content.count(each) >= (2 if each == SOCKET_BYTES else 1))


def device(pipeline: LocalPipeline, relay: Relay, state: Path) -> dict[str, Any]:
    return {
        "task": pipeline.task.encode(),
        "operator_key": pipeline.operator_key,
        "shuffler_key": pipeline.shuffler_key,
        "state": state,
        "shuffler": relay.address,
        "authority": pipeline.authority,
    }


async def misbehave(pipeline: LocalPipeline, relay: Relay) -> None:
    """What a service has most reason to write down: refusals, bytes that are no TLS, a handshake that breaks off."""
    task = pipeline.task.task
    async with open_channel(relay.address, TLS(pipeline.authority)) as channel:
        caller = SubmissionCaller(channel)
        for here in (Destination(task.id, 0, bytes(32)), Destination(bytes(32), 0, bytes(32))):
            for length in (5, task.outer_bytes):
                with pytest.raises(Refusal):
                    await caller.submit(here, Submission(os.urandom(16), bytes(length)), CALL_SECONDS)
    host, _, port = relay.address.rpartition(":")
    for rubbish in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", bytes(5000)):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(rubbish)
        writer.write_eof()
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()


def test_an_address_that_is_written_is_found(tmp_path: Path) -> None:
    """The look itself can fail: in the forms in which gRPC, a log and a socket's name would have it."""
    for place, text in enumerate((f"ipv4:{SEEN_FROM}:5", "peer=ipv4%3A127.0.0.1%3A51234", "from ('127.0.0.1:51234')")):
        (tmp_path / f"{place}.log").write_text(f"a line\n{text} and more\n")
    assert {path.name for path, _ in written(tmp_path, needles([51234]))} == {"0.log", "1.log", "2.log"}
    (tmp_path / "3.log").write_bytes(2 * (b"a row" + SOCKET_BYTES))
    assert [path.name for path, _ in written(tmp_path, needles([]))] == ["0.log", "3.log"]


async def test_behind_a_relay_all_is_counted_and_no_address_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(DRAFT, folder) as pipeline,
        Relay(pipeline.shuffler).open() as relay,
    ):
        await misbehave(pipeline, relay)
        async with Device(**device(pipeline, relay, tmp_path / "one.db"), ticket=pipeline.ticket("one")) as one:
            assert (await one.submit({"theme": "dark"})).used
        async with Fleet(**device(pipeline, relay, tmp_path / "many.db"), tickets=pipeline.ticket) as many:
            answers = [(str(number), {"theme": "light"}) for number in range(DEVICES)]
            assert (await many.submit_many(answers, 0)).accepted == DEVICES
        assert list(written(folder, needles(relay.ports))) == []
        await pipeline.close_round(0)
        results = await pipeline.results(0)
        assert list(written(folder, needles(relay.ports))) == []
    assert len(relay.ports) >= 5
    assert list(written(folder, needles(relay.ports))) == []
    assert any(path.stat().st_size for path in (folder / "logs").iterdir())
    (query,) = verify(results.certificate, Pins()).content["queries"]
    assert query["valid"] == DEVICES + 1
