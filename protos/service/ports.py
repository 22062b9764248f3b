"""Ports: a service's gRPC servers, brought up and drained together, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

import grpc
import structlog

from hubbub.protos import transport

DRAIN_SECONDS = 10.0
"""How long calls in work may take to finish when a service stops."""

Announce = Callable[[dict[str, str]], None]
"""Is told the addresses of a service's ports, by name, once they serve."""

_LOG = structlog.get_logger(__name__)


class Ports:
    """A service's servers with their health services."""

    def __init__(self) -> None:
        self._servers: list[grpc.aio.Server] = []
        self._healths: list[transport.Health] = []
        self._addresses: dict[str, str] = {}

    async def open(
        self, name: str, address: str, service: str, server: grpc.aio.Server, credentials: grpc.ServerCredentials
    ) -> None:
        """Listen at an address with a server that carries `service`.

        Raises:
            HubbubError: where the address cannot be used; the ports opened before are closed.
        """
        try:
            self._healths.append(transport.Health(server, [service]))
            port = transport.listen(server, address, credentials)
            self._servers.append(server)
            self._addresses[name] = f"{address.rpartition(':')[0]}:{port}"
            await server.start()
        except BaseException:
            await asyncio.gather(*(opened.stop(None) for opened in self._servers))
            raise

    async def serving(self, announce: Announce | None) -> None:
        """Say that all ports serve."""
        for health in self._healths:
            await health.serving()
        _LOG.info("serving", **self._addresses)
        if announce is not None:
            announce(self._addresses)

    async def drain(self) -> None:
        """Take no new calls, finish those in work, and close."""
        _LOG.info("draining")
        for health in self._healths:
            await health.leaving()
        await asyncio.gather(*(server.stop(DRAIN_SECONDS) for server in self._servers))


@contextlib.contextmanager
def asked_to_stop(stop: asyncio.Event | None) -> Iterator[asyncio.Event]:
    """Give the event that ends the service: `stop`, or one that SIGTERM and SIGINT set from now on."""
    if stop is not None:
        yield stop
        return
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        yield asked
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
