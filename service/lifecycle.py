"""Assembled, its ports opened, serving until it is asked to stop, drained."""

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
"""How often health is told what has an incident."""

COLLECTED_AFTER = (20_000, 10, 10)
"""When the collector looks for cycles: after so many new objects, and how often among those that outlived a look. Calls
leave none, and a few hundred of them in work are more objects than Python's own 700: it would go through all of them,
for a tenth of what a call takes, and find nothing."""

_LOG = structlog.get_logger(__name__)


class RunningService(Protocol):
    """A service that is assembled: its parts are there, and nobody can reach it yet."""

    @property
    def incidents(self) -> Incidents:
        """What holds the service up."""

    async def listen(self, ports: Ports) -> None:
        """Open the service's ports; they answer, but do not say yet that they serve."""

    async def start(self) -> None:
        """Begin what goes on by itself."""

    async def leave(self) -> None:
        """End what would keep calls in work from finishing; called before the ports drain."""


async def run(
    log: LogSettings,
    assembled: AbstractAsyncContextManager[RunningService],
    *,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a service until SIGTERM or SIGINT, or until `stop` is set; then drain, and take it apart.

    `assembled` gives the service and closes its parts at the end. `announce` is told the ports' addresses, by name,
    once they serve.

    Raises:
        HubbubError: if a part or a port cannot be used; nothing was served then.
    """
    logs.configure(log)
    raise_limit()
    try:
        # From here on: a signal that comes while the service starts ends it as soon as it has.
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
        # What is here by now stays as long as the service: the collector need not go through it again and again.
        gc.freeze()
        gc.set_threshold(*COLLECTED_AFTER)
        await ports.serving(announce)
        await _until(stopping, service.incidents, ports)
    finally:
        await service.leave()
        await ports.drain()


async def _until(stopping: asyncio.Event, incidents: Incidents, ports: Ports) -> None:
    """Wait until the service is to stop; see to its ports and its memory meanwhile, and tell health what is wrong."""
    memory = MemoryTrim()
    while True:
        try:
            ports.look(incidents)
            memory.give_back(ports.full())
            await ports.tell(frozenset(incident.kind for incident in incidents.now()))
        except Exception:
            _LOG.exception("health was not told")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TELL_SECONDS):
                await stopping.wait()
                return
