"""Listening: gRPC servers set up alike everywhere, and the ports they are bound to."""

from __future__ import annotations

import errno
import socket
from typing import Any

import grpc

from hubbub.protos.errors import HubbubError
from hubbub.protos.hosts import HostError, checked_address, parted
from hubbub.protos.transport import SERVER_SIZES

_REASONS = {
    errno.EADDRINUSE: "another process uses it, or the settings name it twice; stop that one, or name another port",
    errno.EADDRNOTAVAIL: "it is not an address of this machine; name one that is, or 0.0.0.0 or [::] for all of them",
    errno.EACCES: "this account may not; ports below 1024 need a privilege, name a higher one",
}
"""What a refused port means, and what to do."""

_OPTIONS: tuple[tuple[str, int], ...] = (
    # On by default: a second server would silently share the port.
    ("grpc.so_reuseport", 0),
    *SERVER_SIZES,
)


def new_server(maximum_concurrent_calls: int | None = None) -> grpc.aio.Server:
    """Make a server without ports; calls above the maximum are answered RESOURCE_EXHAUSTED."""
    return grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=maximum_concurrent_calls)


def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials) -> int:
    """Bind `address` (host:port; port 0 takes a free one) and return the port.

    Raises:
        HubbubError: where the address is not one, is taken, or is not this machine's.
    """
    try:
        address = checked_address(address, listening=True)
    except HostError as error:
        raise HubbubError(f"cannot listen on {address}: {error}") from error
    check_free(address)
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise HubbubError(f"cannot listen on {address}: {error}") from error
    if port == 0:
        raise HubbubError(f"cannot listen on {address}: gRPC gives no reason; look at its port and the TLS files")
    return port


def check_free(address: str) -> None:
    """Return only if a port could be opened at host:port a moment ago.

    gRPC does not say what is in the way, and writes lines of its own into the log; so it is asked only afterwards.

    Raises:
        HubbubError: saying what is in the way.
    """
    places = resolved(address)
    failures = [failure for family, where in places if (failure := _refused(family, where))]
    # A name may have an address of a family that this machine does not have; gRPC leaves that one out, too.
    taken = [failure for failure in failures if failure.errno == errno.EADDRINUSE]
    if taken or len(failures) == len(places):
        raise cannot_listen(address, (taken or failures)[0])


def resolved(address: str) -> list[tuple[socket.AddressFamily, Any]]:
    """Return the families and socket addresses of host:port.

    Raises:
        HubbubError: where its name is not known here.
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
