"""Assembles and runs a hop: a port over mutual TLS for the shuffler before it, a store, and opening processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.rpc import DELIVERY_SERVICE
from hubbub.protos.task.feed.entry import FeedParties
from hubbub.service.extras import opened_traces
from hubbub.service.lifecycle import run
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.shared_metrics import Disk, IncidentCollector, Metrics
from hubbub.service.observability.traces import SpanCollector
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.service.receiving.delivery_service import DELIVERERS, TimedDelivery, sweep
from hubbub.service.rpc import serve_delivery
from hubbub.service.runtime.feed_follower import watched
from hubbub.service.runtime.succession_files import load_successions
from hubbub.service.runtime.tidying import tidied_async
from hubbub.service.transport import grpc_server
from hubbub.service.transport.file_limits import check_files
from hubbub.service.transport.port_limits import connections_of, mutual_pipeline
from hubbub.service.transport.ports import Announce, Ports
from hubbub.service.transport.saturation import SaturationCollector
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.hop.live_tasks import HopLiveTasks, load_tasks
from hubbub.shuffler.hop.metrics import HopCollector, HopStage
from hubbub.shuffler.hop.receiver import Hop
from hubbub.shuffler.hop.settings import HopSettings
from hubbub.shuffler.hop.sqlite import HopSqliteStore
from hubbub.shuffler.hop.store import HopStore
from hubbub.shuffler.release.analyzer_client import ReconnectingAnalyzer


async def serve(
    settings: HopSettings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a hop until SIGTERM or SIGINT, or until `stop` is set; then drain.

    `announce` is called once the ports serve, with their addresses: {"delivery": …}, and "metrics" if that port is set.

    Raises:
        HubbubError: if settings, tasks, keys, ports or the store cannot be used; then nothing was served.
    """
    check_files(settings)
    await run(settings.log, _assembled(settings, clock), announce=announce, stop=stop)


@dataclass
class _HopParts:
    settings: HopSettings
    store: HopStore
    hop: TimedDelivery
    metrics: Metrics
    incidents: Incidents
    certificates: ReloadingCertificates
    clock: Callable[[], float]
    sweeping: asyncio.Task[None] | None = None

    async def listen(self, ports: Ports) -> None:
        settings, certificates = self.settings, self.certificates
        connections = connections_of(settings.limits, 1)
        pipeline = mutual_pipeline(settings.limits, connections)
        self.metrics.registry.register(SaturationCollector("hop", {"delivery": pipeline}, ports.full_seconds))
        server = grpc_server.new_server(connections)
        serve_delivery(server, self.hop, DELIVERERS, pipeline)
        service, mutual = DELIVERY_SERVICE, certificates.server(mutual=True)
        await ports.open("delivery", settings.listen, service, server, mutual, pipeline)
        registry, tls = self.metrics.registry, settings.tls.paths()
        await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)

    async def start(self) -> None:
        self.sweeping = asyncio.create_task(sweep(self.store, self.clock, self.incidents))

    async def leave(self) -> None:
        """Let the calls in progress finish; the next start resumes the rest."""
        if self.sweeping is not None:
            self.sweeping.cancel()


@contextlib.asynccontextmanager
async def _assembled(settings: HopSettings, clock: Callable[[], float]) -> AsyncIterator[_HopParts]:
    identity = Identity.load(settings.identity)
    certificates = ReloadingCertificates(Role.HOP, settings.tls.paths(), settings.identity, clock)
    operator, shuffler = load_public(settings.operator_key), load_public(settings.shuffler_key)
    parties = FeedParties(operator, shuffler, load_successions(settings.successions))
    tasks = load_tasks(settings.tasks, parties, identity.public, any_number=settings.feed is not None)
    taker = ReconnectingAnalyzer(settings.next, settings.tls.paths(), certificates)
    metrics, incidents = Metrics("hop", HopStage), Incidents()
    store = HopSqliteStore(settings.data, metrics.stage(HopStage.STORE), incidents=incidents)
    opening_pool = OpeningPool(settings.processes)
    # The store last, as it still writes what waits.
    closing = (taker.close, lambda: asyncio.to_thread(opening_pool.close), lambda: asyncio.to_thread(store.close))
    async with opened_traces("hop", settings.traces, settings.tls) as traces, tidied_async(*closing):
        await store.add_tasks(tasks.values())
        feed = await HopLiveTasks(tasks, store, parties, identity.public).feed(settings.feed, settings.data, incidents)
        hop = Hop(tasks, identity, store, opening_pool, taker, settings.next, incidents=incidents, traces=traces)
        timed = TimedDelivery(hop, metrics.stage(HopStage.ACCEPT), metrics.stage(HopStage.PASS_ON))
        collector = HopCollector(tasks, store, timed.refusals, hop.added)
        own = collector, SpanCollector("hop", traces), certificates
        for each in (*own, Disk("hop", settings.data), IncidentCollector("hop", incidents)):
            metrics.registry.register(each)
        async with certificates.watched(), watched(feed):
            yield _HopParts(settings, store, timed, metrics, incidents, certificates, clock)
