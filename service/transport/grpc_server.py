"""Sets up gRPC servers with the same options everywhere, and binds their ports."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.addresses import HostError, checked_address, parted
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, MAXIMUM_RESULTS_BYTES, check_polling

EVERYWHERE = ("0.0.0.0", "[::]")  # noqa: S104 - recognized, not bound
"""Hosts that mean every address of a machine, whether of IPv4 or IPv6."""

_REASONS = {
    errno.EADDRINUSE: "another process uses it, or the settings name it twice; stop that process, or name another port",
    errno.EADDRNOTAVAIL: "it is not an address of this machine; name one of its addresses, or 0.0.0.0 or [::] for all",
    errno.EACCES: "this account is not allowed to, since ports below 1024 need a privilege; name a higher port",
}
"""Causes and remedies of a port that cannot be bound."""

FREE_PORTS_TRIED = 10
"""Ports that are tried if 0 asks for a free one: one that is free at an address of a name may be taken at another."""

HANDSHAKE_SECONDS = 10.0
"""How long a TLS handshake may take; then a silent connection is closed."""

STREAM_WINDOW_BYTES = 65_535
"""Bytes that a call may send before its message is read; after that, the whole message."""

PENDING_CALLS = 8192
"""Calls in gRPC's queue for the event loop, which takes some thousands a second. Each uses kilobytes."""


@dataclass(frozen=True)
class Connections:
    """The limits of a server's connections; excesses are not counted, since gRPC does not report them."""

    most: int = 2000
    """Connections at once, including those in their TLS handshake; further ones are closed."""
    streams: int = 512
    """Calls at once on one connection; further ones wait at the caller."""
    idle_seconds: float = 300.0
    """How long a connection without calls is kept."""
    age_seconds: float | None = None
    """How long a connection is kept; None is forever. Its calls may finish within `grace_seconds`; a caller reconnects.
    """
    grace_seconds: float = 60.0

    def options(self, largest: int, *, shared: bool = False) -> tuple[tuple[str, int], ...]:
        """Return gRPC's options; `largest` is the size in bytes of the largest request, `shared` as in `listen`."""
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
            # Compressed messages reach `pipeline` unchanged, which refuses them; gRPC would expand them a
            # thousandfold.
            ("grpc.per_message_decompression", 0),
            ("grpc.max_allowed_incoming_connections", self.most),
            ("grpc.max_concurrent_streams", self.streams),
            ("grpc.max_connection_idle_ms", _milliseconds(self.idle_seconds)),
            *ages,
            ("grpc.server_handshake_timeout_ms", _milliseconds(HANDSHAKE_SECONDS)),
            # Above the first limit, gRPC rejects calls at random until the queue shrinks; above the second, all calls.
            ("grpc.server.max_pending_requests", PENDING_CALLS),
            ("grpc.server.max_pending_requests_hard_limit", 2 * PENDING_CALLS),
            ("grpc.http2.max_ping_strikes", 2),
            # Windows that grow by themselves would buffer megabytes of unread calls.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES),
        )


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def new_server(
    connections: Connections | None = None, largest: int = MAXIMUM_MESSAGE_BYTES, *, shared: bool = False
) -> grpc.aio.Server:
    """Make a server without ports that receives no request above `largest` bytes; `shared` as in `listen`.

    Raises:
        CannotCall: as `check_polling`.
    """
    check_polling()
    return grpc.aio.server(options=(connections or Connections()).options(largest, shared=shared))


def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials, *, shared: bool = False) -> int:
    """Bind `address` (host:port; port 0 takes a free one) and return the port.

    A `shared` port is one that this service reserved (`reserve`), and at which several of its processes listen.

    Raises:
        HubbubError: if the address is not one, is taken, or is not this machine's.
    """
    address = listening_address(address)
    if not shared:
        check_free(address)
        address = _chosen(address)
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise HubbubError(f"cannot listen on {address}: {error}") from error
    if port == 0:
        raise HubbubError(f"cannot listen on {address}: gRPC gives no reason; check its port and the TLS files")
    return port


def _chosen(address: str) -> str:
    """Return host:port, with a free port in place of 0 if the host has several addresses.

    gRPC takes a port that is free at one of them, and leaves the others to the process that has it there.
    """
    host, port = parted(address)
    if port or len(resolved(address)) == 1:
        return address
    found = _at_each(address, lambda family, where: _bound(family, where, socket.SO_REUSEADDR))
    port = found[0].getsockname()[1]
    for each in found:
        each.close()
    return f"{host}:{port}"


def reserve(address: str) -> tuple[str, list[socket.socket]]:
    """Reserve a port (0 takes a free one) for processes of this service; return host:port, and sockets that reserve it.

    The processes listen at it together, and the system distributes connections among them. Programs of other accounts
    cannot bind it while the sockets are open.

    Raises:
        HubbubError: if the address is not one, is taken, or is not this machine's.
    """
    check_free(address)
    kept = _at_each(address, _kept)
    return f"{parted(address)[0]}:{kept[0].getsockname()[1]}", kept


def opened(address: str, backlog: int, *, shared: bool = False) -> list[socket.socket]:
    """Listen at host:port (port 0 takes a free one) at every address that it names, as gRPC does; `shared` as there.

    Raises:
        HubbubError: if the address is taken, or is not this machine's.
    """

    def listening(family: socket.AddressFamily, where: Any) -> socket.socket:
        both = family == socket.AF_INET6 and _is_everywhere(where[0])
        return socket.create_server(where, family=family, backlog=backlog, reuse_port=shared, dualstack_ipv6=both)

    return _at_each(address, listening)


def _at_each(address: str, bind: Callable[[socket.AddressFamily, Any], socket.socket]) -> list[socket.socket]:
    """Return a socket for each address of host:port, all with one port; one socket is enough for every address.

    Raises:
        HubbubError: if the port is taken at one of them, or this machine has none of them.
    """
    _, port = parted(address)
    addresses = resolved(address)
    for _ in range(1 if port else FREE_PORTS_TRIED):
        found, failures = _bound_each(addresses, port, bind)
        # As in `check_free`: an address of a family that this machine lacks is left out.
        taken = [failure for failure in failures if failure.errno == errno.EADDRINUSE]
        if found and not taken:
            return found
        for each in found:
            each.close()
    raise cannot_listen(address, (taken or failures)[0])


def _bound_each(
    addresses: list[tuple[socket.AddressFamily, Any]],
    port: int,
    bind: Callable[[socket.AddressFamily, Any], socket.socket],
) -> tuple[list[socket.socket], list[OSError]]:
    found: list[socket.socket] = []
    failures = []
    for family, where in addresses:
        if found and _is_everywhere(where[0]):
            break  # the socket of IPv6 is at the addresses of IPv4, too
        # Further addresses of the name use the port of the first one.
        number = port or (found[0].getsockname()[1] if found else 0)
        try:
            found.append(bind(family, (where[0], number, *where[2:])))
        except OSError as error:
            failures.append(error)
    return found, failures


def _kept(family: socket.AddressFamily, where: Any) -> socket.socket:
    """Return a socket bound there; other processes of this account can bind the same port and listen."""
    try:
        return _bound(family, where, socket.SO_REUSEPORT)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    # With this option, old connections of a service that has just ended do not block the port. It is the second choice:
    # until a process listens, other programs with the option can also bind the port.
    return _bound(family, where, socket.SO_REUSEPORT, socket.SO_REUSEADDR)


def _bound(family: socket.AddressFamily, where: Any, *options: int) -> socket.socket:
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            found.setsockopt(socket.SOL_SOCKET, option, 1)
        at_both_families(found)
        found.bind(where)
    except BaseException:
        found.close()
        raise
    return found


def check_free(address: str) -> None:
    """Check that a port can be opened at host:port at this moment.

    gRPC does not report the cause of a failure, and writes its own lines into the log. So it is tried only afterwards.

    Raises:
        HubbubError: naming the cause.
    """
    addresses = resolved(address)
    failures = [failure for family, where in addresses if (failure := _refused(family, where))]
    # A name may have an address of a family that this machine lacks; gRPC leaves that one out, too.
    taken = [failure for failure in failures if failure.errno == errno.EADDRINUSE]
    if taken or len(failures) == len(addresses):
        raise cannot_listen(address, (taken or failures)[0])


def listening_address(address: str) -> str:
    """Return host:port to listen at, in its normal form.

    Raises:
        HubbubError: if it is not one.
    """
    try:
        return checked_address(address, listening=True)
    except HostError as error:
        raise HubbubError(f"cannot listen on {address}: {error}") from error


def at_both_families(found: socket.socket) -> None:
    """Have a socket of IPv6 that is to be at every address be at those of IPv4, too, whatever the system's rule is."""
    if found.family == socket.AF_INET6:
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)


def _is_everywhere(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_unspecified


def resolved(address: str) -> list[tuple[socket.AddressFamily, Any]]:
    """Return the families and socket addresses of host:port.

    gRPC takes 0.0.0.0 and [::] alike: as every address, of IPv4 and IPv6. So both are both here.

    Raises:
        HubbubError: if the host name cannot be resolved.
    """
    host, port = parted(address)
    if host in EVERYWHERE:
        return [(socket.AF_INET6, ("::", port, 0, 0)), (socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - as it is set
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise HubbubError(
            f"cannot listen on {address}: {host} has no address on this machine ({error.strerror}); name one of its "
            "addresses, or 0.0.0.0 or [::] for all"
        ) from error
    return [(family, where) for family, _, _, _, where in found]


def _refused(family: socket.AddressFamily, where: Any) -> OSError | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # As gRPC does: old connections of a service that has just ended do not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            at_both_families(probe)
            probe.bind(where)
    except OSError as error:
        return error
    return None


def cannot_listen(address: str, error: OSError) -> HubbubError:
    """Return the error for an address at which the system refuses to open a port."""
    return HubbubError(f"cannot listen on {address}: {_REASONS.get(error.errno or 0, error.strerror or str(error))}")
