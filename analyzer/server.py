"""The analyzer as a process: two ports over mutual TLS, a store, and processes that open envelopes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import time
from collections.abc import AsyncIterator, Callable

import grpc
import structlog

from hubbub.analyzer import logs
from hubbub.analyzer.accept import Acceptor
from hubbub.analyzer.certify import Certifier
from hubbub.analyzer.results import Results
from hubbub.analyzer.settings import Settings
from hubbub.analyzer.store import Store
from hubbub.analyzer.tables import Tables
from hubbub.analyzer.tasks import Tasks, load_tasks
from hubbub.analyzer.workers import Workers
from hubbub.protos import transport, wire
from hubbub.protos.errors import HubbubError
from hubbub.protos.keys import Identity, load_public
from hubbub.protos.task import Identities

DELIVERERS = frozenset({"shuffler"})
"""Common names that may deliver batches."""

READERS = frozenset({"operator", "reader"})
"""Common names that may read results."""

MAXIMUM_CALLS = 64
"""Calls in work at once on each port; a shuffler needs one per query, and memory stays bounded."""

DRAIN_SECONDS = 10.0
"""How long calls in work may take to finish when the service stops."""

SWEEP_SECONDS = 60.0
"""How often what was left behind is looked over: certificates that failed, keys of rounds that no batch came for."""

Announce = Callable[[dict[str, str]], None]
_LOG = structlog.get_logger(__name__)


async def serve(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run the analyzer until SIGTERM or SIGINT, or until `stop` is set; then drain.

    `announce` is called with the addresses of the ports, {"delivery": …, "results": …}, once they serve.

    Raises:
        HubbubError: where settings, tasks, keys, ports or the store cannot be used; nothing was served then.
    """
    logs.configure(settings.log)
    identity, tasks = _load(settings)
    shuffler = load_public(settings.shuffler_key)
    async with _opened(settings) as (store, workers):
        await store.run(lambda tables: _register(tables, tasks))
        certifier = Certifier(identity, store)
        acceptor = Acceptor(tasks, identity, shuffler, store, workers, committed=certifier.start)
        results = Results(store, certifier)
        ports = await _listen(settings, acceptor, results)
        sweeping = asyncio.create_task(_sweep(store, certifier, clock))
        try:
            await ports.serving(announce)
            await _until_stopped(stop)
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


@contextlib.asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[Store, Workers]]:
    store, workers = Store(settings.data), Workers(settings.processes)
    try:
        yield store, workers
    finally:
        await asyncio.to_thread(workers.close)
        await asyncio.to_thread(store.close)


class _Ports:
    """The two servers with their health services."""

    def __init__(self) -> None:
        self.servers: list[grpc.aio.Server] = []
        self._healths: list[transport.Health] = []
        self.addresses: dict[str, str] = {}

    async def open(self, name: str, address: str, settings: Settings, add: Callable[[grpc.aio.Server], str]) -> None:
        """Listen at an address; `add` puts the service on the server and names it."""
        server = transport.new_server(MAXIMUM_CALLS)
        self._healths.append(transport.Health(server, [add(server)]))
        port = transport.listen(server, address, settings.tls.paths().server(mutual=True))
        self.servers.append(server)
        self.addresses[name] = f"{address.rpartition(':')[0]}:{port}"
        await server.start()

    async def serving(self, announce: Announce | None) -> None:
        """Say that both ports serve."""
        for health in self._healths:
            await health.serving()
        _LOG.info("serving", **self.addresses)
        if announce is not None:
            announce(self.addresses)

    async def drain(self) -> None:
        """Take no new calls, finish those in work, and close."""
        _LOG.info("draining")
        for health in self._healths:
            await health.leaving()
        await asyncio.gather(*(server.stop(DRAIN_SECONDS) for server in self.servers))


async def _listen(settings: Settings, acceptor: Acceptor, results: Results) -> _Ports:
    def add_delivery(server: grpc.aio.Server) -> str:
        wire.serve_delivery(server, acceptor, DELIVERERS)
        return wire.DELIVERY_SERVICE

    def add_results(server: grpc.aio.Server) -> str:
        wire.serve_results(server, results, READERS)
        return wire.RESULTS_SERVICE

    ports = _Ports()
    try:
        await ports.open("delivery", settings.delivery_listen, settings, add_delivery)
        await ports.open("results", settings.results_listen, settings, add_results)
    except BaseException:
        await asyncio.gather(*(server.stop(None) for server in ports.servers))
        raise
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


async def _until_stopped(stop: asyncio.Event | None) -> None:
    if stop is not None:
        await stop.wait()
        return
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    try:
        await asked.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
