"""A whole deployment over IPv6: each port is called at [::1] by whoever calls it, and none is at an IPv4 address."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path

import pytest

from hubbub.client import Device
from hubbub.client.gateway import Gateway
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.addresses import HTTPS, parted
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.cli import hubbub
from support.ipv6 import IPV6
from support.metrics_scrape import scrape
from support.patience import PATIENCE

pytestmark = pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")

DEVICES = 6
FROM = "2001:db8::bad:cafe"
"""The address that callers claim to have; nobody here has it."""
BY_TEXT = f"PROXY TCP6 {FROM} 2001:db8::1 40000 7301\r\n".encode()
BY_BYTES = (
    b"\r\n\r\n\0\r\nQUIT\n"
    b"\x21\x21\x00\x24"
    + socket.inet_pton(socket.AF_INET6, FROM)
    + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + (40000).to_bytes(2, "big")
    + (7301).to_bytes(2, "big")
)
"""The two forms of the PROXY protocol, of which no port knows any."""


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator")
    return Draft("usage", schedule, DEVICES, Privacy(20.0, 1e-2, 20.0), (Histogram("theme", ("light", "dark")),))


class OverIPv6(LocalPipeline):
    """A pipeline whose ports are all at [::1]."""

    def _set(self, party: str, key: str, value: str | int) -> None:
        super()._set(party, key, value.replace("127.0.0.1", "[::1]") if isinstance(value, str) else value)


def place(address: str) -> tuple[str, int]:
    host, port = parted(address.removeprefix(HTTPS))
    return host.strip("[]"), port


def answered(address: str, sent: bytes) -> bytes:
    """What comes back to these bytes until the other end closes."""
    found = b""
    with contextlib.suppress(ConnectionError), socket.create_connection(place(address), 30.0) as stranger:
        stranger.sendall(sent + b"\x16\x03\x01")
        while piece := stranger.recv(4096):
            found += piece
    return found


async def test_a_round_goes_through_a_chain_whose_ports_are_all_ipv6(tmp_path: Path) -> None:
    """Devices by gRPC and by HTTPS, a gateway, the operator, health and metrics."""
    async with (
        asyncio.timeout(PATIENCE),
        OverIPv6(draft(), tmp_path / "pipeline", hops=2, https=True, behind_proxy=True) as running,
    ):
        addresses = running.services[Role.SHUFFLER].addresses
        assert {parted(each)[0] for each in addresses.values()} == {"[::1]"}
        for each in addresses.values():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", place(each)[1]), 5.0).close()
        ways = [f"{HTTPS}{addresses['https']}", addresses["submission"]]

        def device(name: str, shuffler: str) -> Device:
            return Device(
                running.task.encode(),
                operator_key=running.operator_key,
                shuffler_key=running.shuffler_key,
                state=running.folder.of("client") / f"{name}.db",
                shuffler=shuffler,
                authority=running.authority,
                ticket=running.ticket(name),
            )

        for number in range(DEVICES - 2):
            async with device(f"device {number}", ways[number % 2]) as each:
                assert (await each.submit({"theme": "dark"})).sent
        async with Gateway(shuffler=ways[1], authority=running.authority) as gateway:
            carried = [device(f"carried {number}", ways[1]) for number in range(2)]
            sealed = [await each.prepare({"theme": "light"}) for each in carried]
            outcomes = await gateway.carry([each for each in sealed if each is not None])
            for each, outcome in zip(carried, outcomes, strict=True):
                assert (await each.settle(outcome)).sent
                await each.close()
        # No port knows the PROXY protocol: whoever speaks it is not answered, and its address is nowhere.
        for way in ways:
            for header in (BY_TEXT, BY_BYTES):
                assert b"HTTP" not in await asyncio.to_thread(answered, way, header)
        operator = running.folder.of("operator") / "operator.toml"
        text = operator.read_text().replace("127.0.0.1:7302", addresses["control"])
        results = running.services[Role.ANALYZER].addresses["results"]
        hop = running.services["hop-2"].addresses["delivery"]
        operator.write_text(text.replace("127.0.0.1:7402", results).replace("127.0.0.1:7501", hop))
        shown = await asyncio.to_thread(hubbub, "status", operator, "--json")
        assert shown.status == 0, shown.err
        for service, folder in (("shuffler", "shuffler"), ("hop", "hop-2"), ("analyzer", "analyzer")):
            health = await asyncio.to_thread(hubbub, "health", service, running.folder.of(folder) / f"{service}.toml")
            assert health.status == 0, health.err
        assert (await scrape(addresses["metrics"])).text
        assert (await running.close_round()).submissions == DEVICES
        found = await running.results()
        named = running.task.task.identities
        assert verify(found.certificate, Pins(named.operator, named.shuffler, named.analyzer, named.hops))
        assert [query.valid for query in found.queries] == [DEVICES]
        logs = b"".join(path.read_bytes() for path in running.logs.iterdir())
    assert FROM.encode() not in logs
