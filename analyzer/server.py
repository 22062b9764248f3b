"""The analyzer as a process: two ports over mutual TLS, a store, and processes that open envelopes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Callable

import structlog

from hubbub.analyzer.accept import Acceptor
from hubbub.analyzer.certify import Certifier
from hubbub.analyzer.metrics import AnalyzerCollector, Stage, TimedAcceptor
from hubbub.analyzer.results import Results
from hubbub.analyzer.settings import Settings
from hubbub.analyzer.store import Store
from hubbub.analyzer.tables import Tables
from hubbub.analyzer.tasks import Tasks, load_tasks
from hubbub.analyzer.workers import Workers
from hubbub.protos import wire
from hubbub.protos.errors import HubbubError
from hubbub.protos.keys import Identity, load_public
from hubbub.protos.task import Identities
from hubbub.service import listening, logs
from hubbub.service.metrics import Disk, Metrics
from hubbub.service.ports import Announce, Ports, asked_to_stop

DELIVERERS = frozenset({"shuffler"})
"""Common names that may deliver batches."""

READERS = frozenset({"operator", "reader"})
"""Common names that may read results."""

MAXIMUM_CALLS = 64
"""Calls in work at once on each port; a shuffler needs one per query, and memory stays bounded."""

SWEEP_SECONDS = 60.0
"""How often what was left behind is looked over: certificates that failed, keys of rounds that no batch came for."""

_LOG = structlog.get_logger(__name__)


async def serve(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run the analyzer until SIGTERM or SIGINT, or until `stop` is set; then drain.

    `announce` is called with the addresses of the ports, {"delivery": …, "results": …} and "metrics" where there is
    such a port, once they serve.

    Raises:
        HubbubError: where settings, tasks, keys, ports or the store cannot be used; nothing was served then.
    """
    logs.configure(settings.log)
    identity, tasks = _load(settings)
    shuffler = load_public(settings.shuffler_key)
    with asked_to_stop(stop) as stopping:
        metrics = Metrics("analyzer", Stage)
        async with _opened(settings, metrics) as (store, workers):
            await store.run(lambda tables: _register(tables, tasks))
            await _check_ledgers(store)
            certifier = Certifier(identity, store, observe=metrics.stage(Stage.CERTIFY))
            acceptor = Acceptor(tasks, identity, shuffler, store, workers, committed=certifier.start)
            timed = TimedAcceptor(acceptor, metrics.stage(Stage.ACCEPT), metrics.stage(Stage.COUNT))
            results = Results(store, certifier)
            metrics.registry.register(AnalyzerCollector(tasks, store, timed, certifier.failures, clock))
            metrics.registry.register(Disk("analyzer", settings.data))
            ports = await _listen(settings, timed, results, metrics)
            sweeping = asyncio.create_task(_sweep(store, certifier, clock))
            try:
                await ports.serving(announce)
                await stopping.wait()
            finally:
                sweeping.cancel()
                results.close()
                await ports.drain()
                await certifier.settle()


def _load(settings: Settings) -> tuple[Identity, Tasks]:
    identity = Identity.load(settings.identity)
    operator, shuffler = load_public(settings.operator_key), load_public(settings.shuffler_key)
    return identity, load_tasks(settings.tasks, Identities(operator, shuffler, identity.public))


def _register(tables: Tables, tasks: Tasks) -> None:
    for task_id, signed in tasks.items():
        tables.add_task(task_id, signed.task.name, len(signed.task.queries), signed.encode())


async def _check_ledgers(store: Store) -> None:
    counted = await store.run(Tables.counted)
    if not counted:
        return
    # The accountant brings scipy, which would double the first start's time.
    from hubbub.analyzer.budget import check_ledger

    for task_id, rounds in counted.items():
        charges = await store.run(functools.partial(Tables.charges, task_id=task_id))
        await asyncio.to_thread(check_ledger, task_id, charges, rounds)


@contextlib.asynccontextmanager
async def _opened(settings: Settings, metrics: Metrics) -> AsyncIterator[tuple[Store, Workers]]:
    store, workers = Store(settings.data, metrics.stage(Stage.STORE)), Workers(settings.processes)
    try:
        yield store, workers
    finally:
        await asyncio.to_thread(workers.close)
        await asyncio.to_thread(store.close)


async def _listen(settings: Settings, acceptor: TimedAcceptor, results: Results, metrics: Metrics) -> Ports:
    credentials = settings.tls.paths().server(mutual=True)
    deliverers, readers = listening.new_server(MAXIMUM_CALLS), listening.new_server(MAXIMUM_CALLS)
    wire.serve_delivery(deliverers, acceptor, DELIVERERS)
    wire.serve_results(readers, results, READERS)
    ports = Ports()
    await ports.open("delivery", settings.delivery_listen, wire.DELIVERY_SERVICE, deliverers, credentials)
    await ports.open("results", settings.results_listen, wire.RESULTS_SERVICE, readers, credentials)
    await ports.open_metrics(settings.metrics_listen, metrics.registry, settings.tls.paths())
    return ports


async def _sweep(store: Store, certifier: Certifier, clock: Callable[[], float]) -> None:
    """Certify rounds that are complete, and destroy the keys whose time is over; now, and every minute."""
    while True:
        certifier.start()
        try:
            expired = await store.run(functools.partial(Tables.expire_keys, now=clock()))
            _LOG.debug("keys of rounds that never came destroyed", keys=expired)
        except HubbubError as error:
            _LOG.warning("keys not looked over", error=str(error))
        await asyncio.sleep(SWEEP_SECONDS)
