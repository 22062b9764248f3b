"""Turns: a shuffler on a database acts as its keeper while it has the term, and stands by while another has it.

A process that stands by opens the operator's port and its monitoring alone: it answers that it is not the keeper, and
its health says NOT_SERVING. Devices find nobody there. It looks for the keeper's lock every second; once it has the
term it begins as a shuffler does that was started anew. Whoever was replaced ends all that it did, and stands by.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NoReturn

import structlog
from prometheus_client import CollectorRegistry, Gauge

from hubbub.protos.cluster import Asked, Told
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Condition, CredentialStatus, RoundStatus, Step
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import CONTROL_SERVICE, STANDBY_SERVICE
from hubbub.service.errors import StoreError
from hubbub.service.lifecycle import Service, run
from hubbub.service.net import grpc_server
from hubbub.service.net.limits import connections_of, operator_intake
from hubbub.service.net.ports import Announce, Ports, asked_to_stop
from hubbub.service.net.tls_reload import Certificates
from hubbub.service.observability import logs
from hubbub.service.observability.incidents import Kind, Troubles
from hubbub.service.rpc import FollowHandler, KeeperHandler, serve_control, serve_keeper, serve_standbys
from hubbub.shuffler.stores.factory import take_term

if TYPE_CHECKING:
    from hubbub.shuffler.settings import Settings
    from hubbub.shuffler.stores.postgres.keyring import Keyring
    from hubbub.shuffler.stores.postgres.replication.leadership import Term

LOOK_SECONDS = 1.0
"""How often who stands by looks whether it is its turn."""

OPERATORS = frozenset({"operator"})
"""Common names that may control rounds."""

KEEPERS = frozenset({Role.SHUFFLER.value})
"""Common names that may follow the keyring."""

REPLICAS = frozenset({"replica"})
"""Common names that may be told the secrets that a replica needs."""

_CANNOT = "cannot take over"
_ALONE = "the keyring does not follow"
_STANDS_BY = "this shuffler stands by: another is the keeper of its rounds; ask that one"

_LOG = structlog.get_logger(__name__)

Acting = Callable[["Term"], AbstractAsyncContextManager[Service]]
"""What is assembled for a term, and ends it."""


async def in_turns(
    settings: Settings,
    clock: Callable[[], float],
    acting: Acting,
    *,
    announce: Announce | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Act while this process has the term, and stand by while it has not, until SIGTERM, SIGINT, or `stop` is set.

    Raises:
        HubbubError: where it cannot be used as what it is started as; later, it stands by and tries again.
    """
    logs.configure(settings.log)
    troubles, first = Troubles(clock), True
    with asked_to_stop(stop) as stopping:
        while not stopping.is_set():
            term = await _at_once(settings, troubles) if first else None
            if term is None:
                term, first = await _turn(settings, clock, troubles, stopping), False
            if term is None:
                return
            try:
                await _act(settings, acting, term, announce, stopping)
            except StoreError as error:
                if first and not term.over:
                    raise
                troubles.meet(_CANNOT, Kind.STORE, _CANNOT, f"it stands by: {error}", error)
            else:
                troubles.over(_CANNOT)
            announce, first = None, False
            if term.over:
                _LOG.warning("another keeper has taken over", term=term.number)


async def _act(
    settings: Settings, acting: Acting, term: Term, announce: Announce | None, stopping: asyncio.Event
) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        # Where the loop is closed, it is over already.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    term.when_over(tell)
    async with _passed_on(stopping, ended):
        try:
            await run(settings.log, acting(term), announce=announce, stop=ended)
        finally:
            # The store has ended it, where one was opened.
            await asyncio.to_thread(term.close)


@contextlib.asynccontextmanager
async def _passed_on(asked: asyncio.Event, other: asyncio.Event) -> AsyncIterator[None]:
    """Have the other event be set once one is."""

    async def pass_on() -> None:
        await asked.wait()
        other.set()

    task = asyncio.create_task(pass_on())
    try:
        yield
    finally:
        task.cancel()


async def _turn(
    settings: Settings, clock: Callable[[], float], troubles: Troubles, stopping: asyncio.Event
) -> Term | None:
    """Stand by until it is this one's turn; return its term, or None where it is asked to stop before."""
    certificates = Certificates(Role.SHUFFLER, settings.tls.paths(), settings.identity, clock)
    ports = Ports()
    async with certificates.watched(), _following(settings, troubles) as kept:
        await _listen(ports, settings, certificates, troubles)
        _LOG.info("standing by")
        try:
            return await _taken(settings, troubles, stopping, kept)
        finally:
            await ports.drain()


async def _at_once(settings: Settings, troubles: Troubles) -> Term | None:
    """Take the term where nobody has it, without standing by first."""
    try:
        return await asyncio.to_thread(take_term, settings, troubles)
    except StoreError as error:
        # Its keyring may have missed changes, which those that it follows have.
        if not settings.keepers:
            raise
        troubles.meet(_CANNOT, Kind.STORE, _CANNOT, f"it stands by: {error}", error)
        return None


@contextlib.asynccontextmanager
async def _following(settings: Settings, troubles: Troubles) -> AsyncIterator[Keyring | None]:
    """Have the keyring follow the others', and give it, open; None where it is one that all of them open in turn."""
    if not settings.keepers:
        if settings.standbys:
            text = f"standbys is {settings.standbys}, so keyrings differ, and keepers is empty: name the others there"
            troubles.meet(
                _ALONE, Kind.PEER, _ALONE, f"{text}, and start this one again; it takes over nothing till then"
            )
        yield None
        return
    from hubbub.shuffler.stores.postgres.keyring import Keyring
    from hubbub.shuffler.stores.postgres.replication.follower import Following

    keyring = await asyncio.to_thread(Keyring, settings.data, troubles=troubles)
    task = asyncio.create_task(Following(keyring, settings.keepers, settings.tls.paths(), troubles).run())
    try:
        yield keyring
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # Waits for a change that is being written.
        await asyncio.to_thread(keyring.close)


async def _listen(ports: Ports, settings: Settings, certificates: Certificates, troubles: Troubles) -> None:
    few = connections_of(settings.limits, 1)
    server, intake = grpc_server.new_server(few), operator_intake(settings.limits, few)
    serve_control(server, StandingBy(troubles), OPERATORS, intake)
    mutual = certificates.server(mutual=True)
    await ports.open("control", settings.control_listen, CONTROL_SERVICE, server, mutual, intake)
    await open_to_others(ports, settings, certificates, StandingBy(troubles), None)
    registry, tls = CollectorRegistry(), settings.tls.paths()
    keeper_gauge(registry, 0, acts=False)
    await ports.open_metrics(settings.metrics_listen, registry, tls, lambda: certificates.renewals)


async def open_to_others(
    ports: Ports,
    settings: Settings,
    certificates: Certificates,
    standbys: FollowHandler | None,
    sharing: KeeperHandler | None,
) -> None:
    """Answer those who stand by, and replicas, where settings say so.

    Raises:
        HubbubError: where the address cannot be used.
    """
    if standbys is None or not settings.keeper_listen:
        return
    few = connections_of(settings.limits, 1)
    server, intake = grpc_server.new_server(few), operator_intake(settings.limits, few)
    serve_standbys(server, standbys, KEEPERS, intake)
    if sharing is not None:
        serve_keeper(server, sharing, REPLICAS, intake)
    mutual = certificates.server(mutual=True)
    await ports.open("keeper", settings.keeper_listen, STANDBY_SERVICE, server, mutual, intake)


async def _taken(settings: Settings, troubles: Troubles, stopping: asyncio.Event, kept: Keyring | None) -> Term | None:
    while True:
        # A pause comes first: whoever could not act lets others try.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await stopping.wait()
                return None
        try:
            term = await asyncio.to_thread(take_term, settings, troubles, kept, forward=False)
        except StoreError as error:
            troubles.meet(_CANNOT, Kind.STORE, _CANNOT, f"it stands by: {error}", error)
        else:
            if term is not None:
                return term


def keeper_gauge(registry: CollectorRegistry, number: int, *, acts: bool = True) -> None:
    """Have metrics say whether this shuffler is the keeper, and in the term of which number; 0: it needs none."""
    what = "1 while this shuffler keeps rounds, 0 while it stands by."
    terms = "The term in which this shuffler keeps rounds; 0 where it needs none, or stands by."
    for name, text, value in (("keeper", what, int(acts)), ("term", terms, number)):
        gauge = Gauge(f"hubbub_shuffler_{name}", text, registry=None)
        gauge.set(value)
        registry.register(gauge)


class StandingBy:
    """Answers the operator and other standbys while another is the keeper (`ControlHandler`, `FollowHandler`)."""

    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles

    async def close_round(self, task_id: bytes, round_number: int) -> RoundStatus:
        """Refuse: NOT_READY."""
        _refuse(task_id, round_number)

    async def follow(self, asked: Asked) -> Told:
        """Refuse: NOT_READY."""
        _refuse(asked)

    async def get_status(self, task_id: bytes | None) -> list[RoundStatus]:
        """Refuse: NOT_READY."""
        _refuse(task_id)

    async def get_condition(self) -> Condition:
        """Return what keeps this one from taking over."""
        return self._troubles.condition()

    async def manage_credentials(self, step: Step, devices: Sequence[bytes]) -> CredentialStatus:
        """Refuse: NOT_READY."""
        _refuse(step, devices)


def _refuse(*_asked: object) -> NoReturn:
    raise Refusal(Reason.NOT_READY, _STANDS_BY, retry_after=5.0)
