"""GRPC servers set up alike everywhere, and the ports they are bound to."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Any

import grpc

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.addresses import HostError, checked_address, parted
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, MAXIMUM_RESULTS_BYTES

_REASONS = {
    errno.EADDRINUSE: "another process uses it, or the settings name it twice; stop that one, or name another port",
    errno.EADDRNOTAVAIL: "it is not an address of this machine; name one that is, or 0.0.0.0 or [::] for all of them",
    errno.EACCES: "this account may not; ports below 1024 need a privilege, name a higher one",
}
"""What a refused port means, and what to do."""

HANDSHAKE_SECONDS = 10.0
"""How long a connection may take to agree on TLS; a socket that says nothing is closed then."""

STREAM_WINDOW_BYTES = 65_535
"""What a call may send before its message is read; from then on, all of the message."""

PENDING_CALLS = 8192
"""Calls that gRPC has and the event loop has not taken yet: it takes some thousands a second. Each holds kilobytes."""


@dataclass(frozen=True)
class Connections:
    """What a server takes of its connections; none of it is counted, as gRPC does not say what it turned away."""

    most: int = 2000
    """At once, those included that have not agreed on TLS yet; others are closed."""
    streams: int = 512
    """Calls at once on one connection; further ones wait at the caller."""
    idle_seconds: float = 300.0
    """How long one without calls is kept."""
    age_seconds: float | None = None
    """How long one is kept; None is for ever. Its calls may finish, `grace_seconds` long; a caller connects again."""
    grace_seconds: float = 60.0

    def options(self, largest: int, *, shared: bool = False) -> tuple[tuple[str, int], ...]:
        """Return the options of gRPC; `largest` is the bytes of the largest request, `shared` as in `listen`."""
        ages = (
            ()
            if self.age_seconds is None
            else (
                ("grpc.max_connection_age_ms", _milliseconds(self.age_seconds)),
                ("grpc.max_connection_age_grace_ms", _milliseconds(self.grace_seconds)),
            )
        )
        return (
            # On by default: a second server would silently share the port.
            ("grpc.so_reuseport", int(shared)),
            ("grpc.max_receive_message_length", largest),
            ("grpc.max_send_message_length", MAXIMUM_RESULTS_BYTES),
            # What is compressed reaches `pipeline` as it came, which refuses it; gRPC would make thousands of times
            # more.
            ("grpc.per_message_decompression", 0),
            ("grpc.max_allowed_incoming_connections", self.most),
            ("grpc.max_concurrent_streams", self.streams),
            ("grpc.max_connection_idle_ms", _milliseconds(self.idle_seconds)),
            *ages,
            ("grpc.server_handshake_timeout_ms", _milliseconds(HANDSHAKE_SECONDS)),
            # Above the first, gRPC turns calls away at random until they are taken, above the second each.
            ("grpc.server.max_pending_requests", PENDING_CALLS),
            ("grpc.server.max_pending_requests_hard_limit", 2 * PENDING_CALLS),
            ("grpc.http2.max_ping_strikes", 2),
            # Windows that grow by themselves would hold megabytes of calls that nobody reads.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES),
        )


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def new_server(
    connections: Connections | None = None, largest: int = MAXIMUM_MESSAGE_BYTES, *, shared: bool = False
) -> grpc.aio.Server:
    """Make a server without ports, which receives no request above `largest` bytes; `shared` as in `listen`."""
    return grpc.aio.server(options=(connections or Connections()).options(largest, shared=shared))


def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials, *, shared: bool = False) -> int:
    """Bind `address` (host:port; port 0 takes a free one) and return the port.

    A `shared` port is one that this service reserved (`reserve`), and that several of its processes listen at.

    Raises:
        HubbubError: if the address is not one, is taken, or is not this machine's.
    """
    address = listening_address(address)
    if not shared:
        check_free(address)
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise HubbubError(f"cannot listen on {address}: {error}") from error
    if port == 0:
        raise HubbubError(f"cannot listen on {address}: gRPC gives no reason; look at its port and the TLS files")
    return port


def reserve(address: str) -> tuple[str, list[socket.socket]]:
    """Keep a port (0 takes a free one) for processes of this service; return host:port, and what keeps it until closed.

    They listen at it together, and the system shares connections out among them. Programs of others get it no more.

    Raises:
        HubbubError: if the address is not one, is taken, or is not this machine's.
    """
    check_free(address)
    host, port = parted(address)
    kept: list[socket.socket] = []
    failures = []
    for family, where in resolved(address):
        # A name's further addresses have the port that the first one was given.
        number = port or (kept[0].getsockname()[1] if kept else 0)
        try:
            kept.append(_kept(family, (where[0], number, *where[2:])))
        except OSError as error:
            failures.append(error)
    # As in `check_free`: an address of a family that this machine does not have is left out.
    taken = [failure for failure in failures if failure.errno == errno.EADDRINUSE]
    if taken or not kept:
        for each in kept:
            each.close()
        raise cannot_listen(address, (taken or failures)[0])
    return f"{host}:{kept[0].getsockname()[1]}", kept


def _kept(family: socket.AddressFamily, where: Any) -> socket.socket:
    """Return a socket that is bound there, beside which processes of this account can listen that share the port."""
    try:
        return _bound(family, where, socket.SO_REUSEPORT)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    # With this option connections of a service that has just ended are not in the way. It is the second choice: until
    # somebody listens, whoever has it as well is not kept from the port.
    return _bound(family, where, socket.SO_REUSEPORT, socket.SO_REUSEADDR)


def _bound(family: socket.AddressFamily, where: Any, *options: int) -> socket.socket:
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            found.setsockopt(socket.SOL_SOCKET, option, 1)
        found.bind(where)
    except BaseException:
        found.close()
        raise
    return found


def check_free(address: str) -> None:
    """Return only if a port could be opened at host:port a moment ago.

    gRPC does not say what is in the way, and writes lines of its own into the log; so it is asked only afterwards.

    Raises:
        HubbubError: saying what is in the way.
    """
    addresses = resolved(address)
    failures = [failure for family, where in addresses if (failure := _refused(family, where))]
    # A name may have an address of a family that this machine does not have; gRPC leaves that one out, too.
    taken = [failure for failure in failures if failure.errno == errno.EADDRINUSE]
    if taken or len(failures) == len(addresses):
        raise cannot_listen(address, (taken or failures)[0])


def listening_address(address: str) -> str:
    """Return host:port to listen at, as it is written in one way.

    Raises:
        HubbubError: if it is not one.
    """
    try:
        return checked_address(address, listening=True)
    except HostError as error:
        raise HubbubError(f"cannot listen on {address}: {error}") from error


def resolved(address: str) -> list[tuple[socket.AddressFamily, Any]]:
    """Return the families and socket addresses of host:port.

    Raises:
        HubbubError: if its name is not known here.
    """
    host, port = parted(address)
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise HubbubError(f"cannot listen on {address}: {host} has no address here ({error.strerror})") from error
    return [(family, where) for family, _, _, _, where in found]


def _refused(family: socket.AddressFamily, where: Any) -> OSError | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As gRPC does: connections of a service that has just ended are not in the way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        return error
    return None


def cannot_listen(address: str, error: OSError) -> HubbubError:
    """Return the error for an address at which the system opens no port."""
    return HubbubError(f"cannot listen on {address}: {_REASONS.get(error.errno or 0, error.strerror or str(error))}")
