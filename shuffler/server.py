"""Assembles and runs a shuffler: its ports for devices and operator, its store, and its opening processes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.identity.successions import Succession
from hubbub.protos.rpc import CONTROL_SERVICE
from hubbub.protos.task.feed.entry import FeedParties
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.extras import opened_traces
from hubbub.service.lifecycle import run
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.rounding import CountRounding
from hubbub.service.observability.shared_metrics import Disk, IncidentCollector, Metrics
from hubbub.service.observability.traces import SpanCollector, Traces
from hubbub.service.rpc import LeaderHandler, ReplicationHandler, serve_control
from hubbub.service.rpc.revoked_readers import RevokedReaders
from hubbub.service.runtime.kept_feed import kept_feed_of
from hubbub.service.runtime.own_identities import own_identity
from hubbub.service.runtime.succession_files import load_successions
from hubbub.service.runtime.tidying import tidied_async
from hubbub.service.spark.session import check_installed
from hubbub.service.transport import grpc_server
from hubbub.service.transport.file_limits import check_files
from hubbub.service.transport.port_limits import connections_of, operator_pipeline
from hubbub.service.transport.ports import Announce, Ports
from hubbub.service.transport.saturation import SaturationCollector
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.device_ports import open_to_devices
from hubbub.shuffler.admit.disk_reserve import DiskReserve
from hubbub.shuffler.admit.enrollment import EnrollmentControl, Rate, signers_of_tickets
from hubbub.shuffler.admit.handler import DeviceHandler
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.mtls import DevicesAuthority, check_devices, devices_authority
from hubbub.shuffler.admit.openers import Openers
from hubbub.shuffler.cluster.failover import leader_gauge, open_to_cluster, run_with_failover
from hubbub.shuffler.cluster.readiness import Readiness
from hubbub.shuffler.cluster.standbys import watched_standbys
from hubbub.shuffler.live_tasks import ShufflerLiveTasks, taken_before, taken_by_leader
from hubbub.shuffler.metrics import ShufflerCollector, ShufflerStage, is_exact, timed_steps
from hubbub.shuffler.mix.spark import order_by
from hubbub.shuffler.release.analyzer_client import ReconnectingAnalyzer
from hubbub.shuffler.rounds.control import Control
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.stores.factory import (
    open_store,
    replication_of,
    secret_server_of,
    standbys_of,
    unfinished_rounds,
)
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.tasks import Tasks, load_signed
from hubbub.shuffler.workers.handshake import Served
from hubbub.shuffler.workers.metrics import MergedMetrics, MergedRegistry
from hubbub.shuffler.workers.store_server import SharedCredentials, StoreServer
from hubbub.shuffler.workers.supervisor import WorkerSupervisor

if TYPE_CHECKING:
    from hubbub.shuffler.stores.postgres.replication.leadership import Lease


async def serve(
    settings: ShufflerSettings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run the shuffler until SIGTERM or SIGINT, or until `stop` is set; then drain.

    `announce` is called once the ports serve, with their addresses: {"submission": …, "control": …}, and "metrics" if
    there is such a port.

    Raises:
        HubbubError: if settings, tasks, keys, ports or the store cannot be used; then nothing was served.
    """
    check_files(settings)
    if settings.store:
        readiness = _readiness(settings, clock)
        acting = functools.partial(_assembled, settings, clock)
        await run_with_failover(settings, clock, acting, readiness.check, announce=announce, stop=stop)
    else:
        await run(settings.log, _assembled(settings, clock), announce=announce, stop=stop)


@dataclass(frozen=True)
class _ShufflerParts:
    settings: ShufflerSettings
    tasks: Tasks
    admission: DeviceHandler
    control: Control
    rounds: RoundLifecycle
    metrics: Metrics
    certificates: ReloadingCertificates
    devices: DevicesAuthority | None
    standbys: ReplicationHandler | None
    secret_server: LeaderHandler | None
    workers: WorkerSupervisor | None

    @property
    def incidents(self) -> Incidents:
        return self.rounds.incidents

    async def listen(self, ports: Ports) -> None:
        settings, certificates, limits = self.settings, self.certificates, self.settings.limits
        pipelines = {}
        if self.workers is not None:
            await self.workers.start(ports)
        elif settings.role != "leader":
            admission, devices = self.admission, self.devices
            pipelines = await open_to_devices(
                *(ports, settings, self.tasks, admission, certificates, devices), others=1, live=bool(settings.feed)
            )
        # All ports share this process's limit of open files: those of devices, if it opens them, and the operator's.
        few = connections_of(limits, len(pipelines) + 1)
        pipelines["control"] = operator_pipeline(limits, few)
        pipelines["control"].revoked = RevokedReaders(settings.revoked_readers)
        self.metrics.registry.register(SaturationCollector("shuffler", pipelines, ports.full_seconds))
        operators = grpc_server.new_server(few)
        serve_control(operators, self.control, pipeline=pipelines["control"])
        mutual, service = certificates.server(mutual=True), CONTROL_SERVICE
        await ports.open("control", settings.control_listen, service, operators, mutual, pipelines["control"])
        await open_to_cluster(ports, settings, certificates, self.standbys, self.secret_server)
        registry, tls = self.metrics.registry, settings.tls.paths()
        await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)

    async def start(self) -> None:
        await self.rounds.start()

    async def leave(self) -> None:
        """Let the calls in progress finish; each takes only a short time."""
        if self.workers is not None:
            await self.workers.stop()


@contextlib.asynccontextmanager
async def _assembled(
    settings: ShufflerSettings, clock: Callable[[], float], lease: Lease | None = None
) -> AsyncIterator[_ShufflerParts]:
    # Closed last: what rounds did until then has spans too.
    opened = opened_traces("shuffler", settings.traces, settings.tls)
    async with opened as traces, _with_traces(settings, clock, lease, traces) as parts:
        yield parts


@contextlib.asynccontextmanager
async def _with_traces(
    settings: ShufflerSettings, clock: Callable[[], float], lease: Lease | None, traces: Traces
) -> AsyncIterator[_ShufflerParts]:
    check_installed(settings.spark)
    identity, signed, successions = _signed_tasks(settings)
    tasks = {task_id: each.task for task_id, each in signed.items()}
    certificates, devices = _certificates(settings, clock)
    analyzer = ReconnectingAnalyzer(settings.analyzer, settings.tls.paths(), certificates)
    merged, incidents = MergedMetrics(), Incidents()
    counts, metrics = _metrics(settings, lease, merged)
    store = open_store(settings, metrics.stage(ShufflerStage.STORE), incidents, lease)
    openers = Openers(settings.processes, metrics.stage(ShufflerStage.OPEN))
    reserve = DiskReserve(settings.data, settings.disk_reserve, incidents)
    credentials, enrollment = _enrollment(settings, store, identity, tasks, successions, clock)
    parts, order = (tasks, store, identity, analyzer, settings.analyzer), order_by(settings.spark)
    doing = functools.partial(RoundLifecycle, order=order, seal=openers.seal, observe=timed_steps(metrics.stage))
    rounds = doing(*parts, clock=clock, incidents=incidents, traces=traces)
    store_server = StoreServer(store, credentials, rounds.damaged_keys)
    served = Served(load_public(settings.operator_key), identity.public, tasks, tuple(successions))
    workers = WorkerSupervisor(settings, served, store_server, incidents, merged) if settings.workers else None
    # Callers first, then rounds, which use all the others; the store last, as it still writes what waits.
    callers = [] if workers is None else [workers.stop]
    last = (rounds.stop, analyzer.close, openers.close, lambda: asyncio.to_thread(store.close))
    live = ShufflerLiveTasks(settings, tasks, signed, rounds).shared_with(workers, store_server)
    followed = live.followed(kept_feed_of(store, settings.data), _parties(settings), incidents)
    async with tidied_async(*callers, *last), followed, enrollment.renewed():
        queue, damaged = LoadShedder(settings.queue, settings.queue_seconds), rounds.damaged_keys
        admission = AdmissionHandler(tasks, store, openers, clock, queue, credentials, reserve, damaged)
        waiting = {"opening": lambda: openers.waiting, "store": lambda: store.waiting}
        queues = {**waiting, "admission": lambda: admission.in_work}
        _collect(metrics, ShufflerCollector(tasks, store, rounds, queues, clock, counts), settings, incidents)
        for each in (certificates, SpanCollector("shuffler", traces)):
            metrics.registry.register(each)
        if workers is not None:
            credentials.tell = workers.tell
        else:
            openers.warm_up()
        await enrollment.start()
        handler = DeviceHandler(admission, enrollment, metrics.stage(ShufflerStage.ADMIT), pages=live.pages)
        async with certificates.watched(), watched_standbys(standbys_of(store), incidents, metrics.registry):
            control = Control(tasks, store, rounds, clock, enrollment, counts, signed)
            others = replication_of(store), secret_server_of(store, rounds.damaged_keys, credentials), workers
            yield _ShufflerParts(settings, tasks, handler, control, rounds, metrics, certificates, devices, *others)


def own_tasks(settings: ShufflerSettings) -> tuple[Identity, Tasks]:
    """Return the shuffler's identity, and the tasks that its settings name or that it took of its feed.

    Raises:
        HubbubError: if one of their files cannot be used.
    """
    identity, tasks = _tasks_of_files(settings)
    return identity, {**taken_before(settings, _parties(settings)), **tasks}


def _readiness(settings: ShufflerSettings, clock: Callable[[], float]) -> Readiness:
    return Readiness(
        lambda: _tasks_of_files(settings),
        lambda: taken_by_leader(settings, _parties(settings)),
        lambda: unfinished_rounds(settings),
        clock,
    )


def _tasks_of_files(settings: ShufflerSettings) -> tuple[Identity, Tasks]:
    identity, signed, _ = _signed_tasks(settings)
    return identity, {task_id: each.task for task_id, each in signed.items()}


def _parties(settings: ShufflerSettings) -> FeedParties:
    successions = load_successions(settings.successions)
    identity = own_identity(settings.identity, Role.SHUFFLER, successions)
    return FeedParties(load_public(settings.operator_key), identity.public, successions, Role.SHUFFLER)


def _signed_tasks(settings: ShufflerSettings) -> tuple[Identity, dict[bytes, SignedTask], list[Succession]]:
    successions = load_successions(settings.successions)
    identity = own_identity(settings.identity, Role.SHUFFLER, successions)
    operator = load_public(settings.operator_key)
    parties, any_number = (operator, identity.public, successions, Role.SHUFFLER), settings.feed is not None
    signed = load_signed(settings.tasks, *parties, any_number=any_number)
    check_devices(settings, {task_id: each.task for task_id, each in signed.items()})
    return identity, signed, successions


def _metrics(settings: ShufflerSettings, lease: Lease | None, merged: MergedMetrics) -> tuple[CountRounding, Metrics]:
    counts = CountRounding(settings.count_step)
    metrics = Metrics("shuffler", ShufflerStage, MergedRegistry(counts, is_exact, merged))
    leader_gauge(metrics.registry, 0 if lease is None else lease.fencing_token)
    return counts, metrics


def _collect(metrics: Metrics, collector: ShufflerCollector, settings: ShufflerSettings, incidents: Incidents) -> None:
    for each in (collector, Disk("shuffler", settings.data), IncidentCollector("shuffler", incidents)):
        metrics.registry.register(each)


def _certificates(
    settings: ShufflerSettings, clock: Callable[[], float]
) -> tuple[ReloadingCertificates, DevicesAuthority | None]:
    devices = devices_authority(settings)
    check = None if devices is None else devices.check
    files = settings.tls.paths(), settings.identity
    return ReloadingCertificates(Role.SHUFFLER, *files, clock, check, settings.https_tls()), devices


def _enrollment(
    settings: ShufflerSettings,
    store: ShufflerStore,
    identity: Identity,
    tasks: Tasks,
    successions: Sequence[Succession],
    clock: Callable[[], float],
) -> tuple[SharedCredentials, EnrollmentControl]:
    credentials, rate = SharedCredentials(identity, successions, clock), Rate(settings.enrollments_per_second)
    who = signers_of_tickets(load_public(settings.operator_key), identity.public, tasks, successions)
    return credentials, EnrollmentControl(credentials, store, *who, clock, rate)
