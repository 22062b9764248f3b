"""The shuffler as a process: a port for devices, one for the operator, a store, and processes that open envelopes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from hubbub.protos import wire
from hubbub.protos.keys import Identity, Role, load_public
from hubbub.service import listening
from hubbub.service.certificates import Certificates
from hubbub.service.metrics import Conditions, Disk, Metrics
from hubbub.service.ports import Announce, Ports
from hubbub.service.run import run
from hubbub.service.successions import load_successions, own_identity
from hubbub.service.troubles import Troubles
from hubbub.shuffler.admit import Admission
from hubbub.shuffler.certified import DevicesAuthority, check_devices, devices_authority
from hubbub.shuffler.control import Control
from hubbub.shuffler.credentials import Credentials
from hubbub.shuffler.enrolment import Enrolment, Rate
from hubbub.shuffler.metrics import ShufflerCollector, Stage, TimedAdmission, timed_steps
from hubbub.shuffler.opening import Openers
from hubbub.shuffler.reaching import Reached
from hubbub.shuffler.rounds import Rounds
from hubbub.shuffler.settings import Settings
from hubbub.shuffler.sqlite import SqliteStore
from hubbub.shuffler.tasks import Tasks, load_tasks

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
    certificates: Certificates
    devices: DevicesAuthority | None

    @property
    def troubles(self) -> Troubles:
        return self.rounds.troubles

    async def listen(self, ports: Ports) -> None:
        settings, certificates = self.settings, self.certificates
        devices, operators = listening.new_server(SUBMISSION_CALLS), listening.new_server(CONTROL_CALLS)
        wire.serve_submissions(devices, self.admission)
        wire.serve_control(operators, self.control, OPERATORS)
        everyone, mutual = certificates.server(mutual=False), certificates.server(mutual=True)
        await ports.open("submission", settings.listen, wire.SUBMISSION_SERVICE, devices, everyone)
        if self.devices is not None:
            certified = listening.new_server(SUBMISSION_CALLS)
            wire.serve_certified(certified, self.admission)
            service, credentials = wire.SUBMISSION_SERVICE, self.devices.port(certificates)
            await ports.open("devices", settings.devices_listen, service, certified, credentials)
        await ports.open("control", settings.control_listen, wire.CONTROL_SERVICE, operators, mutual)
        registry, tls = self.metrics.registry, settings.tls.paths()
        await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)

    async def start(self) -> None:
        await self.rounds.start()

    async def leave(self) -> None:
        """Let the calls in work finish; each takes only a short time."""


@contextlib.asynccontextmanager
async def _assembled(settings: Settings, clock: Callable[[], float]) -> AsyncIterator[_Shuffler]:
    successions = load_successions(settings.successions)
    identity = own_identity(settings.identity, Role.SHUFFLER, successions)
    certificates, devices = _certificates(settings, clock)
    tasks = load_tasks(settings.tasks, load_public(settings.operator_key), identity.public, successions)
    check_devices(settings, tasks)
    analyzer = Reached(settings.analyzer, settings.tls.paths(), certificates)
    metrics = Metrics("shuffler", Stage)
    troubles = Troubles()
    store = SqliteStore(settings.data, metrics.stage(Stage.STORE), troubles=troubles)
    openers = Openers(settings.processes, metrics.stage(Stage.OPEN))
    credentials, enrolment = _enrolment(settings, store, identity, tasks, clock)
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
            control = Control(tasks, store, rounds, clock, enrolment)
            yield _Shuffler(settings, timed, control, rounds, metrics, certificates, devices)
    finally:
        # Rounds first, as they use all the others; the store last, as it still writes what waits.
        await rounds.stop()
        await analyzer.close()
        await openers.close()
        await asyncio.to_thread(store.close)


def _certificates(settings: Settings, clock: Callable[[], float]) -> tuple[Certificates, DevicesAuthority | None]:
    devices = devices_authority(settings)
    check = None if devices is None else devices.check
    return Certificates(Role.SHUFFLER, settings.tls.paths(), settings.identity, clock, check), devices


def _enrolment(
    settings: Settings, store: SqliteStore, identity: Identity, tasks: Tasks, clock: Callable[[], float]
) -> tuple[Credentials, Enrolment]:
    credentials, rate = Credentials(), Rate(settings.enrolments_per_second)
    operators, shufflers = {load_public(settings.operator_key)}, {identity.public}
    for lineage in (task.lineage for task in tasks.values()):
        operators.update(() if lineage is None else lineage.identities(Role.OPERATOR))
        shufflers.update(() if lineage is None else lineage.identities(Role.SHUFFLER))
    return credentials, Enrolment(credentials, store, operators, shufflers, clock, rate)
