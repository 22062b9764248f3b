"""Runs a worker: a process that answers devices at shared ports, and stores submissions through the main process.

It runs as `python -m hubbub.shuffler.workers.worker` with one end of a socket as its stdin. It ends when the main
process asks, or at once when the main process is gone: a worker has no data that the main process lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import structlog
from prometheus_client import CollectorRegistry

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import OuterOpener
from hubbub.service.lifecycle import run
from hubbub.service.observability import logs
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.shared_metrics import IncidentCollector, Metrics
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.processes.hardening import disable_core_dumps, end_with_parent
from hubbub.service.rpc import ipc_messages
from hubbub.service.runtime import event_loop
from hubbub.service.transport.ports import Ports
from hubbub.service.transport.saturation import SaturationCollector
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.device_ports import open_to_devices
from hubbub.shuffler.admit.disk_reserve import DiskReserve
from hubbub.shuffler.admit.enrollment import CredentialIssuer, Rate, signers_of_tickets
from hubbub.shuffler.admit.handler import DeviceHandler
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.mtls import DevicesAuthority, devices_authority
from hubbub.shuffler.admit.opening_worker import RoundKey, open_each
from hubbub.shuffler.cluster.ingest import show_queues
from hubbub.shuffler.metrics import PREFIX, ShufflerStage
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.handshake import Start, read_start
from hubbub.shuffler.workers.ipc import HEAD, Frame, IpcChannel
from hubbub.shuffler.workers.live_feed import RemoteFeed
from hubbub.shuffler.workers.metrics import metrics_snapshot
from hubbub.shuffler.workers.remote_store import RemoteStore

REPORT_SECONDS = 1.0
"""How often a worker reports its incidents and metrics, and forgets old data."""

CHUNK = 25
"""Envelopes opened at a time, in about a millisecond: other calls wait no longer than that."""

_LEADER = "leader"
_LOST = "log lines were lost"


class InlineOpener:
    """Opens envelopes in the event loop (`opening_pool.OuterOpening`), a few at a time, with other calls in between.

    A worker has a core of its own: another process would only add the cost of the pipes. `observe` gets the seconds of
    each call.
    """

    def __init__(self, observe: Observe = unobserved) -> None:
        self._observe = observe
        self._last: tuple[RoundKey, OuterOpener] | None = None

    async def open(self, key: RoundKey, submissions: Sequence[Submission]) -> list[bytes | None]:
        opener, found, took = self._opener(key), [], 0.0
        for start in range(0, len(submissions), CHUNK):
            if start:
                await asyncio.sleep(0)
            began = time.perf_counter()
            found += open_each(opener, submissions[start : start + CHUNK])
            took += time.perf_counter() - began
        self._observe(took)
        return found

    def _opener(self, key: RoundKey) -> OuterOpener:
        """Reuse the last opener if the key is the same: making one takes twice as long as opening an envelope."""
        if self._last is None or self._last[0] != key:
            self._last = key, key.opener()
        return self._last[1]

    def forget(self) -> None:
        """Forget the last key, as its round may be over; called once a second."""
        self._last = None


class WorkerState:
    """The state that the main process sends to a worker: credentials, tasks, its own incidents, and when to stop."""

    def __init__(self) -> None:
        self.store: RemoteStore | None = None
        self.feed: RemoteFeed | None = None
        self.credentials, self.incidents, self.stop = Credentials(), Incidents(logged=False), asyncio.Event()
        self.full = False
        """Whether the main process has no memory for more submissions."""

    async def answer(self, frame: Frame, payload: bytes) -> bytes:
        """Take a message of the main process."""
        if frame is Frame.ADMITTED:
            await self.admitted(payload)
        elif frame is Frame.INCIDENTS:
            told = codec.read_document(payload)
            self.full = told["full"]
            self._note_incidents(frozenset(told["kinds"]))
        elif frame is Frame.TASKS and self.feed is not None:
            self.feed.take(payload)
        elif frame is Frame.STOP:
            self.stop.set()
        return b""

    async def admitted(self, payload: bytes) -> None:
        """Take the credentials that are valid from now on."""
        if self.store is not None:
            self.store.admitted = ipc_messages.read_admitted(payload)
            await self.credentials.read(self.store)
            self.credentials.oblivious_records = self.store.admitted.oblivious_records

    def _note_incidents(self, kinds: frozenset[str]) -> None:
        for kind in IncidentKind:
            if kind in kinds:
                # Only for the health check: the main process logs the incident and shows it to the operator.
                self.incidents.open((_LEADER, kind), kind, _LEADER, "the main process has an incident")
            else:
                self.incidents.resolve((_LEADER, kind))


@dataclass(frozen=True)
class _WorkerService:
    start_: Start
    channel: IpcChannel
    admission: DeviceHandler
    store: RemoteStore
    opening: InlineOpener
    certificates: ReloadingCertificates
    devices: DevicesAuthority | None
    metrics: Metrics
    state: WorkerState
    going_on: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def incidents(self) -> Incidents:
        return self.state.incidents

    async def listen(self, ports: Ports) -> None:
        settings = self.start_.settings
        tasks, certificates, state = self.start_.served.tasks, self.certificates, self.state
        pipelines = await open_to_devices(
            *(ports, settings, tasks, self.admission, certificates, self.devices),
            shared=True,
            live=bool(settings.feed),
            full=lambda: state.full,
        )
        self.metrics.registry.register(SaturationCollector("shuffler", pipelines, ports.full_seconds))

    async def start(self) -> None:
        self.going_on.add(asyncio.create_task(self._again_and_again()))

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self.store.forget()
            self.opening.forget()
            # A report that cannot be sent now is not queued: the next one replaces it.
            if self.channel.clear:
                self.report()

    def report(self) -> None:
        """Report this worker's incidents and metrics."""
        # Without the incidents that the main process sent for the health check: it would open them again as a worker's.
        mine = [
            [repr(key), incident.kind, event, incident.text]
            for key, event, incident in self.incidents.active()
            if not (isinstance(key, tuple) and key[0] == _LEADER)
        ]
        lines, _since, why = logs.unreported()
        if lines:
            # The text does not contain the number of lines: each new text would be logged again.
            text = f"lines of its log were lost: {why}; work goes on. Check the target of its stderr"
            mine.append([_LOST, IncidentKind.LOG, _LOST, text])
        shown = metrics_snapshot(self.metrics.registry, PREFIX)
        self.channel.tell(Frame.REPORT, codec.write_document({"incidents": mine, "metrics": shown}))

    async def leave(self) -> None:
        """Let the calls in progress finish; each takes only a short time."""


@contextlib.asynccontextmanager
async def _assembled(
    start: Start, channel: IpcChannel, store: RemoteStore, state: WorkerState
) -> AsyncIterator[_WorkerService]:
    settings, clock = start.settings, time.time
    served, tasks = start.served, start.served.tasks
    who = signers_of_tickets(served.operator, served.shuffler, tasks, served.successions)
    devices = devices_authority(settings)
    check = None if devices is None else devices.check
    certificates = ReloadingCertificates(Role.SHUFFLER, settings.tls.paths(), None, clock, check, settings.https_tls())
    metrics = Metrics("shuffler", (ShufflerStage.ADMIT, ShufflerStage.OPEN), CollectorRegistry())
    opening = InlineOpener(metrics.stage(ShufflerStage.OPEN))
    # Without the credentials every device would be refused as unknown.
    await state.admitted(await channel.ask(Frame.ADMITTED))
    if state.feed is not None:
        await state.feed.start()
    # The worker's share of the limit. A rate below 1 would let no ticket through, ever.
    rate = Rate(max(1.0, settings.enrollments_per_second / settings.workers))
    queue = LoadShedder(settings.queue, settings.queue_seconds)
    disk_reserve = DiskReserve(settings.data, settings.disk_reserve, state.incidents)
    admission = AdmissionHandler(tasks, store, opening, clock, queue, state.credentials, disk_reserve, store.damaged)
    issuing = CredentialIssuer(state.credentials, store, *who, clock, rate)
    show_queues(metrics.registry, admission=lambda: admission.in_work)
    metrics.registry.register(IncidentCollector("shuffler", state.incidents))
    pages = None if state.feed is None else state.feed.page
    handler = DeviceHandler(admission, issuing, metrics.stage(ShufflerStage.ADMIT), pages=pages)
    parts = (store, opening, certificates, devices, metrics, state)
    worker = _WorkerService(start, channel, handler, *parts)
    try:
        async with certificates.watched():
            yield worker
    finally:
        for task in worker.going_on:
            task.cancel()
        await asyncio.gather(*worker.going_on, return_exceptions=True)
        # Sent once more, because the last counts and metrics are newer than the last periodic report.
        store.tell_counts()
        worker.report()


def _gone() -> None:
    """Exit at once: the next worker needs the ports, and everything acknowledged is in the main process."""
    os._exit(1)


async def _serve(start: Start, here: socket.socket) -> None:
    structlog.contextvars.bind_contextvars(worker=start.number)
    state, leaving = WorkerState(), False
    channel = IpcChannel(state.answer, lambda: None if leaving else _gone())
    state.store = store = RemoteStore(channel)
    tasks = dict(start.served.tasks)
    start = replace(start, served=replace(start.served, tasks=tasks))
    if start.settings.feed is not None:
        state.feed = RemoteFeed(tasks, start.served.known, channel.ask)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=here)

    def announce(addresses: dict[str, str]) -> None:
        channel.tell(Frame.SERVING, codec.write_document({"addresses": addresses}))

    try:
        work = _assembled(start, channel, store, state)
        await run(start.settings.log, work, announce=announce, stop=state.stop)
    except HubbubError as error:
        channel.tell(Frame.SERVING, codec.write_document({"error": str(error)}))
    finally:
        leaving = True
        channel.close()
        await asyncio.to_thread(logs.flush)


def main() -> None:
    """Answer devices until the main process asks to stop."""
    disable_core_dumps()
    end_with_parent()
    # A signal to the whole unit is for the main process, which then asks workers to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    here = socket.socket(fileno=os.dup(0))
    try:
        start = read_start(here)
    except HubbubError as error:
        payload = codec.write_document({"error": str(error)})
        here.sendall(HEAD.pack(len(payload), Frame.SERVING, 0) + payload)
        return
    event_loop.run(lambda: _serve(start, here), start.settings.event_loop)


if __name__ == "__main__":
    main()
