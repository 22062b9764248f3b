"""Assembles and runs an analyzer: two ports over mutual TLS, a store, and opening processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog

from hubbub.analyzer.certifier import Certifier
from hubbub.analyzer.live_tasks import AnalyzerLiveTasks
from hubbub.analyzer.metrics import AnalyzerCollector, AnalyzerStage
from hubbub.analyzer.progress import progress_of
from hubbub.analyzer.receiver import BatchReceiver
from hubbub.analyzer.results import Results
from hubbub.analyzer.settings import AnalyzerSettings
from hubbub.analyzer.stores.factory import open_store
from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.analyzer.tasks import Tasks, load_tasks
from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.results import AnalysisStage
from hubbub.protos.rpc import DELIVERY_SERVICE, RESULTS_SERVICE
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities
from hubbub.protos.transport.roles import READERS
from hubbub.service.errors import damage_in
from hubbub.service.extras import opened_traces
from hubbub.service.ledger.release_chain import check_chains
from hubbub.service.lifecycle import run
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.shared_metrics import Disk, IncidentCollector, Metrics
from hubbub.service.observability.traces import SpanCollector
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.service.receiving.delivery_service import DELIVERERS, TimedDelivery, sweep
from hubbub.service.rpc import DeliveryHandler, serve_delivery, serve_results
from hubbub.service.rpc.revoked_readers import RevokedReaders
from hubbub.service.runtime.feed_follower import watched
from hubbub.service.runtime.kept_feed import kept_feed_of
from hubbub.service.runtime.own_identities import own_identity
from hubbub.service.runtime.succession_files import load_successions
from hubbub.service.runtime.tidying import tidied_async
from hubbub.service.spark.session import check_installed
from hubbub.service.transport import grpc_server
from hubbub.service.transport.file_limits import check_files
from hubbub.service.transport.port_limits import connections_of, mutual_pipeline
from hubbub.service.transport.ports import Announce, Ports
from hubbub.service.transport.saturation import SaturationCollector
from hubbub.service.transport.tls_reload import ReloadingCertificates

_LOG = structlog.get_logger(__name__)


async def serve(
    settings: AnalyzerSettings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
    new_pool: Callable[[int], OpeningPool] = OpeningPool,
    behind: Callable[[DeliveryHandler], DeliveryHandler] = lambda receiver: receiver,
) -> None:
    """Run the analyzer until SIGTERM or SIGINT, or until `stop` is set; then drain.

    `new_pool` makes the pool of that many processes that open envelopes. `behind` gives what takes deliveries before
    the receiver does: an audit's attacker drops some. `announce` is called once the ports serve,
    with their addresses: {"delivery": …, "results": …}, and "metrics" if that port is set.

    Raises:
        HubbubError: if settings, tasks, keys, ports or the store cannot be used; then nothing was served.
    """
    check_files(settings)
    await run(settings.log, _assembled(settings, clock, new_pool, behind), announce=announce, stop=stop)


@dataclass
class _AnalyzerParts:
    settings: AnalyzerSettings
    store: AnalyzerStore
    receiver: TimedDelivery
    certifier: Certifier
    results: Results
    metrics: Metrics
    incidents: Incidents
    certificates: ReloadingCertificates
    clock: Callable[[], float]
    sweeping: asyncio.Task[None] | None = None

    async def listen(self, ports: Ports) -> None:
        settings, certificates, limits = self.settings, self.certificates, self.settings.limits
        names = ("delivery", "results")
        connections = connections_of(limits, len(names))
        pipelines = {name: mutual_pipeline(limits, connections) for name in names}
        pipelines["results"].revoked = RevokedReaders(settings.revoked_readers)
        self.metrics.registry.register(SaturationCollector("analyzer", pipelines, ports.full_seconds))
        deliverers, readers = grpc_server.new_server(connections), grpc_server.new_server(connections)
        serve_delivery(deliverers, self.receiver, DELIVERERS, pipelines["delivery"])
        serve_results(readers, self.results, READERS, pipelines["results"])
        taken, read = (certificates.server(mutual=True) for _ in pipelines)
        delivery, results = DELIVERY_SERVICE, RESULTS_SERVICE
        await ports.open("delivery", settings.delivery_listen, delivery, deliverers, taken, pipelines["delivery"])
        await ports.open("results", settings.results_listen, results, readers, read, pipelines["results"])
        registry, tls = self.metrics.registry, settings.tls.paths()
        await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)

    async def start(self) -> None:
        self.sweeping = asyncio.create_task(sweep(self.store, self.clock, self.incidents, self.certifier.start))

    async def leave(self) -> None:
        """End all waits for results: calls in progress could not finish otherwise."""
        if self.sweeping is not None:
            self.sweeping.cancel()
        self.results.close()


@contextlib.asynccontextmanager
async def _assembled(
    settings: AnalyzerSettings,
    clock: Callable[[], float],
    new_pool: Callable[[int], OpeningPool],
    behind: Callable[[DeliveryHandler], DeliveryHandler],
) -> AsyncIterator[_AnalyzerParts]:
    check_installed(settings.spark)
    identity, parties, tasks, successions = _load(settings)
    certificates = ReloadingCertificates(Role.ANALYZER, settings.tls.paths(), settings.identity, clock)
    metrics, incidents = Metrics("analyzer", AnalyzerStage), Incidents()
    opened = _opened(settings, metrics, incidents, new_pool)
    # Closed last: the certificates that are made at the end have spans too.
    async with opened_traces("analyzer", settings.traces, settings.tls) as traces, opened as (store, opening_pool):
        await store.add_tasks(tasks.values())
        live = AnalyzerLiveTasks(tasks, store, parties, successions)
        feed = await live.feed(settings.feed, kept_feed_of(store, settings.data), incidents)
        # Before anything is received or certified: a damaged ledger must stop the start, and not a later charge.
        await check_store(store)
        await tell_held(store, tasks)
        certifier = Certifier(
            *(identity, store),
            successions=successions,
            observe=metrics.stage(AnalyzerStage.CERTIFY),
            incidents=incidents,
            traces=traces,
        )
        parts = tasks, identity, store, opening_pool
        receiver = BatchReceiver(
            *parts, committed=certifier.start, incidents=incidents, traces=traces, spending=live.spending
        )
        await receiver.check_keys()
        timed = TimedDelivery(behind(receiver), metrics.stage(AnalyzerStage.ACCEPT), metrics.stage(AnalyzerStage.COUNT))
        results = Results(store, certifier, tasks, incidents)
        metrics.registry.register(
            AnalyzerCollector(
                *(tasks, store, timed.refusals, receiver.unannounced, certifier.failures, clock, incidents),
                results.refusals,
            )
        )
        disk, shown = Disk("analyzer", settings.data), IncidentCollector("analyzer", incidents)
        for each in (disk, shown, SpanCollector("analyzer", traces), certificates):
            metrics.registry.register(each)
        # The ports have drained by then; the rounds that the last batches completed are still certified.
        async with tidied_async(certifier.settle), certificates.watched(), watched(feed):
            yield _AnalyzerParts(settings, store, timed, certifier, results, metrics, incidents, certificates, clock)


def _load(settings: AnalyzerSettings) -> tuple[Identity, Identities, dict[bytes, SignedTask], list[Succession]]:
    successions = load_successions(settings.successions)
    identity = own_identity(settings.identity, Role.ANALYZER, successions)
    operator, shuffler = load_public(settings.operator_key), load_public(settings.shuffler_key)
    parties = Identities(operator, shuffler, identity.public)
    any_number = settings.feed is not None
    return identity, parties, load_tasks(settings.tasks, parties, successions, any_number=any_number), successions


async def check_store(store: AnalyzerStore) -> None:
    """Return only if ledgers are valid and charge exactly the counted rounds, and releases match the announced records.

    Raises:
        StoreError: if they do not.
    """
    with damage_in("a batch record's"):
        check_chains("analyzer", await store.chains(), await store.records(), own=False)
    ledgers, counted = await store.ledgers(), await store.counted()
    if not ledgers and not counted:
        return
    # Imported late: the accountant loads scipy, which would double the first start's time.
    from hubbub.service.ledger.ledgers import check_ledgers

    await asyncio.to_thread(check_ledgers, "analyzer", ledgers, counted)


async def tell_held(store: AnalyzerStore, tasks: Tasks) -> None:
    """Log the rounds whose batches are not accepted, as their task's file was removed."""
    for progress in await store.progress(None):
        if progress.id.task_id not in tasks and progress_of(progress) in (
            AnalysisStage.AWAITED,
            AnalysisStage.DELIVERING,
        ):
            _LOG.warning(
                "a stored round's task is not among the tasks", task=progress.id.task_name, round=progress.id.round
            )


@contextlib.asynccontextmanager
async def _opened(
    settings: AnalyzerSettings, metrics: Metrics, incidents: Incidents, new_pool: Callable[[int], OpeningPool]
) -> AsyncIterator[tuple[AnalyzerStore, OpeningPool]]:
    store = open_store(settings, metrics.stage(AnalyzerStage.STORE), incidents)
    opening_pool = _opening_pool(settings, new_pool)
    closing = (lambda: asyncio.to_thread(opening_pool.close), lambda: asyncio.to_thread(store.close))
    async with tidied_async(*closing):
        yield store, opening_pool


def _opening_pool(settings: AnalyzerSettings, new_pool: Callable[[int], OpeningPool]) -> OpeningPool:
    # A caller with its own pool, such as an audit, gets that pool.
    if not settings.spark.master or new_pool is not OpeningPool:
        return new_pool(settings.processes)
    from hubbub.service.spark.opening import SparkOpeningPool

    return SparkOpeningPool(settings.spark, settings.data, settings.processes)
