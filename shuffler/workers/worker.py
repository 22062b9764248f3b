"""Acceptor: a process that answers devices at ports which others share, and has what it holds kept by who started it.

It is run as `python -m hubbub.shuffler.workers.worker` with the one end of a socket as its stdin, and ends when the
other end says so, or at once when that is gone: nothing is here that is not there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import structlog
from prometheus_client import CollectorRegistry

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import OuterOpener
from hubbub.service.lifecycle import run
from hubbub.service.net.ports import Ports
from hubbub.service.net.saturation import Crowds
from hubbub.service.net.tls_reload import Certificates
from hubbub.service.observability import logs
from hubbub.service.observability.incidents import Kind, Troubles
from hubbub.service.observability.metrics import Conditions, Metrics
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.processes.hardening import end_with_parent, keep_memory_in
from hubbub.service.rpc import ipc_messages
from hubbub.service.runtime import event_loop
from hubbub.shuffler.admit.admission import Admission
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.device_ports import open_to_devices
from hubbub.shuffler.admit.disk_reserve import Room
from hubbub.shuffler.admit.enrollment import Issuing, Rate, signers_of_tickets
from hubbub.shuffler.admit.load_shedding import Queue
from hubbub.shuffler.admit.mtls import DevicesAuthority, devices_authority
from hubbub.shuffler.admit.opening_worker import RoundKey, open_each
from hubbub.shuffler.cluster.shared import show_queues
from hubbub.shuffler.metrics import PREFIX, Stage, TimedAdmission
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.handshake import Start, read_start
from hubbub.shuffler.workers.ipc import HEAD, Frame, Line
from hubbub.shuffler.workers.metrics import pictured
from hubbub.shuffler.workers.remote_store import LineStore

REPORT_SECONDS = 1.0
"""How often an acceptor says what holds it up, and shows its metrics; and forgets what is old."""

STRETCH = 25
"""Envelopes opened at a time, in about a millisecond: other calls wait no longer for it."""

_KEEPER = "keeper"
_LOST = "log lines were lost"


class Opening:
    """Opens envelopes in the event loop (`opening_pool.Opens`), a few at a time, and lets other calls go on in between.

    An acceptor has a core of its own: handing envelopes to another process would only add what the pipes cost.
    `observe` is told how many seconds each call's took.
    """

    def __init__(self, observe: Observe = unobserved) -> None:
        self._observe = observe
        self._last: tuple[RoundKey, OuterOpener] | None = None

    async def open(self, key: RoundKey, submissions: Sequence[Submission]) -> list[bytes | None]:
        opener, found, took = self._opener(key), [], 0.0
        for start in range(0, len(submissions), STRETCH):
            if start:
                await asyncio.sleep(0)
            began = time.perf_counter()
            found += open_each(opener, submissions[start : start + STRETCH])
            took += time.perf_counter() - began
        self._observe(took)
        return found

    def _opener(self, key: RoundKey) -> OuterOpener:
        """The last one is kept: making it takes twice as long as opening an envelope."""
        if self._last is None or self._last[0] != key:
            self._last = key, key.opener()
        return self._last[1]

    def forget(self) -> None:
        """Forget the last key, which may be of a round that is over; called once a second."""
        self._last = None


class Heard:
    """What an acceptor is told by who keeps the rounds: who is admitted, what is in trouble there, and when to stop."""

    def __init__(self) -> None:
        self.store: LineStore | None = None
        self.credentials, self.troubles, self.stop = Credentials(), Troubles(logged=False), asyncio.Event()
        self.full = False
        """Whether who keeps the rounds has no memory for more submissions."""

    async def answer(self, frame: Frame, payload: bytes) -> bytes:
        """Take what was told."""
        if frame is Frame.ADMITTED:
            await self.admitted(payload)
        elif frame is Frame.TROUBLED:
            told = codec.read_document(payload)
            self.full = told["full"]
            self._troubled(frozenset(told["kinds"]))
        elif frame is Frame.STOP:
            self.stop.set()
        return b""

    async def admitted(self, payload: bytes) -> None:
        """Know who is admitted from now on."""
        if self.store is not None:
            self.store.admitted = ipc_messages.read_admitted(payload)
            await self.credentials.read(self.store)

    def _troubled(self, kinds: frozenset[str]) -> None:
        for kind in Kind:
            if kind in kinds:
                # For health alone: who keeps the rounds logs it, and tells the operator.
                self.troubles.meet((_KEEPER, kind), kind, _KEEPER, "the process that keeps the rounds is in trouble")
            else:
                self.troubles.over((_KEEPER, kind))


@dataclass(frozen=True)
class _Acceptor:
    start_: Start
    line: Line
    admission: TimedAdmission
    store: LineStore
    opening: Opening
    certificates: Certificates
    devices: DevicesAuthority | None
    metrics: Metrics
    heard: Heard
    going_on: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def troubles(self) -> Troubles:
        return self.heard.troubles

    async def listen(self, ports: Ports) -> None:
        settings = self.start_.settings
        tasks, certificates, heard = self.start_.served.tasks, self.certificates, self.heard
        intakes = await open_to_devices(
            ports, settings, tasks, self.admission, certificates, self.devices, shared=True, full=lambda: heard.full
        )
        self.metrics.registry.register(Crowds("shuffler", intakes, ports.full_seconds))

    async def start(self) -> None:
        self.going_on.add(asyncio.create_task(self._again_and_again()))

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self.store.forget()
            self.opening.forget()
            # The next one says all that this one would.
            if self.line.clear:
                self.report()

    def report(self) -> None:
        """Say what holds this one up, and show its metrics."""
        mine = [
            [repr(key), trouble.kind, event, trouble.text]
            for key, event, trouble in self.troubles.lasting()
            if not (isinstance(key, tuple) and key[0] == _KEEPER)
        ]
        lines, _since, why = logs.untold()
        if lines:
            # The same words however many they are: others would be logged each time.
            text = f"lines of its log were lost: {why}; work goes on, look at where its stderr goes"
            mine.append([_LOST, Kind.LOG, _LOST, text])
        shown = pictured(self.metrics.registry, PREFIX)
        self.line.tell(Frame.REPORT, codec.write_document({"troubles": mine, "metrics": shown}))

    async def leave(self) -> None:
        """Let the calls in work finish; each takes only a short time."""


@contextlib.asynccontextmanager
async def _assembled(start: Start, line: Line, store: LineStore, heard: Heard) -> AsyncIterator[_Acceptor]:
    settings, clock = start.settings, time.time
    served, tasks = start.served, start.served.tasks
    who = signers_of_tickets(served.operator, served.shuffler, tasks)
    devices = devices_authority(settings)
    check = None if devices is None else devices.check
    certificates = Certificates(Role.SHUFFLER, settings.tls.paths(), None, clock, check)
    metrics = Metrics("shuffler", (Stage.ADMIT, Stage.OPEN), CollectorRegistry())
    opening = Opening(metrics.stage(Stage.OPEN))
    # Without it nobody could be told from a stranger.
    await heard.admitted(await line.ask(Frame.ADMITTED))
    rate = Rate(max(1.0, settings.enrolments_per_second / settings.acceptors))
    queue = Queue(settings.queue, settings.queue_seconds)
    room = Room(settings.data, settings.disk_reserve, heard.troubles)
    admission = Admission(tasks, store, opening, clock, queue, heard.credentials, room, store.damaged)
    issuing = Issuing(heard.credentials, store, *who, clock, rate)
    show_queues(metrics.registry, admission=lambda: admission.in_work)
    metrics.registry.register(Conditions("shuffler", heard.troubles))
    timed = TimedAdmission(admission, issuing, metrics.stage(Stage.ADMIT))
    parts = (store, opening, certificates, devices, metrics, heard)
    acceptor = _Acceptor(start, line, timed, *parts)
    try:
        async with certificates.watched():
            yield acceptor
    finally:
        for task in acceptor.going_on:
            task.cancel()
        await asyncio.gather(*acceptor.going_on, return_exceptions=True)
        store.tell_counts()
        acceptor.report()


def _gone() -> None:
    """End at once: whoever is started next wants the ports, and all that was acknowledged is kept elsewhere."""
    os._exit(1)


async def _serve(start: Start, here: socket.socket) -> None:
    structlog.contextvars.bind_contextvars(acceptor=start.number)
    heard, leaving = Heard(), False
    line = Line(heard.answer, lambda: None if leaving else _gone())
    heard.store = store = LineStore(line)
    await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=here)

    def announce(addresses: dict[str, str]) -> None:
        line.tell(Frame.SERVING, codec.write_document({"addresses": addresses}))

    try:
        work = _assembled(start, line, store, heard)
        await run(start.settings.log, work, announce=announce, stop=heard.stop)
    except HubbubError as error:
        line.tell(Frame.SERVING, codec.write_document({"error": str(error)}))
    finally:
        leaving = True
        line.close()
        await asyncio.to_thread(logs.flush)


def main() -> None:
    """Answer devices until the other end of stdin says that it is enough."""
    keep_memory_in()
    end_with_parent()
    # A signal to all of a unit is for who keeps the rounds: that one says when to stop.
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
