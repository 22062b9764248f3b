"""Runs the delivery service of the analyzer and hops: allowed callers, timing, and expiry of keys."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Protocol

import structlog

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.task import MAXIMUM_HOPS, hop_name
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.rpc import DeliveryHandler

DELIVERERS = frozenset({"shuffler", *(hop_name(FIRST_HOP + index) for index in range(MAXIMUM_HOPS))})
"""Common names that may deliver batches: any shuffler's. The signed record of a batch names its sender."""

SWEEP_SECONDS = 60.0
"""How often leftovers are checked: failed certificates, and keys of rounds without a batch."""

_LOG = structlog.get_logger(__name__)


class TimedDelivery:
    """Times the work of a receiver and counts its refusals (`rpc.DeliveryHandler`)."""

    def __init__(self, receiver: DeliveryHandler, accept: Observe, commit: Observe) -> None:
        self._receiver = receiver
        self._accept = accept
        self._commit = commit
        self.refusals: Counter[Reason] = Counter()

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the key record of a round."""
        with self._counted():
            return await self._receiver.get_key(task_id, round_number)

    async def get_releases(self, task_id: bytes) -> Known:
        with self._counted():
            return await self._receiver.get_releases(task_id)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk) -> int:
        """Accept a batch's announcement; return the next offset to send."""
        with self._counted():
            return await self._receiver.begin(record, key_set, releases)

    async def put(self, chunk: Envelopes) -> int:
        with self._counted(self._accept):
            return await self._receiver.put(chunk)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Process a complete batch, and commit it."""
        with self._counted(self._commit):
            return await self._receiver.commit(batch, digest)

    @contextlib.contextmanager
    def _counted(self, observe: Observe = unobserved) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        except Refusal as refusal:
            self.refusals[refusal.reason] += 1
            raise
        observe(perf_counter() - started)


class Expiring(Protocol):
    """A store whose keys expire."""

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys that are no longer valid at `now`; return how many."""


async def sweep(
    store: Expiring, clock: Callable[[], float], incidents: Incidents, first: Callable[[], None] = lambda: None
) -> None:
    """Destroy expired keys of rounds without a batch, now and every minute, each time after calling `first`."""
    while True:
        first()
        try:
            expired = await store.expire_keys(clock())
        except Exception as error:
            # Catch everything: without this loop, keys would be kept forever, and failed certificates never retried.
            text = f"expired keys could not be destroyed: {error}; the service tries again every minute"
            incidents.open("sweep", IncidentKind.ROUNDS, "keys not looked over", text, error)
        else:
            incidents.resolve("sweep")
            _LOG.debug("keys of rounds that never came destroyed", keys=expired)
        await asyncio.sleep(SWEEP_SECONDS)
