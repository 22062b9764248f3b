"""Ports that processes of a service share are kept for them from the start, at whatever addresses the machine has."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from hubbub.protos.errors import HubbubError
from hubbub.service.transport import grpc_server


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
            with pytest.raises(HubbubError, match=f"cannot listen on {address}: another process uses it"):
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
    with sharing("127.0.0.2:0") as taken:
        port = taken.getsockname()[1]
        addresses = [(socket.AF_INET, (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
        monkeypatch.setattr(grpc_server, "resolved", lambda _address: addresses)
        monkeypatch.setattr(grpc_server, "check_free", lambda _address: None)
        with pytest.raises(HubbubError, match="another process uses it"):
            grpc_server.reserve(f"somewhere:{port}")
        # The first one is free again.
        with socket.socket() as free:
            free.bind(("127.0.0.1", port))
