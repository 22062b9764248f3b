"""Runs a service: opens its ports, serves until it is asked to stop, and drains."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog

from hubbub.service.observability import logs
from hubbub.service.observability.incidents import Incidents
from hubbub.service.runtime.memory import MemoryTrim
from hubbub.service.settings import LogSettings
from hubbub.service.transport.file_limits import raise_limit
from hubbub.service.transport.ports import Announce, Ports, asked_to_stop

TELL_SECONDS = 1.0
"""How often the health service is updated with the kinds of open incidents."""

COLLECTED_AFTER = (20_000, 10, 10)
"""Thresholds of the garbage collector: new objects before it looks for cycles, and how often it looks at survivors.
A call leaves a cycle of a few small objects of gRPC's, and a few hundred calls in work exceed Python's default of 700
objects. With the default, the collector would visit all of them, at a tenth of a call's cost, and find little."""

_LOG = structlog.get_logger(__name__)


class RunningService(Protocol):
    """An assembled service: its parts exist, and nobody can reach it yet."""

    @property
    def incidents(self) -> Incidents:
        """The open incidents of the service."""

    async def listen(self, ports: Ports) -> None:
        """Open the service's ports; they answer, but do not report SERVING yet."""

    async def start(self) -> None:
        """Start the background work."""

    async def leave(self) -> None:
        """Stop everything that would keep calls in work from finishing; called before the ports drain."""


async def run(
    log: LogSettings,
    assembled: AbstractAsyncContextManager[RunningService],
    *,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a service until SIGTERM or SIGINT, or until `stop` is set; then drain and close it.

    `assembled` gives the service and closes its parts at the end. `announce` receives the ports' addresses, by name,
    once they answer.

    Raises:
        HubbubError: if a part or a port cannot be used; then nothing was served.
    """
    logs.configure(log)
    raise_limit()
    try:
        # Before the start, so that a signal during the start ends the service as soon as it has started.
        with asked_to_stop(stop) as stopping:
            async with assembled as service:
                await _serve(service, announce, stopping)
    finally:
        await asyncio.to_thread(logs.flush)


async def _serve(service: RunningService, announce: Announce | None, stopping: asyncio.Event) -> None:
    ports = Ports()
    await service.listen(ports)
    try:
        await service.start()
        # Objects that exist now live as long as the service, so the collector need not visit them again.
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)
        await ports.serving(announce)
        await _until(stopping, service.incidents, ports)
    finally:
        await service.leave()
        await ports.drain()


async def _until(stopping: asyncio.Event, incidents: Incidents, ports: Ports) -> None:
    """Wait until the service is asked to stop; meanwhile check its ports and memory, and update its health."""
    memory = MemoryTrim()
    while True:
        try:
            ports.look(incidents)
            memory.give_back(ports.full())
            await ports.tell(frozenset(incident.kind for incident in incidents.now()))
        except Exception:
            _LOG.exception("health was not updated")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TELL_SECONDS):
                await stopping.wait()
                return
