"""The shuffler as a process: a port for devices, one for the operator, a store, and processes that open envelopes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from hubbub.protos import transport, wire
from hubbub.protos.errors import HubbubError
from hubbub.protos.keys import Identity, Role, load_public
from hubbub.service import listening
from hubbub.service.certificates import Certificates
from hubbub.service.metrics import Conditions, Disk, Metrics
from hubbub.service.ports import Announce, Ports
from hubbub.service.run import run
from hubbub.service.troubles import Troubles
from hubbub.shuffler.admit import Admission
from hubbub.shuffler.certified import certified_devices, check_devices
from hubbub.shuffler.control import Control
from hubbub.shuffler.credentials import Credentials
from hubbub.shuffler.enrolment import Enrolment, Rate
from hubbub.shuffler.metrics import ShufflerCollector, Stage, TimedAdmission, timed_steps
from hubbub.shuffler.opening import Openers
from hubbub.shuffler.rounds import Rounds
from hubbub.shuffler.settings import Settings
from hubbub.shuffler.sqlite import SqliteStore
from hubbub.shuffler.tasks import load_tasks

OPERATORS = frozenset({"operator"})
"""Common names that may control rounds."""

SUBMISSION_CALLS = 4096
"""Calls in work at once at the devices' port; more are turned away before they take memory."""

CONTROL_CALLS = 64
"""Calls in work at once at the operator's port."""


async def serve(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run the shuffler until SIGTERM or SIGINT, or until `stop` is set; then drain.

    `announce` is called with the addresses of the ports, {"submission": …, "control": …} and "metrics" where there is
    such a port, once they serve.

    Raises:
        HubbubError: where settings, tasks, keys, ports or the store cannot be used; nothing was served then.
    """
    await run(settings.log, _assembled(settings, clock), announce=announce, stop=stop)


@dataclass(frozen=True)
class _Shuffler:
    settings: Settings
    admission: TimedAdmission
    control: Control
    rounds: Rounds
    metrics: Metrics

    @property
    def troubles(self) -> Troubles:
        return self.rounds.troubles

    async def listen(self, ports: Ports) -> None:
        settings, tls = self.settings, self.settings.tls.paths()
        devices, operators = listening.new_server(SUBMISSION_CALLS), listening.new_server(CONTROL_CALLS)
        wire.serve_submissions(devices, self.admission)
        wire.serve_control(operators, self.control, OPERATORS)
        await ports.open("submission", settings.listen, wire.SUBMISSION_SERVICE, devices, tls.server(mutual=False))
        if settings.devices_listen:
            certified = listening.new_server(SUBMISSION_CALLS)
            wire.serve_certified(certified, self.admission)
            service, credentials = wire.SUBMISSION_SERVICE, certified_devices(settings)
            await ports.open("devices", settings.devices_listen, service, certified, credentials)
        await ports.open("control", settings.control_listen, wire.CONTROL_SERVICE, operators, tls.server(mutual=True))
        await ports.open_metrics(settings.metrics_listen, self.metrics.registry, tls)

    async def start(self) -> None:
        await self.rounds.start()

    async def leave(self) -> None:
        """Let the calls in work finish; each takes only a short time."""


@contextlib.asynccontextmanager
async def _assembled(settings: Settings, clock: Callable[[], float]) -> AsyncIterator[_Shuffler]:
    identity = _identity(settings)
    certificates = Certificates(Role.SHUFFLER, settings.tls.paths(), settings.identity, clock)
    tasks = load_tasks(settings.tasks, load_public(settings.operator_key), identity.public)
    check_devices(settings, tasks)
    channel = transport.open_channel(settings.analyzer, settings.tls.paths())
    metrics = Metrics("shuffler", Stage)
    troubles = Troubles()
    store = SqliteStore(settings.data, metrics.stage(Stage.STORE), troubles=troubles)
    openers = Openers(settings.processes, metrics.stage(Stage.OPEN))
    analyzer = wire.DeliveryCaller(channel)
    credentials, enrolment = _enrolment(settings, store, identity, clock)
    rounds = Rounds(
        tasks,
        store,
        identity,
        analyzer,
        settings.analyzer,
        clock=clock,
        observe=timed_steps(metrics.stage),
        troubles=troubles,
    )
    try:
        admission = Admission(tasks, store, openers, clock, settings.queue, credentials)
        waiting = {"opening": lambda: openers.waiting, "store": lambda: store.waiting}
        collector = ShufflerCollector(tasks, store, rounds, {"admission": lambda: admission.in_work, **waiting}, clock)
        for each in (collector, Disk("shuffler", settings.data), Conditions("shuffler", troubles), certificates):
            metrics.registry.register(each)
        openers.warm_up()
        await enrolment.start()
        timed = TimedAdmission(admission, enrolment, metrics.stage(Stage.ADMIT))
        async with certificates.watched():
            yield _Shuffler(settings, timed, Control(tasks, store, rounds, clock, enrolment), rounds, metrics)
    finally:
        # Rounds first, as they use all the others; the store last, as it still writes what waits.
        await rounds.stop()
        await channel.close()
        await openers.close()
        await asyncio.to_thread(store.close)


def _enrolment(
    settings: Settings, store: SqliteStore, identity: Identity, clock: Callable[[], float]
) -> tuple[Credentials, Enrolment]:
    credentials, rate = Credentials(), Rate(settings.enrolments_per_second)
    operator = load_public(settings.operator_key)
    return credentials, Enrolment(credentials, store, operator, identity.public, clock, rate)


def _identity(settings: Settings) -> Identity:
    try:
        return Identity.load(settings.identity)
    except OSError as error:
        raise HubbubError(f"cannot read {settings.identity}: {error.strerror}; `hubbub init` makes keys") from error
