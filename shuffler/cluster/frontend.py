"""Runs a front end: it answers devices for a leader, and has no keys, rounds or store of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import load_public
from hubbub.protos.task.feed.entry import FeedParties
from hubbub.protos.task.task import Task
from hubbub.service.errors import StoreError
from hubbub.service.lifecycle import run
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.rounding import CountRounding, RoundedRegistry
from hubbub.service.observability.shared_metrics import IncidentCollector, Metrics
from hubbub.service.runtime.succession_files import load_successions
from hubbub.service.runtime.tidying import tidied_async
from hubbub.service.transport.file_limits import check_files
from hubbub.service.transport.ports import Announce, Ports
from hubbub.service.transport.saturation import SaturationCollector
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.device_ports import check_length, longest_envelope, open_to_devices
from hubbub.shuffler.admit.enrollment import CredentialIssuer, Rate, signers_of_tickets
from hubbub.shuffler.admit.handler import DeviceHandler
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.mtls import DevicesAuthority, check_devices, devices_authority
from hubbub.shuffler.admit.openers import Openers
from hubbub.shuffler.cluster.frontend_feed import LOOK_SECONDS as FEED_SECONDS
from hubbub.shuffler.cluster.frontend_feed import FrontendFeed
from hubbub.shuffler.cluster.ingest import show_queues, tasks_for
from hubbub.shuffler.metrics import ShufflerStage, is_exact
from hubbub.shuffler.settings import FrontendSettings
from hubbub.shuffler.stores.factory import open_frontend
from hubbub.shuffler.tasks import Tasks

if TYPE_CHECKING:
    from hubbub.shuffler.stores.postgres.replication.frontend_store import FrontendStore


FRONTEND = "frontend"
"""The common name of a front end's TLS certificate."""


async def serve_frontend(
    settings: FrontendSettings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a front end until SIGTERM or SIGINT, or until `stop` is set; then drain.

    Raises:
        HubbubError: if settings, tasks, ports, the database or every leader cannot be used; then nothing was served.
    """
    check_files(settings)
    await run(settings.log, _assembled(settings, clock), announce=announce, stop=stop)


@dataclass(frozen=True)
class _FrontendParts:
    settings: FrontendSettings
    tasks: Tasks
    admission: DeviceHandler
    store: FrontendStore
    credentials: Credentials
    metrics: Metrics
    certificates: ReloadingCertificates
    devices: DevicesAuthority | None
    incidents: Incidents
    feed: FrontendFeed
    going_on: set[asyncio.Task[None]]

    async def listen(self, ports: Ports) -> None:
        settings, certificates = self.settings, self.certificates
        parts = (ports, settings, self.tasks, self.admission, certificates, self.devices)
        pipelines = await open_to_devices(*parts, live=True)
        self.metrics.registry.register(SaturationCollector("shuffler", pipelines, ports.full_seconds))
        registry, tls = self.metrics.registry, settings.tls.paths()
        await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)
        ports.serve_once(self._lacks)

    def _lacks(self) -> str | None:
        """Return what this front end waits for, if it has no task, and no feed to give to devices."""
        if self.tasks or self.feed.pages.count:
            return None
        return (
            f"there is no task to answer for: no *.json in {' or '.join(map(str, self.settings.tasks))}, and the "
            "leader has taken none of a feed; publish one (`hubbub tasks publish`), with which this front end begins "
            "by itself, or put the signed task there and restart it"
        )

    async def start(self) -> None:
        from hubbub.shuffler.stores.postgres.replication.frontend_store import LOOK_SECONDS

        looks = ((self._learn, LOOK_SECONDS), (self.store.look, LOOK_SECONDS), (self._follow, FEED_SECONDS))
        for work, seconds in looks:
            self.going_on.add(asyncio.create_task(_again_and_again(work, seconds)))

    async def _follow(self) -> None:
        # If the database does not answer, that is an incident already.
        with contextlib.suppress(StoreError):
            await self.feed.look()

    async def _learn(self) -> None:
        # If no leader answers, `learn` opens an incident.
        with contextlib.suppress(HubbubError):
            if await self.store.learn():
                await _read(self.credentials, self.store)

    async def leave(self) -> None:
        """Let the calls in progress finish; each takes only a short time."""


async def _stop(going_on: set[asyncio.Task[None]]) -> None:
    for task in going_on:
        task.cancel()
    await asyncio.gather(*going_on, return_exceptions=True)


async def _read(credentials: Credentials, store: FrontendStore) -> None:
    await credentials.read(store)
    credentials.oblivious_records = store.oblivious_records


async def _again_and_again(work: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await work()


def _parties(settings: FrontendSettings) -> FeedParties:
    operator, shuffler = load_public(settings.operator_key), load_public(settings.shuffler_key)
    return FeedParties(operator, shuffler, load_successions(settings.successions))


@contextlib.asynccontextmanager
async def _assembled(settings: FrontendSettings, clock: Callable[[], float]) -> AsyncIterator[_FrontendParts]:
    parties = _parties(settings)
    tasks = tasks_for(settings, parties)
    devices = devices_authority(settings)
    check = None if devices is None else devices.check
    certificates = ReloadingCertificates(FRONTEND, settings.tls.paths(), None, clock, check, settings.https_tls())
    counts, incidents = CountRounding(settings.count_step), Incidents()
    metrics = Metrics("shuffler", ShufflerStage, RoundedRegistry(counts, is_exact))
    openers = Openers(settings.processes, metrics.stage(ShufflerStage.OPEN))
    store, leader = open_frontend(
        settings,
        metrics.stage(ShufflerStage.STORE),
        incidents,
        renewals=lambda: certificates.renewals,
        cut_of=lambda round_: tasks[round_[0]].schedule.cut(round_[1]),
        clock=clock,
    )
    going_on: set[asyncio.Task[None]] = set()
    last = (openers.close, lambda: asyncio.to_thread(store.close), leader.close)
    async with tidied_async(lambda: _stop(going_on), *last):
        credentials, rate = Credentials(lambda: store.outdated), Rate(settings.enrollments_per_second)
        # Without the secrets every device would be refused as unknown.
        await store.learn()
        await _read(credentials, store)
        # Before the ports open, whose limits follow from the tasks.
        feed = await _followed(settings, tasks, parties, store, incidents)
        queue = LoadShedder(settings.queue, settings.queue_seconds)
        admission = AdmissionHandler(tasks, store, openers, clock, queue, credentials, seek=feed.seek)
        who = signers_of_tickets(parties.operator, parties.shuffler, tasks, parties.successions)
        issuing = CredentialIssuer(credentials, store, *who, clock, rate)
        queues = {"opening": lambda: openers.waiting, "store": lambda: store.waiting}
        show_queues(metrics.registry, **queues, admission=lambda: admission.in_work)
        for each in (IncidentCollector("shuffler", incidents), certificates):
            metrics.registry.register(each)
        openers.warm_up()
        handler = DeviceHandler(admission, issuing, metrics.stage(ShufflerStage.ADMIT), pages=feed.page)
        async with certificates.watched():
            parts = (store, credentials, metrics, certificates, devices, incidents, feed, going_on)
            yield _FrontendParts(settings, tasks, handler, *parts)


async def _followed(
    settings: FrontendSettings,
    tasks: dict[bytes, Task],
    parties: FeedParties,
    store: FrontendStore,
    incidents: Incidents,
) -> FrontendFeed:
    """Take what the leader took of the feed until now; return what takes the rest."""
    longest: int | None = None

    def check(task: Task) -> None:
        check_devices(settings, {task.id: task})
        # Ports that are still closed will be opened for this task, too.
        if longest is not None:
            check_length(task, longest)

    feed = FrontendFeed(tasks, parties, store.feed_documents, check, incidents)
    await feed.look()
    longest = longest_envelope(tasks, live=True)
    return feed
