"""Opens and drains a service's ports together, and handles the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping

import grpc
import structlog
from prometheus_client import CollectorRegistry

from hubbub.protos.transport.channels import TLS
from hubbub.service.observability.incidents import Incidents
from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport import grpc_server
from hubbub.service.transport.health import Health
from hubbub.service.transport.https_server import HttpsServer
from hubbub.service.transport.metrics_port import MetricsPort, Renewals
from hubbub.service.transport.saturation import PortSaturation

DRAIN_SECONDS = 10.0
"""How long calls in work may take to finish when a service stops."""

ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals that drain a service."""

IGNORED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a service ignores; Python itself ignores SIGPIPE, too."""

ENDS_WITH_STDIN = "HUBBUB_ENDS_WITH_STDIN"
"""Environment variable: if it is set, a service also drains when its stdin ends, as it does when its parent ends."""

Announce = Callable[[dict[str, str]], None]
"""Receives the addresses of a service's ports, by name, once they answer."""

Tell = Callable[[frozenset[str]], None]
"""Receives the kinds of parts of a service with incidents, once a second."""

_LOG = structlog.get_logger(__name__)


class Ports:
    """A service's servers with their health services, and its metrics port."""

    def __init__(self) -> None:
        self._servers: list[grpc.aio.Server] = []
        self._healths: list[Health] = []
        self._https_server: list[HttpsServer] = []
        self._metrics: list[MetricsPort] = []
        self._addresses: dict[str, str] = {}
        self._saturations: list[PortSaturation] = []
        self._pipelines: list[RequestPipeline] = []
        self._others: list[Tell] = []
        self._full: list[Callable[[], bool]] = []
        self._lacks: Callable[[], str | None] = _nothing
        self._serves = False

    async def open(
        self,
        name: str,
        address: str,
        service: str,
        server: grpc.aio.Server,
        credentials: grpc.ServerCredentials,
        pipeline: RequestPipeline | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """Listen at an address with a server for `service`, whose calls `pipeline` admits.

        At a `shared` address, other processes of this service listen, too.

        Raises:
            HubbubError: if the address cannot be used; the ports opened before are closed.
        """
        try:
            self._healths.append(Health(server, [service]))
            port = grpc_server.listen(server, address, credentials, shared=shared)
            self._servers.append(server)
            self._addresses[name] = f"{address.rpartition(':')[0]}:{port}"
            # Health checks have their own limits.
            self._saturations.append(PortSaturation(f"{name} health", self._healths[-1].admission))
            if pipeline is not None:
                self._saturations.append(PortSaturation(name, pipeline.admission, port))
                self._pipelines.append(pipeline)
            await server.start()
        except BaseException:
            # Also on cancellation: a cancelled start must not leave ports open.
            await self._close(None)
            raise

    async def open_https(self, name: str, address: str, https_server: HttpsServer) -> None:
        """Listen at an address by HTTPS.

        Raises:
            HubbubError: if the address cannot be used; the ports opened before are closed.
        """
        try:
            port = https_server.listen(address)
        except BaseException:
            await self._close(None)
            raise
        self._https_server.append(https_server)
        self._addresses[name] = f"{address.rpartition(':')[0]}:{port}"
        # It counts closed connections by itself, so no port number is needed.
        self._saturations.append(PortSaturation(name, https_server.pipeline.admission))
        self._pipelines.append(https_server.pipeline)

    async def open_metrics(self, address: str, registry: CollectorRegistry, tls: TLS, renewals: Renewals) -> None:
        """Answer the service's monitoring at an address; an empty one opens none. See `MetricsPort` for `renewals`.

        Raises:
            HubbubError: if the address cannot be used; the ports opened before are closed.
        """
        if not address:
            return
        try:
            self._metrics.append(MetricsPort(address, registry, tls, renewals))
            self._addresses["metrics"] = self._metrics[-1].address
        except BaseException:
            await self._close(None)
            raise

    def elsewhere(self, addresses: Mapping[str, str], tell: Tell, full: Callable[[], bool]) -> None:
        """Add ports that other processes of this service have open.

        `tell` updates their health with the kinds of incidents. `full` returns whether they refuse calls because this
        process has reached its limit of memory.
        """
        self._addresses.update(addresses)
        self._others.append(tell)
        self._full.append(full)

    def serve_once(self, lacks: Callable[[], str | None]) -> None:
        """Report that the ports serve only once `lacks` returns None; until then it says what the service waits for."""
        self._lacks = lacks

    async def serving(self, announce: Announce | None) -> None:
        """Report that all ports serve, or what the service waits for before they do."""
        if (why := self._lacks()) is None:
            await self._report_serving()
        else:
            for health in self._healths:
                await health.waiting(why)
            _LOG.warning("waiting", reason=why, **self._addresses)
        if announce is not None:
            announce(self._addresses)

    async def _report_serving(self) -> None:
        self._serves = True
        for health in self._healths:
            await health.serving()
        for https_server in self._https_server:
            https_server.serving = True
        _LOG.info("serving", **self._addresses)

    def look(self, incidents: Incidents) -> None:
        """Check which ports refuse calls because a limit is reached, and which no longer do; called once a second."""
        for saturation in self._saturations:
            saturation.look(incidents)

    def full_seconds(self) -> dict[tuple[str, PortLimit], int]:
        """Return for how many seconds each limit of each port refused calls."""
        return {key: count for saturation in self._saturations for key, count in saturation.full_seconds.items()}

    def full(self) -> bool:
        """Return whether a port refuses calls because the process has reached its limit of memory."""
        return any(pipeline.full() for pipeline in self._pipelines) or any(full() for full in self._full)

    async def tell(self, with_incidents: frozenset[str]) -> None:
        """Update health with the kinds of parts of the service that have incidents, and if it waits no longer."""
        if not self._serves and self._lacks() is None:
            await self._report_serving()
        for health in self._healths:
            await health.parts(with_incidents)
        for tell in self._others:
            tell(with_incidents)

    async def drain(self, *, quiet: bool = False) -> None:
        """Accept no new calls, finish those in work, and close. It is logged unless `quiet`."""
        if not quiet:
            _LOG.info("draining")
        # Health first: monitors see that the service is leaving before calls are refused.
        for health in self._healths:
            await health.leaving()
        await self._close(DRAIN_SECONDS)

    async def _close(self, grace: float | None) -> None:
        await asyncio.gather(
            *(server.stop(grace) for server in self._servers),
            *(https_server.close(grace) for https_server in self._https_server),
        )
        for port in self._metrics:
            await asyncio.to_thread(port.close)


def _nothing() -> str | None:
    """Return None: a service lacks nothing once it has started."""
    return None


@contextlib.contextmanager
def asked_to_stop(stop: asyncio.Event | None) -> Iterator[asyncio.Event]:
    """Give the event that ends the service: `stop`, or one that SIGTERM and SIGINT set from now on.

    Without `stop`, the service is the whole process. Then signals that other programs use to reload settings or reopen
    logs are ignored and logged: by default they would kill the process. If `ENDS_WITH_STDIN` is set and not empty, the
    end of stdin also ends the service.
    """
    if stop is not None:
        yield stop
        return
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, asked.set)
    for number in IGNORED:
        loop.add_signal_handler(number, _ignore, number)
    try:
        with _end_of_stdin(loop, asked.set):
            yield asked
    finally:
        for number in (*ENDING, *IGNORED):
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _end_of_stdin(loop: asyncio.AbstractEventLoop, ended: Callable[[], object]) -> Iterator[None]:
    """Call `ended` once stdin ends, if `ENDS_WITH_STDIN` is set; ignore all input on it."""
    if not os.environ.get(ENDS_WITH_STDIN):
        yield
        return
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            ended()

    loop.add_reader(stdin, read)
    try:
        yield
    finally:
        loop.remove_reader(stdin)


def _ignore(number: signal.Signals) -> None:
    _LOG.warning("signal ignored", signal=number.name, hint="SIGTERM drains; settings are read at the start")
