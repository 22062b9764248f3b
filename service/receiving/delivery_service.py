"""The delivery service as the analyzer and hops run it: who may call, what is timed, and when keys expire."""

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
"""Common names that may deliver batches: any shuffler's. Whose batch it is its record says, which is signed."""

SWEEP_SECONDS = 60.0
"""How often what was left behind is looked over: certificates that failed, keys of rounds that no batch came for."""

_LOG = structlog.get_logger(__name__)


class TimedDelivery:
    """A receiver whose work is timed and whose refusals are counted (`rpc.DeliveryHandler`)."""

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
        """Take a batch's announcement; return the offset to go on from."""
        with self._counted():
            return await self._receiver.begin(record, key_set, releases)

    async def put(self, chunk: Envelopes) -> int:
        with self._counted(self._accept):
            return await self._receiver.put(chunk)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Work on a batch that is complete, and commit it."""
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
        """Erase the private keys that are not valid any more at `now`; return how many."""


async def sweep(
    store: Expiring, clock: Callable[[], float], incidents: Incidents, first: Callable[[], None] = lambda: None
) -> None:
    """Destroy the keys whose time is over and that no batch came for; now, and every minute, after calling `first`."""
    while True:
        first()
        try:
            expired = await store.expire_keys(clock())
        except Exception as error:
            # Whatever it was: without this loop keys would be kept for ever, and no failed certificate tried again.
            text = f"keys whose time is over could not be destroyed: {error}; it is tried again every minute"
            incidents.open("sweep", IncidentKind.ROUNDS, "keys not looked over", text, error)
        else:
            incidents.resolve("sweep")
            _LOG.debug("keys of rounds that never came destroyed", keys=expired)
        await asyncio.sleep(SWEEP_SECONDS)
