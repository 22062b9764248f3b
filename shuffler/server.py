"""The shuffler as a process: a port for devices, one for the operator, a store, and processes that open envelopes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.rpc import CONTROL_SERVICE
from hubbub.service.lifecycle import run
from hubbub.service.net import grpc_server
from hubbub.service.net.limits import connections_of, operator_intake
from hubbub.service.net.ports import Announce, Ports
from hubbub.service.net.saturation import Crowds
from hubbub.service.net.tls_reload import Certificates
from hubbub.service.observability.incidents import Troubles
from hubbub.service.observability.metrics import Conditions, Disk, Metrics
from hubbub.service.observability.rounding import Counts
from hubbub.service.rpc import FollowHandler, KeeperHandler, serve_control
from hubbub.service.runtime.succession_files import load_successions, own_identity
from hubbub.service.spark.session import check_installed
from hubbub.shuffler.admit.admission import Admission
from hubbub.shuffler.admit.device_ports import open_to_devices
from hubbub.shuffler.admit.disk_reserve import Room
from hubbub.shuffler.admit.enrollment import Enrolment, Rate, signers_of_tickets
from hubbub.shuffler.admit.handler import DeviceHandler
from hubbub.shuffler.admit.load_shedding import Queue
from hubbub.shuffler.admit.mtls import DevicesAuthority, check_devices, devices_authority
from hubbub.shuffler.admit.opening_pool import Openers
from hubbub.shuffler.cluster.failover import OPERATORS, in_turns, keeper_gauge, open_to_others
from hubbub.shuffler.metrics import ShufflerCollector, Stage, is_exact, timed_steps
from hubbub.shuffler.mix.spark import order_by
from hubbub.shuffler.release.analyzer_client import Reached
from hubbub.shuffler.rounds.control import Control
from hubbub.shuffler.rounds.lifecycle import Rounds
from hubbub.shuffler.settings import Settings
from hubbub.shuffler.stores.factory import open_store, sharing_of, standbys_of
from hubbub.shuffler.stores.protocol import Store
from hubbub.shuffler.tasks import Tasks, load_tasks
from hubbub.shuffler.workers.handshake import Served
from hubbub.shuffler.workers.metrics import Joined, JoinedRegistry
from hubbub.shuffler.workers.store_server import Desk, SharedCredentials
from hubbub.shuffler.workers.supervisor import Acceptors

if TYPE_CHECKING:
    from hubbub.shuffler.stores.postgres.replication.leadership import Term


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
    if settings.store:
        await in_turns(settings, clock, functools.partial(_assembled, settings, clock), announce=announce, stop=stop)
    else:
        await run(settings.log, _assembled(settings, clock), announce=announce, stop=stop)


@dataclass(frozen=True)
class _Shuffler:
    settings: Settings
    tasks: Tasks
    admission: DeviceHandler
    control: Control
    rounds: Rounds
    metrics: Metrics
    certificates: Certificates
    devices: DevicesAuthority | None
    standbys: FollowHandler | None
    sharing: KeeperHandler | None
    acceptors: Acceptors | None

    @property
    def troubles(self) -> Troubles:
        return self.rounds.troubles

    async def listen(self, ports: Ports) -> None:
        settings, certificates, limits = self.settings, self.certificates, self.settings.limits
        intakes = {}
        if self.acceptors is not None:
            await self.acceptors.start(ports)
        elif settings.role != "keeper":
            admission, devices = self.admission, self.devices
            intakes = await open_to_devices(ports, settings, self.tasks, admission, certificates, devices, others=1)
        few = connections_of(limits, len(intakes) + 1)
        intakes["control"] = operator_intake(limits, few)
        self.metrics.registry.register(Crowds("shuffler", intakes, ports.full_seconds))
        operators = grpc_server.new_server(few)
        serve_control(operators, self.control, OPERATORS, intakes["control"])
        mutual, service = certificates.server(mutual=True), CONTROL_SERVICE
        await ports.open("control", settings.control_listen, service, operators, mutual, intakes["control"])
        await open_to_others(ports, settings, certificates, self.standbys, self.sharing)
        registry, tls = self.metrics.registry, settings.tls.paths()
        await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)

    async def start(self) -> None:
        await self.rounds.start()

    async def leave(self) -> None:
        """Let the calls in work finish; each takes only a short time."""
        if self.acceptors is not None:
            await self.acceptors.stop()


@contextlib.asynccontextmanager
async def _assembled(
    settings: Settings, clock: Callable[[], float], term: Term | None = None
) -> AsyncIterator[_Shuffler]:
    check_installed(settings.spark)
    identity, tasks = own_tasks(settings)
    certificates, devices = _certificates(settings, clock)
    analyzer = Reached(settings.analyzer, settings.tls.paths(), certificates)
    joined, troubles = Joined(), Troubles()
    counts, metrics = _metrics(settings, term, joined)
    store = open_store(settings, metrics.stage(Stage.STORE), troubles, term)
    openers = Openers(settings.processes, metrics.stage(Stage.OPEN))
    room = Room(settings.data, settings.disk_reserve, troubles)
    credentials, enrolment = _enrolment(settings, store, identity, tasks, clock)
    own, observe, order = (tasks, store, identity), timed_steps(metrics.stage), order_by(settings.spark)
    rounds = Rounds(*own, analyzer, settings.analyzer, clock=clock, observe=observe, troubles=troubles, order=order)
    desk = Desk(store, credentials, rounds.damaged_keys)
    served = Served(load_public(settings.operator_key), identity.public, tasks)
    acceptors = Acceptors(settings, served, desk, troubles, joined) if settings.acceptors else None
    try:
        queue = Queue(settings.queue, settings.queue_seconds)
        admission = Admission(tasks, store, openers, clock, queue, credentials, room, rounds.damaged_keys)
        queues = {"opening": lambda: openers.waiting, "store": lambda: store.waiting}
        queues["admission"] = lambda: admission.in_work
        _collect(metrics, ShufflerCollector(tasks, store, rounds, queues, clock, counts), settings, troubles)
        metrics.registry.register(certificates)
        if acceptors is not None:
            credentials.tell = acceptors.tell
        else:
            openers.warm_up()
        await enrolment.start()
        handler = DeviceHandler(admission, enrolment, metrics.stage(Stage.ADMIT))
        async with certificates.watched():
            control = Control(tasks, store, rounds, clock, enrolment, counts)
            others = standbys_of(store), sharing_of(store, rounds.damaged_keys), acceptors
            yield _Shuffler(settings, tasks, handler, control, rounds, metrics, certificates, devices, *others)
    finally:
        # Whoever asks first, then rounds, as they use all the others; the store last, as it still writes what waits.
        if acceptors is not None:
            await acceptors.stop()
        await rounds.stop()
        await analyzer.close()
        await openers.close()
        await asyncio.to_thread(store.close)


def own_tasks(settings: Settings) -> tuple[Identity, Tasks]:
    """Return the shuffler's identity and the tasks that it runs by its settings.

    Raises:
        HubbubError: where a file of them cannot be used.
    """
    successions = load_successions(settings.successions)
    identity = own_identity(settings.identity, Role.SHUFFLER, successions)
    tasks = load_tasks(settings.tasks, load_public(settings.operator_key), identity.public, successions)
    check_devices(settings, tasks)
    return identity, tasks


def _metrics(settings: Settings, term: Term | None, joined: Joined) -> tuple[Counts, Metrics]:
    counts = Counts(settings.count_step)
    metrics = Metrics("shuffler", Stage, JoinedRegistry(counts, is_exact, joined))
    keeper_gauge(metrics.registry, 0 if term is None else term.number)
    return counts, metrics


def _collect(metrics: Metrics, collector: ShufflerCollector, settings: Settings, troubles: Troubles) -> None:
    for each in (collector, Disk("shuffler", settings.data), Conditions("shuffler", troubles)):
        metrics.registry.register(each)


def _certificates(settings: Settings, clock: Callable[[], float]) -> tuple[Certificates, DevicesAuthority | None]:
    devices = devices_authority(settings)
    check = None if devices is None else devices.check
    return Certificates(Role.SHUFFLER, settings.tls.paths(), settings.identity, clock, check), devices


def _enrolment(
    settings: Settings, store: Store, identity: Identity, tasks: Tasks, clock: Callable[[], float]
) -> tuple[SharedCredentials, Enrolment]:
    credentials, rate = SharedCredentials(), Rate(settings.enrolments_per_second)
    who = signers_of_tickets(load_public(settings.operator_key), identity.public, tasks)
    return credentials, Enrolment(credentials, store, *who, clock, rate)
