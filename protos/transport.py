"""Transport: TLS on every connection, and gRPC servers and channels set up alike everywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from hubbub.protos.errors import HubbubError

MAXIMUM_MESSAGE_BYTES = 8 * 1024 * 1024
"""Largest message either side takes: about 40,000 submissions, far above what one call carries."""

MAXIMUM_SUBMISSIONS = 10_000
"""Most submissions of one call: a message of the largest size could hold millions of empty ones."""

LARGEST_PORT = 65_535

_ADDRESS = re.compile(r".+:([0-9]{1,5})")
_OPTIONS: tuple[tuple[str, int], ...] = (
    # On by default: a second server would silently share the port.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAXIMUM_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAXIMUM_MESSAGE_BYTES),
)
_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    *_OPTIONS[1:],
    # A peer that was restarted is found again within seconds, not after gRPC's default of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A connection whose other end vanished is noticed.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


@dataclass(frozen=True)
class TLS:
    """PEM files of a party: its certificate and private key, and the authority it trusts (or that one's PEM itself)."""

    authority: Path | bytes
    certificate: Path | None = None
    key: Path | None = None

    def server(self, *, mutual: bool) -> grpc.ServerCredentials:
        """Credentials of a server; with `mutual`, clients must show a certificate of the same authority.

        Raises:
            HubbubError: where a file is missing.
        """
        pair = (_read(self.key), _read(self.certificate))
        return grpc.ssl_server_credentials([pair], _read(self.authority), require_client_auth=mutual)

    def client(self) -> grpc.ChannelCredentials:
        """Credentials of a client, with its own certificate where there is one.

        Raises:
            HubbubError: where a file is missing.
        """
        if self.certificate is None:
            return grpc.ssl_channel_credentials(_read(self.authority))
        return grpc.ssl_channel_credentials(_read(self.authority), _read(self.key), _read(self.certificate))


def _read(path: Path | bytes | None) -> bytes:
    if isinstance(path, bytes):
        return path
    if path is None:
        raise HubbubError("a TLS file is not named; settings need authority, certificate and key")
    try:
        return path.read_bytes()
    except OSError as error:
        raise HubbubError(f"cannot read {path}: {error.strerror}; `hubbub init` makes keys and certificates") from error


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
        raise HubbubError(f"cannot listen on {address}: it is no host:port with a port from 0 to {LARGEST_PORT}")
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise HubbubError(_cannot_listen(address)) from error
    if port == 0:
        raise HubbubError(_cannot_listen(address))
    return port


def _cannot_listen(address: str) -> str:
    # gRPC does not say which of them it is.
    causes = "another process uses it, it is no address of this machine, or a TLS file is malformed"
    return f"cannot listen on {address}: {causes}"


def open_channel(address: str, tls: TLS, name: str | None = None) -> grpc.aio.Channel:
    """Open a TLS channel to host:port; it connects at the first call and again whenever it has to.

    The other side's certificate must be for the host, or for `name` where one is given.
    """
    options = _CHANNEL_OPTIONS if name is None else (*_CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", name))
    return grpc.aio.secure_channel(address, tls.client(), options=options)


class Health:
    """The standard health and reflection services of a server; a service says when it serves."""

    def __init__(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        self._servicer = HealthServicer()
        self._services = ("", *services)
        # The servicer begins with SERVING for "", before the service can answer; its setter needs a running loop.
        self._servicer._server_status.update(dict.fromkeys(self._services, health_pb2.HealthCheckResponse.NOT_SERVING))
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        names = (*services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    async def serving(self) -> None:
        """Say SERVING for every service."""
        for service in self._services:
            await self._servicer.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def leaving(self) -> None:
        """Say NOT_SERVING for good: the server drains."""
        await self._servicer.enter_graceful_shutdown()


async def is_serving(channel: grpc.aio.Channel, deadline: float) -> bool:
    """Return whether the server at the other end says SERVING, waiting up to `deadline` seconds for a connection."""
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=deadline, wait_for_ready=True)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
