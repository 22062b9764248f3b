"""Ports that processes of a service share are kept for them from the start, at whatever addresses the machine has."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.addresses import bracketed
from hubbub.protos.transport.channels import TLS, read_pem
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport import grpc_server
from hubbub.service.transport.grpc_server import Connections
from hubbub.service.transport.https_server import ConnectionLimits, HttpsServer
from hubbub.service.transport.metrics_port import MetricsPort
from support.ended_with_test import opened_server
from support.ipv6 import IPV6
from support.messages import PORT_IN_USE
from support.samples import make_tls


@contextlib.contextmanager
def reserved(address: str) -> Iterator[str]:
    found, kept = grpc_server.reserve(address)
    try:
        yield found
    finally:
        for each in kept:
            each.close()


def sharing(address: str, *options: int) -> socket.socket:
    """A socket that listens as gRPC does, with those options."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as closing:
        found = closing.enter_context(socket.socket())
        for option in (socket.SO_REUSEADDR, *options):
            found.setsockopt(socket.SOL_SOCKET, option, 1)
        found.bind((host, int(port)))
        found.listen()
        closing.pop_all()
    return found


def test_a_port_is_kept_from_others_also_before_anybody_listens() -> None:
    """Of two shufflers that start at one port, one is refused: its devices would be answered by the other."""
    with reserved("127.0.0.1:0") as address:
        for attempt in (grpc_server.reserve, grpc_server.check_free):
            with pytest.raises(HubbubError, match=f"cannot listen on {address}: {PORT_IN_USE}"):
                attempt(address)
        with pytest.raises(OSError, match="in use"):
            sharing(address)
        with sharing(address, socket.SO_REUSEPORT), sharing(address, socket.SO_REUSEPORT):
            pass


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEPORT,)])
def test_connections_of_a_service_that_has_ended_are_not_in_the_way(options: tuple[int, ...]) -> None:
    with sharing("127.0.0.1:0", *options) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with socket.create_connection(server.getsockname()):
            # Closed here first: it is this end that the system keeps for a minute.
            server.accept()[0].close()
    with reserved(address) as found:
        assert found == address


NOWHERE = (socket.AF_INET6, ("2001:db8::1", 0, 0, 0))


def reached(port: int) -> set[str]:
    """At which of this machine's two loopback addresses somebody listens."""
    found = set()
    for host in ("127.0.0.1", "::1"):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((host, port), 10.0):
            found.add(host)
    return found


def answered(port: int, tls: TLS, *hosts: str) -> None:
    """Have an HTTPS port answer at each of these hosts."""
    context = ssl.create_default_context(cadata=read_pem(tls.authority).decode())
    for host in hosts:
        with (
            socket.create_connection((host, port), 10.0) as bare,
            context.wrap_socket(bare, server_hostname="localhost") as connection,
        ):
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(8) == b"HTTP/1.1"


@contextlib.asynccontextmanager
async def https_at(address: str, tls: TLS) -> AsyncIterator[int]:
    """An HTTPS port at that address."""
    router, limits = submission_router(None, RequestPipeline()), ConnectionLimits(Connections())  # type: ignore[arg-type]
    server = HttpsServer(router, limits, tls, lambda: 0)
    try:
        yield server.listen(address)
    finally:
        await server.close(None)


def test_a_free_port_is_free_at_every_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is free at the first address only would leave clients of the second with another process."""
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    create = socket.create_server
    with create(("127.0.0.2", 0)) as stranger:
        taken = [stranger.getsockname()[1]]

        def create_server(where: tuple[str, int], **options: Any) -> socket.socket:
            """Take the stranger's port as a free one at first, as the system may."""
            return create((where[0], taken.pop()) if where[1] == 0 and taken else where, **options)

        monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: both)
        monkeypatch.setattr(socket, "create_server", create_server)
        found = grpc_server.opened("two-addresses:0", 1)
        ports = {each.getsockname()[1] for each in found}
        for each in found:
            each.close()
        asked: list[str] = []

        def add_secure_port(address: str, _credentials: object) -> int:
            asked.append(address)
            return 7

        server: Any = SimpleNamespace(add_secure_port=add_secure_port)
        grpc_server.listen(server, "two-addresses:0", Any)  # type: ignore[arg-type] # no server looks at it
        assert not taken
        assert len(found) == 2
        assert len(ports) == 1
        assert stranger.getsockname()[1] not in ports
    # gRPC is given a port: it would take any that is free at one of the addresses.
    assert asked != ["two-addresses:0"]


@pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
async def test_every_address_is_one_of_ipv4_and_ipv6_at_each_kind_of_port(address: str, tmp_path: Path) -> None:
    """gRPC takes both so, whichever is named. A firewall for one family would leave the other open, unseen."""
    tls = make_tls(tmp_path, "service")["service"]
    async with opened_server() as server:
        port = grpc_server.listen(server, address, tls.server(mutual=False))
        await server.start()
        assert reached(port) == {"127.0.0.1", "::1"}
        for host in ("127.0.0.1", "::1"):
            with pytest.raises(HubbubError, match=PORT_IN_USE):
                grpc_server.check_free(f"{bracketed(host)}:{port}")
    async with https_at(address, tls) as port:
        await asyncio.to_thread(answered, port, tls, "127.0.0.1", "::1")
    metrics = MetricsPort(address, CollectorRegistry(), tls)
    found = await asyncio.to_thread(reached, int(metrics.address.rpartition(":")[2]))
    metrics.close()
    assert found == {"127.0.0.1", "::1"}


@pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0", "[::]"])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_somebody_has_in_one_family_is_taken(address: str, family: socket.AddressFamily, host: str) -> None:
    """Else devices of that family would be answered by somebody else, and gRPC would not say so."""
    with socket.create_server((host, 0), family=family) as taken:
        where = f"{address}:{taken.getsockname()[1]}"
        for attempt in (grpc_server.check_free, grpc_server.reserve, lambda found: grpc_server.opened(found, 1)):
            with pytest.raises(HubbubError, match=PORT_IN_USE):
                attempt(where)


def test_without_ipv6_every_address_is_every_one_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def without(family: int = socket.AF_INET, *given: int, **named: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *given, **named)

    monkeypatch.setattr(socket, "socket", without)
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: True)
    for found in (grpc_server.opened("[::]:0", 1), grpc_server.reserve("[::]:0")[1]):
        assert [each.getsockname()[0] for each in found] == ["0.0.0.0"]
        for each in found:
            each.close()


async def test_an_https_port_of_a_name_is_at_all_of_its_addresses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    addresses: list[Any] = [NOWHERE, (socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET, ("127.0.0.2", 0))]
    monkeypatch.setattr(grpc_server, "resolved", lambda _address: addresses)
    tls = make_tls(tmp_path, "service")["service"]
    async with https_at("somewhere:0", tls) as port:
        await asyncio.to_thread(answered, port, tls, "127.0.0.1", "127.0.0.2")


def test_a_name_is_reserved_at_those_of_its_addresses_that_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[Any] = [NOWHERE, (socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET, ("127.0.0.2", 0))]
    monkeypatch.setattr(grpc_server, "resolved", lambda _address: addresses)
    found, kept = grpc_server.reserve("somewhere:0")
    assert [each.getsockname()[0] for each in kept] == ["127.0.0.1", "127.0.0.2"]
    assert {f"somewhere:{each.getsockname()[1]}" for each in kept} == {found}
    for each in kept:
        each.close()
    monkeypatch.setattr(grpc_server, "resolved", lambda _address: [NOWHERE])
    with pytest.raises(HubbubError, match="cannot listen on somewhere:0: "):
        grpc_server.reserve("somewhere:0")


def test_nothing_is_kept_where_one_address_of_a_name_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, bind = [], grpc_server._kept

    def taken_at_the_second(family: socket.AddressFamily, where: Any) -> socket.socket:
        if where[0] == "127.0.0.2":
            raise OSError(errno.EADDRINUSE, "in use")
        kept.append(bind(family, where))
        return kept[-1]

    addresses = [(socket.AF_INET, (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(grpc_server, "resolved", lambda _address: addresses)
    monkeypatch.setattr(grpc_server, "check_free", lambda _address: None)
    monkeypatch.setattr(grpc_server, "_kept", taken_at_the_second)
    with pytest.raises(HubbubError, match=PORT_IN_USE):
        grpc_server.reserve("somewhere:0")
    assert len(kept) == grpc_server.FREE_PORTS_TRIED
    assert all(each.fileno() == -1 for each in kept)
