"""Serves HTTPS in a service's event loop: accepts connections, limits them by address, checks their time, drains them.

Connections are counted from their acceptance on, before the TLS handshake: in all, and by address if no proxy is in
front.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import socket
import ssl
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from email.utils import formatdate

import structlog

from hubbub.protos.transport.channels import TLS
from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.connect import ConnectRouter, Header
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.client_addresses import OpenConnections, network_of
from hubbub.service.transport.grpc_server import (
    Connections,
    listening_address,
    opened,
)
from hubbub.service.transport.http_connection import Connection
from hubbub.service.transport.tls_connection import DROPPED_BYTES, READ_BYTES, TlsConnection
from hubbub.service.transport.tls_reload import ReloadingContext, server_context

LOOK_SECONDS = 1.0
"""The longest time between two checks for connections whose time is over."""

BACKLOG = 1024
"""Connections that wait in the system until the port accepts them."""

RECEIVE_BYTES = 64 * 1024
"""About how much the system buffers of a connection."""

PAUSE_SECONDS = 0.1
"""How long no connection is accepted after the system refused one, as it does if the limit of files is reached."""

PREFLIGHT_SECONDS = 7200
"""How long a browser may cache the answer to a preflight."""

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of the server's connections, and the origins whose pages may read its answers."""

    connections: Connections
    of_address: int | None = None
    """Connections at once from one address; None for no limit, as behind a proxy."""
    origins: Collection[str] = ()
    """Origins whose pages may call, as browsers name them; "*" is all."""


class HttpsServer:
    """Answers a service's calls over HTTPS; the files of `tls` are read again when `renewals` returns a new number."""

    def __init__(
        self,
        router: ConnectRouter,
        connection_limits: ConnectionLimits,
        tls: TLS,
        renewals: Callable[[], int],
        *,
        shared: bool = False,
    ) -> None:
        """Open no port yet; at a `shared` port, other processes of this service listen, too."""
        limits = router.pipeline.admission.limits
        self.router, self._connection_limits, self._shared = router, connection_limits, shared
        self.serving = self.leaving = False
        self.unfinished_seconds = limits.unfinished_seconds
        self.idle_seconds = connection_limits.connections.idle_seconds
        self.age_seconds = (
            math.inf if connection_limits.connections.age_seconds is None else connection_limits.connections.age_seconds
        )
        self.date = formatdate(usegmt=True)
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.dropped = memoryview(bytearray(DROPPED_BYTES))
        self._context = ReloadingContext(lambda: _context(tls), renewals)
        self._numbers = itertools.count()
        self._open: set[TlsConnection] = set()
        self._connected: set[Connection] = set()
        self._counted = OpenConnections(connection_limits.connections.most, connection_limits.of_address)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []
        self._emptied = asyncio.Event()

    @property
    def pipeline(self) -> RequestPipeline:
        """The pipeline that admits the port's calls."""
        return self.router.pipeline

    def listen(self, address: str) -> int:
        """Listen at host:port (port 0 takes a free one), at each address that it names, and return the port.

        Raises:
            HubbubError: if the address is not one, is taken, or is not this machine's.
        """
        address = listening_address(address)
        self._listeners = opened(address, BACKLOG, shared=self._shared)
        for listener in self._listeners:
            listener.setblocking(False)
            # Connections inherit it from the listener. Set on a connection, it would come after its window was offered.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        for work in (*map(self._accept, self._listeners), self._look()):
            self._begin(asyncio.get_running_loop().create_task(work))
        port: int = self._listeners[0].getsockname()[1]
        return port

    def _begin(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, grace: float | None) -> None:
        """Accept no more connections; close the open ones at once, or let their calls end within `grace` seconds."""
        self.leaving = True
        for listener in self._listeners:
            listener.close()
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self._connected):
            connection.leave()
        for unfinished in [each for each in self._open if not each.is_agreed]:
            unfinished.abort()
        if grace is not None and self._connected:
            self._emptied.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._emptied.wait()
        for connection in list(self._connected):
            connection.abort()

    # Connections

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                found, where = await loop.sock_accept(listener)
            except OSError as error:
                _LOG.warning("a connection was not taken", port="https", problem=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            address = network_of(where[0])
            if self._has_room(address):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._begin(loop.create_task(self._connect(found, address)))
            else:
                found.close()
            # Let other tasks run: a stream of new connections must not keep calls from being answered.
            await asyncio.sleep(0)

    def _has_room(self, address: str) -> bool:
        if self._counted.has_room(address):
            return True
        self.refuse(PortLimit.CONNECTIONS if self._counted.is_full else PortLimit.ADDRESS)
        return False

    async def _connect(self, found: socket.socket, address: str) -> None:
        connection = TlsConnection(self, self._context.current(), address)
        self._open.add(connection)
        self._counted.add(address)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, found)
        except BaseException as error:
            self.lost(connection)
            if not isinstance(error, OSError):  # an OSError: it was closed before it was open
                raise

    def agreed(self, connection: TlsConnection) -> Connection:
        return Connection(self, connection.address, f"{connection.address}#{next(self._numbers)}")

    def refuse(self, limit: PortLimit) -> None:
        self.pipeline.admission.refused[limit] += 1

    def lost(self, connection: TlsConnection) -> None:
        if connection in self._open:
            self._open.remove(connection)
            self._counted.remove(connection.address)

    def connected(self, connection: Connection) -> None:
        self._connected.add(connection)

    def gone(self, connection: Connection) -> None:
        self._connected.discard(connection)
        if not self._connected:
            self._emptied.set()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self.unfinished_seconds / 2))
            self.date = formatdate(time.time(), usegmt=True)
            now = asyncio.get_running_loop().time()
            for connection in list(self._connected):
                connection.look(now)

    # Browsers

    def cors(self, origin: bytes) -> tuple[Header, ...]:
        """Return the headers that let pages of that origin call and read answers; none if they may not."""
        text = origin.decode("latin-1")
        if text not in self._connection_limits.origins and "*" not in self._connection_limits.origins:
            return ()
        return (
            ("access-control-allow-origin", text),
            ("access-control-allow-methods", "POST"),
            ("access-control-allow-headers", "content-type, connect-protocol-version, connect-timeout-ms"),
            ("access-control-expose-headers", "hubbub-reason, hubbub-retry-after-ms"),
            ("access-control-max-age", str(PREFLIGHT_SECONDS)),
            ("vary", "origin"),
        )


def _context(tls: TLS) -> ssl.SSLContext:
    context = server_context(tls, "the HTTPS port")
    context.set_alpn_protocols(["http/1.1"])
    # Tickets would show which connections are of one device; without them there is no early data either.
    context.num_tickets = 0
    return context
