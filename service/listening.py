"""Listening: gRPC servers set up alike everywhere, and the ports they are bound to."""

from __future__ import annotations

import re

import grpc

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport import LARGEST_PORT, SIZE_OPTIONS

_ADDRESS = re.compile(r".+:([0-9]{1,5})")
_OPTIONS: tuple[tuple[str, int], ...] = (
    # On by default: a second server would silently share the port.
    ("grpc.so_reuseport", 0),
    *SIZE_OPTIONS,
)


def new_server(maximum_concurrent_calls: int | None = None) -> grpc.aio.Server:
    """Make a server without ports; calls above the maximum are answered RESOURCE_EXHAUSTED."""
    return grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=maximum_concurrent_calls)


def listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials) -> int:
    """Bind `address` (host:port; port 0 takes a free one) and return the port.

    Raises:
        HubbubError: where the address is taken or no address.
    """
    match = _ADDRESS.fullmatch(address)
    if not match or int(match[1]) > LARGEST_PORT:  # gRPC would take 65,537 for 1
        raise HubbubError(f"cannot listen on {address}: it is not host:port with a port from 0 to {LARGEST_PORT}")
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise HubbubError(_cannot_listen(address)) from error
    if port == 0:
        raise HubbubError(_cannot_listen(address))
    return port


def _cannot_listen(address: str) -> str:
    # gRPC does not say which of them it is.
    causes = "another process uses it, it is not an address of this machine, or a TLS file is malformed"
    return f"cannot listen on {address}: {causes}"
