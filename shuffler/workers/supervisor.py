"""Starts the workers of a shuffler, restarts those that end, sends them their state, and stops them.

They share the devices' ports: this process reserves the ports without listening, and each worker listens on them, so
the system distributes connections. A killed worker loses only its connections: devices send again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from asyncio.subprocess import Process
from typing import Any

from hubbub.protos.enrollment.admitted import Admitted
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.processes import subprocesses
from hubbub.service.rpc import ipc_messages
from hubbub.service.transport import grpc_server
from hubbub.service.transport.port_limits import memory_of
from hubbub.service.transport.ports import DRAIN_SECONDS, Ports
from hubbub.shuffler.admit.device_ports import warn_without_proxy
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.handshake import Served, Start, write_start
from hubbub.shuffler.workers.ipc import Frame, IpcChannel
from hubbub.shuffler.workers.live_feed import write_tasks
from hubbub.shuffler.workers.metrics import MergedMetrics
from hubbub.shuffler.workers.store_server import StoreServer

AGAIN_SECONDS = 1.0
"""Pause before a worker that ended soon after its start is restarted."""

TELL_SECONDS = 10.0
"""How long a worker that serves may take to confirm new credentials or a task; after that it is killed."""

START_SECONDS = 120.0
"""How long one that does not serve yet may take: on a busy machine, it loads its code for longer than it may hang."""

SILENT_LOOKS = 30
"""A worker is killed after this many looks, one a second, without a message from it. It reports once a second, and
connections that the system gives to a worker that hangs wait in vain."""

STOP_SECONDS = DRAIN_SECONDS + 5.0
"""How long a worker may drain before it is killed."""

PORTS = {"submission": "listen", "devices": "devices_listen", "https": "https_listen"}
"""The devices' ports, and the settings that name their addresses."""

_ENDED = "a worker ended"


class WorkerSupervisor:
    """The workers of a shuffler, as many as `settings` name; `store_server` answers their requests.

    Their incidents go to `incidents`, their metrics to `merged`.
    """

    def __init__(
        self,
        settings: ShufflerSettings,
        served: Served,
        store_server: StoreServer,
        incidents: Incidents,
        merged: MergedMetrics,
    ) -> None:
        self._settings, self._served, self._store_server = settings, served, store_server
        self._incidents, self._merged = incidents, merged
        # The submissions of open rounds use memory of this process, not of the workers.
        self._memory = memory_of(settings.limits)
        self._all: list[_WorkerProcess] = []
        self._reserved: list[socket.socket] = []

    async def start(self, ports: Ports) -> None:
        """Start all workers, and return when devices can reach each.

        Raises:
            HubbubError: if an address cannot be used, or a worker does not start; then none is left running.
        """
        warn_without_proxy(self._settings)
        addresses = {name: getattr(self._settings, setting) for name, setting in PORTS.items()}
        found = {}
        try:
            for name, address in addresses.items():
                if address:
                    found[name], reserved = grpc_server.reserve(address)
                    self._reserved += reserved
            known = self._settings.model_copy(update={PORTS[name]: address for name, address in found.items()})
            self._all = [
                _WorkerProcess(Start(known, self._served, number), self._store_server, self._incidents, self._merged)
                for number in range(1, self._settings.workers + 1)
            ]
            await asyncio.gather(*(each.start() for each in self._all))
        except BaseException:
            await self.stop()
            raise
        ports.elsewhere(found, self._tell_incidents, self._memory.full)

    async def tell(self, admitted: Admitted) -> None:
        """Send the credentials to each worker; return when all running ones have them."""
        told = ipc_messages.write_admitted(admitted)
        await asyncio.gather(*(each.tell(Frame.ADMITTED, told) for each in self._all))

    async def tell_task(self, task: Task) -> None:
        """Send a task that the feed published or ended to each worker; return when all running ones have it."""
        told = write_tasks([task])
        await asyncio.gather(*(each.tell(Frame.TASKS, told) for each in self._all))

    def _tell_incidents(self, kinds: frozenset[str]) -> None:
        told = codec.write_document({"kinds": sorted(kinds), "full": self._memory.full()})
        for each in self._all:
            each.look()
            each.tell_soon(Frame.INCIDENTS, told)

    async def stop(self) -> None:
        """Let each worker finish its calls, and end it."""
        await asyncio.gather(*(each.stop() for each in self._all))
        self._all = []
        for each in self._reserved:
            each.close()
        self._reserved = []


def _kill(process: Process | None) -> None:
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


class _WorkerProcess:
    """One worker, which is restarted whenever it ends."""

    def __init__(self, start: Start, store_server: StoreServer, incidents: Incidents, merged: MergedMetrics) -> None:
        self._start, self._store_server, self._incidents, self._merged = start, store_server, incidents, merged
        self._process: Process | None = None
        self._channel: IpcChannel | None = None
        self._running: asyncio.Task[None] | None = None
        self._serves: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping = False
        self._why = ""
        self._served, self._silent = False, 0
        self._met: set[str] = set()

    # Messages to the worker

    async def start(self) -> None:
        """Start it, and return when it serves.

        Raises:
            HubbubError: with the reason why it does not serve.
        """
        self._running = asyncio.create_task(self._live())
        await self._serves

    async def tell(self, frame: Frame, payload: bytes) -> None:
        """Send it a message, and return when it confirms; kill it if it does not."""
        channel, process = self._channel, self._process
        if channel is None or process is None:
            return  # the next process asks for it
        try:
            async with asyncio.timeout(TELL_SECONDS if self._served else START_SECONDS):
                await channel.ask(frame, payload)
        except (StoreError, TimeoutError):
            # It exited, its pipe broke, or it hangs: kill it so that it cannot serve stale state.
            _kill(process)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), TELL_SECONDS)

    def tell_soon(self, frame: Frame, payload: bytes) -> None:
        """Send it a message without waiting for it."""
        if self._channel is not None:
            self._channel.tell(frame, payload)

    def look(self) -> None:
        """Kill it if it serves but has sent nothing for long; called once a second.

        Counts looks, not seconds: after this process itself was suspended, every worker was silent for as long.
        """
        self._silent += 1
        if self._served and self._silent > SILENT_LOOKS:
            self._why = f"it sent nothing for {SILENT_LOOKS} s"
            _kill(self._process)

    async def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        self._stopping = True
        self.tell_soon(Frame.STOP, b"")
        if self._running is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._running), STOP_SECONDS)
            _kill(self._process)
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    # The worker's process

    async def _live(self) -> None:
        while not self._stopping:
            began = time.monotonic()
            try:
                await self._once()
            except OSError as error:
                self._ended(f"it could not be started: {error}")
            # A worker that fails at its start must not be restarted in a busy loop.
            if not self._stopping and time.monotonic() - began < AGAIN_SECONDS:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _once(self) -> None:
        self._why = ""
        here, there = socket.socketpair()
        try:
            # This process's copy is closed once the worker has its own: otherwise the channel would outlive the worker.
            with there:
                self._process = process = await asyncio.create_subprocess_exec(
                    *subprocesses.command("hubbub.shuffler.workers.worker"),
                    stdin=there.fileno(),
                    env=subprocesses.environment(),
                    # A terminal's signals are for this process: a worker that has just started would die of them.
                    start_new_session=True,
                )
            here.setblocking(False)
            await write_start(here, self._start)
            channel = IpcChannel(self._answer, lambda: None)
            await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=here)
        except BaseException:
            here.close()
            raise
        self._channel = channel
        if self._stopping:
            # `stop` was called before this worker had a channel.
            self.tell_soon(Frame.STOP, b"")
        try:
            status = await process.wait()
        finally:
            # Also if this task is cancelled: a worker must not outlive its supervisor.
            _kill(self._process)
            self._channel = self._process = None
            self._served = False
            channel.close()
            self._forget()
        self._ended(self._why or f"its status was {status}")

    def _ended(self, why: str) -> None:
        if not self._serves.done():
            self._serves.set_exception(HubbubError(f"worker {self._start.number} ended before it served: {why}"))
        elif not self._stopping:
            text = f"worker {self._start.number} ended and is restarted: {why}; see the log"
            self._incidents.open(
                (_ENDED, self._start.number), IncidentKind.PORTS, _ENDED, text, worker=self._start.number
            )

    def _forget(self) -> None:
        self._merged.end(self._start.number)
        for key in self._met:
            self._incidents.resolve(key)
        self._met = set()

    # Messages from the worker

    async def _answer(self, frame: Frame, payload: bytes) -> bytes:
        self._silent = 0
        if frame is Frame.SERVING:
            self._serving(codec.read_document(payload))
        elif frame is Frame.REPORT:
            self._reported(codec.read_document(payload))
        else:
            return await self._store_server.answer(frame, payload)
        return b""

    def _serving(self, told: dict[str, Any]) -> None:
        if "error" in told:
            self._why = told["error"]
            if not self._serves.done():
                self._serves.set_exception(HubbubError(self._why))
            return
        self._served = True
        self._incidents.resolve((_ENDED, self._start.number))
        if not self._serves.done():
            self._serves.set_result(None)

    def _reported(self, told: dict[str, Any]) -> None:
        number = self._start.number
        self._merged.put(number, told["metrics"])
        met = set()
        for key, kind, event, text in told["incidents"]:
            met.add(f"worker {number}: {key}")
            self._incidents.open(f"worker {number}: {key}", IncidentKind(kind), event, text, worker=number)
        for key in self._met - met:
            self._incidents.resolve(key)
        self._met = met
