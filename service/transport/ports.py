"""A service's gRPC servers, brought up and drained together, and the signals that end it."""

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
"""Signals that a service takes no notice of; SIGPIPE is among them, as Python has it."""

ENDS_WITH_STDIN = "HUBBUB_ENDS_WITH_STDIN"
"""Environment variable: where it is set, a service drains also when its stdin ends, as it does with who started it."""

Announce = Callable[[dict[str, str]], None]
"""Is told the addresses of a service's ports, by name, once they serve."""

Tell = Callable[[frozenset[str]], None]
"""Is told which kinds of parts of a service have incidents, once a second."""

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
        """Listen at an address with a server that carries `service`, whose calls `pipeline` takes in.

        At one that is `shared`, other processes of this service listen, too.

        Raises:
            HubbubError: if the address cannot be used; the ports opened before are closed.
        """
        try:
            self._healths.append(Health(server, [service]))
            port = grpc_server.listen(server, address, credentials, shared=shared)
            self._servers.append(server)
            self._addresses[name] = f"{address.rpartition(':')[0]}:{port}"
            # Who asks how a port is has limits of their own there.
            self._saturations.append(PortSaturation(f"{name} health", self._healths[-1].admission))
            if pipeline is not None:
                self._saturations.append(PortSaturation(name, pipeline.admission, port))
                self._pipelines.append(pipeline)
            await server.start()
        except BaseException:
            # A cancelled start, too, must not leave ports open.
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
        # It counts by itself what it closes: no number of a port is needed to find out.
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
        """Note ports that other processes of this service have open.

        `tell` has their health say what has an incident, `full` whether they refuse calls, as this process holds as
        much memory as it may.
        """
        self._addresses.update(addresses)
        self._others.append(tell)
        self._full.append(full)

    async def serving(self, announce: Announce | None) -> None:
        """Say that all ports serve."""
        for health in self._healths:
            await health.serving()
        _LOG.info("serving", **self._addresses)
        if announce is not None:
            announce(self._addresses)

    def look(self, incidents: Incidents) -> None:
        """Note which ports refuse calls, as a limit is full, and which do so no longer; called once a second."""
        for saturation in self._saturations:
            saturation.look(incidents)

    def full_seconds(self) -> dict[tuple[str, PortLimit], int]:
        """Return for how many seconds each limit of each port refused calls."""
        return {key: count for saturation in self._saturations for key, count in saturation.full_seconds.items()}

    def full(self) -> bool:
        """Return whether a port refuses calls, as the process holds as much memory as it may."""
        return any(pipeline.full() for pipeline in self._pipelines) or any(full() for full in self._full)

    async def tell(self, with_incidents: frozenset[str]) -> None:
        """Have health say which kinds of parts of the service have incidents."""
        for health in self._healths:
            await health.parts(with_incidents)
        for tell in self._others:
            tell(with_incidents)

    async def drain(self) -> None:
        """Take no new calls, finish those in work, and close."""
        _LOG.info("draining")
        # Health first: monitors see that the service leaves before calls are turned away.
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


@contextlib.contextmanager
def asked_to_stop(stop: asyncio.Event | None) -> Iterator[asyncio.Event]:
    """Give the event that ends the service: `stop`, or one that SIGTERM and SIGINT set from now on.

    In a service of its own (without `stop`), signals that others take for "read your settings or open your log again"
    are ignored, and logged: by default they would kill it. Where `ENDS_WITH_STDIN` is set, the end of stdin asks too.
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
    """Call `ended` once stdin ends, where `ENDS_WITH_STDIN` says so; whatever is written to it is passed over."""
    if ENDS_WITH_STDIN not in os.environ:
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
