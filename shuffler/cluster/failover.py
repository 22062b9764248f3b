"""Runs a shuffler on a database as leader while it has the lease, and as standby while another process has it.

A standby opens only the ports for operator and other standbys, and its monitoring: it answers that it is not the
leader, and its health is NOT_SERVING. It opens no port for devices. It tries to take the leader's lock every second;
with the lease it starts as a new shuffler does. A leader that was replaced ends all its work, and becomes a standby.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NoReturn

import structlog
from prometheus_client import CollectorRegistry, Gauge

from hubbub.protos.cluster import FollowerPosition, KeyringChanges
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import CredentialAction, CredentialStatus, IncidentReport, ListedTask, RoundStatus
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import CONTROL_SERVICE, REPLICATION_SERVICE
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.errors import StoreError, StoreFault
from hubbub.service.lifecycle import RunningService, run
from hubbub.service.observability import logs
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.rpc import LeaderHandler, ReplicationHandler, serve_control, serve_leader, serve_replication
from hubbub.service.rpc.revoked_readers import RevokedReaders
from hubbub.service.transport import grpc_server
from hubbub.service.transport.port_limits import connections_of, operator_pipeline
from hubbub.service.transport.ports import Announce, Ports, asked_to_stop
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.stores.factory import take_lease

if TYPE_CHECKING:
    from hubbub.shuffler.settings import ShufflerSettings
    from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
    from hubbub.shuffler.stores.postgres.replication.leadership import Lease

LOOK_SECONDS = 1.0
"""Seconds between a standby's tries to take the lease."""

CHECK_SECONDS = 60.0
"""Seconds between a standby's looks at whether it has everything that a leader needs."""

LEADERS = frozenset({Role.SHUFFLER.value})
"""Common names that may replicate the keyring."""

FRONTENDS = frozenset({"frontend"})
"""Common names that may receive the secrets that a front end needs."""

_CANNOT, _LACKS = "cannot take over", "cannot take over later"
_ALONE = "the keyring does not follow"
_STANDS_BY = "this shuffler is a standby: another is the leader of its rounds; ask that one"

_LOG = structlog.get_logger(__name__)

Able = Callable[[], object]
"""Returns only if this process has everything to act as the leader; else raises a HubbubError. It may block."""

Acting = Callable[["Lease"], AbstractAsyncContextManager[RunningService]]
"""Assembles the service for a term, and closes it."""


async def run_with_failover(
    settings: ShufflerSettings,
    clock: Callable[[], float],
    acting: Acting,
    able: Able,
    *,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Lead while this process has the lease, and stand by otherwise, until SIGTERM, SIGINT, or `stop` is set.

    While it stands by, `able` is called at once and then every `CHECK_SECONDS`: what it raises is an incident.

    Raises:
        HubbubError: if it cannot run in its first role; later it stands by and tries again.
    """
    logs.configure(settings.log)
    incidents, first = Incidents(clock), True
    with asked_to_stop(stop) as stopping:
        while not stopping.is_set():
            lease = await _at_once(settings, incidents) if first else None
            if lease is None:
                lease, first = await _stand_by(settings, clock, incidents, stopping, able), False
            if lease is None:
                return
            try:
                await _act(settings, acting, lease, announce, stopping)
            except HubbubError as error:
                if first and not lease.lost:
                    raise
                _cannot(incidents, error)
            else:
                incidents.resolve(_CANNOT)
            announce, first = None, False


async def _act(
    settings: ShufflerSettings, acting: Acting, lease: Lease, announce: Announce | None, stopping: asyncio.Event
) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        _LOG.warning("another leader has taken over", term=lease.fencing_token)
        # A closed loop means that the service is over already.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    lease.when_lost(tell)
    async with _passed_on(stopping, ended):
        try:
            await run(settings.log, acting(lease), announce=announce, stop=ended)
        finally:
            # If a store was opened, it has closed the lease already.
            await asyncio.to_thread(lease.close)


@contextlib.asynccontextmanager
async def _passed_on(asked: asyncio.Event, other: asyncio.Event) -> AsyncIterator[None]:
    """Set the other event once `asked` is set."""

    async def pass_on() -> None:
        await asked.wait()
        other.set()

    task = asyncio.create_task(pass_on())
    try:
        yield
    finally:
        task.cancel()


async def _stand_by(
    settings: ShufflerSettings, clock: Callable[[], float], incidents: Incidents, stopping: asyncio.Event, able: Able
) -> Lease | None:
    """Stand by until this process may lead; return its lease, or None if it is asked to stop before."""
    files = settings.tls.paths(), settings.identity
    certificates = ReloadingCertificates(Role.SHUFFLER, *files, clock, public=settings.https_tls())
    ports = Ports()
    async with certificates.watched(), _following(settings, incidents) as kept:
        await _listen(ports, settings, certificates, incidents)
        _LOG.info("standing by")
        lease = None
        looking = asyncio.create_task(_look_ahead(able, incidents))
        try:
            lease = await _wait_for_lease(settings, incidents, stopping, kept)
            return lease
        finally:
            looking.cancel()
            # Before a takeover the service goes on: `acting as the leader` was logged.
            await ports.drain(quiet=lease is not None)


async def _look_ahead(able: Able, incidents: Incidents) -> None:
    """Show what this process lacks to act as the leader, long before its turn."""
    while True:
        try:
            await asyncio.to_thread(able)
        except StoreError:
            pass  # taking the lease, or following, shows it
        except HubbubError as error:
            text = f"this standby could not act as the leader: {error}"
            incidents.open(_LACKS, IncidentKind.ROUNDS, _CANNOT, text, error)
        else:
            incidents.resolve(_LACKS)
        await asyncio.sleep(CHECK_SECONDS)


async def _at_once(settings: ShufflerSettings, incidents: Incidents) -> Lease | None:
    """Take the lease if nobody has it, without standing by first."""
    try:
        return await asyncio.to_thread(take_lease, settings, incidents)
    except StoreError as error:
        # This keyring may have missed changes that the other leaders have.
        if not settings.leaders:
            raise
        _cannot(incidents, error)
        return None


@contextlib.asynccontextmanager
async def _following(settings: ShufflerSettings, incidents: Incidents) -> AsyncIterator[ShufflerKeyring | None]:
    """Replicate the others' keyring, and yield it open; None if all processes share one keyring."""
    if not settings.leaders:
        if settings.standbys:
            text = f"standbys is {settings.standbys}, but leaders is empty, so this keyring follows nobody; set leaders"
            incidents.open(
                _ALONE, IncidentKind.PEER, _ALONE, f"{text}, and restart this process; it does not take over until then"
            )
        yield None
        return
    from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
    from hubbub.shuffler.stores.postgres.replication.follower import Follower

    keyring = await asyncio.to_thread(ShufflerKeyring, settings.data, incidents=incidents)
    task = asyncio.create_task(Follower(keyring, settings.leaders, settings.tls.paths(), incidents).run())
    try:
        yield keyring
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # Waits until a change is written.
        await asyncio.to_thread(keyring.close)


async def _listen(
    ports: Ports, settings: ShufflerSettings, certificates: ReloadingCertificates, incidents: Incidents
) -> None:
    few = connections_of(settings.limits, 1)
    server, pipeline = grpc_server.new_server(few), operator_pipeline(settings.limits, few)
    pipeline.revoked = RevokedReaders(settings.revoked_readers)
    serve_control(server, StandbyHandler(incidents), pipeline=pipeline)
    mutual = certificates.server(mutual=True)
    await ports.open("control", settings.control_listen, CONTROL_SERVICE, server, mutual, pipeline)
    await open_to_cluster(ports, settings, certificates, StandbyHandler(incidents), None)
    registry, tls = CollectorRegistry(), settings.tls.paths()
    leader_gauge(registry, 0, acts=False)
    await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)


async def open_to_cluster(
    ports: Ports,
    settings: ShufflerSettings,
    certificates: ReloadingCertificates,
    standbys: ReplicationHandler | None,
    secret_server: LeaderHandler | None,
) -> None:
    """Serve standbys and front ends, if the settings enable them.

    Raises:
        HubbubError: if the address cannot be used.
    """
    if standbys is None or not settings.leader_listen:
        return
    few = connections_of(settings.limits, 1)
    server, pipeline = grpc_server.new_server(few), operator_pipeline(settings.limits, few)
    serve_replication(server, standbys, LEADERS, pipeline)
    if secret_server is not None:
        serve_leader(server, secret_server, FRONTENDS, pipeline)
    mutual = certificates.server(mutual=True)
    await ports.open("leader", settings.leader_listen, REPLICATION_SERVICE, server, mutual, pipeline)


async def _wait_for_lease(
    settings: ShufflerSettings, incidents: Incidents, stopping: asyncio.Event, kept: ShufflerKeyring | None
) -> Lease | None:
    while True:
        # The pause comes first, so that a process that failed to lead lets others try.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await stopping.wait()
                return None
        try:
            lease = await asyncio.to_thread(take_lease, settings, incidents, kept, forward=False)
        except StoreError as error:
            _cannot(incidents, error)
        else:
            if lease is not None:
                return lease


def _cannot(incidents: Incidents, error: HubbubError) -> None:
    """Note why this process cannot lead. If it only waits for a leader to copy, `Follower` logs that none answers."""
    if not isinstance(error, StoreError):
        incidents.open(_CANNOT, IncidentKind.ROUNDS, _CANNOT, f"it stands by: {error}", error)
    elif error.fault is StoreFault.STANDBYS:
        incidents.show(_CANNOT, IncidentKind.PEER, _CANNOT, f"it stands by: {error}")
    else:
        incidents.open(_CANNOT, IncidentKind.STORE, _CANNOT, f"it stands by: {error}", error)


def leader_gauge(registry: CollectorRegistry, number: int, *, acts: bool = True) -> None:
    """Add metrics that show whether this shuffler leads, and its term; 0 if it needs no term."""
    what = "1 while this shuffler keeps rounds, 0 while it stands by; always 1 with a store in SQLite."
    terms = (
        "The term in which this shuffler keeps rounds; it rises with each takeover, and is 0 with SQLite or on standby."
    )
    for name, text, value in (("leader", what, int(acts)), ("term", terms, number)):
        gauge = Gauge(f"hubbub_shuffler_{name}", text, registry=None)
        gauge.set(value)
        registry.register(gauge)


class StandbyHandler:
    """Answers the operator and other standbys while another process leads (`ControlHandler`, `ReplicationHandler`)."""

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents

    async def close_round(self, task_id: bytes, round_number: int) -> RoundStatus:
        """Refuse: NOT_READY."""
        _refuse(task_id, round_number)

    async def follow(self, asked: FollowerPosition) -> KeyringChanges:
        """Refuse: NOT_READY."""
        _refuse(asked)

    async def get_status(self, task_id: bytes | None) -> list[RoundStatus]:
        """Refuse: NOT_READY."""
        _refuse(task_id)

    async def get_incidents(self) -> IncidentReport:
        """Return the incidents that keep this process from taking over."""
        return self._incidents.report()

    async def list_tasks(self) -> list[ListedTask]:
        """Refuse: NOT_READY."""
        _refuse()

    async def get_task(self, task_id: bytes) -> SignedTask:
        """Refuse: NOT_READY."""
        _refuse(task_id)

    async def manage_credentials(self, step: CredentialAction, devices: Sequence[bytes]) -> CredentialStatus:
        """Refuse: NOT_READY."""
        _refuse(step, devices)


def _refuse(*_asked: object) -> NoReturn:
    raise Refusal(Reason.NOT_READY, _STANDS_BY, retry_after=5.0)
