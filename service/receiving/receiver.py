"""A batch from a shuffler is announced, put in chunks and committed. Every call may be repeated.

The analyzer receives so, and so does each hop: a shuffler behind the first one. What must hold of a batch's record
before anything is stored is in `service.receiving.receiver.record_checks`.

This module moves the bytes, and checks what must hold between a batch, its record and its round for every receiver.
The caller hands in where a batch is stored, and what is done with it once all of it has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, left_out_by_hops, released_digest
from hubbub.protos.records.release_chain import NO_RELEASES, Release, ReleaseChunk
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signers import signers
from hubbub.protos.task.task import Task
from hubbub.service.ledger.release_chain import check_chain
from hubbub.service.observability.incidents import IncidentKind, Incidents


@dataclass(frozen=True)
class StoredKey:
    """A round's key: the private half (None once destroyed), the signed record, and the hash of the round's key set.

    The hash is None until a batch of the round was announced: the first one fixes it.
    """

    private: bytes | None = field(repr=False)
    record: SignedDocument
    key_set_hash: bytes | None


@dataclass(frozen=True)
class Delivery:
    """A batch as it is stored: the sender's record, how far it came, and what was counted once it was committed.

    `reports` are those of devices; `dummies` more, made by the shuffler, are among the envelopes.
    """

    id: BatchId
    record: SignedDocument
    reports: int
    dummies: int
    digest: bytes
    next_offset: int
    committed: Committed | None

    @property
    def envelopes(self) -> int:
        """How many envelopes the batch holds: those that no hop before left out."""
        return self.reports + self.dummies - sum(left_out_by_hops(self.record).values())

    @property
    def position(self) -> int:
        """Where its sender goes on: behind the end once it is committed, when its envelopes may be erased already."""
        return self.envelopes if self.committed is not None else self.next_offset


FINAL = frozenset({Reason.ERASED, Reason.OVER_BUDGET})
"""Refusals after which a batch is not sent again: its round has ended."""

D = TypeVar("D", bound=Delivery)
D_co = TypeVar("D_co", bound=Delivery, covariant=True)


@dataclass(frozen=True)
class Announced(Generic[D_co]):
    """What is stored of a round when a batch of it is announced: its key, the batch itself if known, and the others.

    `releases` are those of its task, the first of them first.
    """

    key: StoredKey | None
    known: D_co | None
    others: Sequence[D_co]
    releases: Sequence[Release] = ()


Check = Callable[[Announced[Delivery]], None]
"""Decides on an announcement: raises `Refusal` to refuse it. May be called again, so it only looks."""


class Inbox(Protocol[D_co]):
    """Where batches that are received are stored. What a coroutine returned is on disk."""

    async def batch(self, batch: BatchId) -> D_co | None:
        """Return a batch; None where it was not announced."""

    async def announce(
        self,
        record: BatchRecord,
        document: SignedDocument,
        key_set_hash: bytes,
        check: Check,
        releases: ReleaseChunk = NO_RELEASES,
    ) -> int:
        """Have `check` decide, and store the announcement in the same transaction; return the offset to go on from.

        The first batch of a round fixes the round's key set. A batch that is known already stays as it is. What
        is new of the `releases` that came with it is added to those of its task.

        Raises:
            Refusal: what `check` raised; nothing was stored.
        """

    async def append(self, chunk: Envelopes) -> int:
        """Store the part of a chunk that is new, and return the offset to go on from; see `new_part`.

        Raises:
            Refusal: INCOMPLETE where the batch was not announced, WRONG_OFFSET where the chunk leaves a gap or goes
                beyond the batch, DIGEST_DIFFERS where it says otherwise than what is stored. Nothing was stored then.
        """

    def arrived(self, batch: BatchId) -> Iterator[bytes]:
        """Give the envelopes that arrived, joined, in chunks of any length. Blocks: it is for threads."""

    async def forget_envelopes(self, batch: BatchId) -> None:
        """Forget what arrived of a batch that is not committed, so that its delivery begins again at offset 0."""


# What must hold for every receiver


def announcement_check(
    task: Task,
    record: BatchRecord,
    document: SignedDocument,
    own_record: SignedDocument,
    key_set_hash: bytes,
    releases: ReleaseChunk | None = NO_RELEASES,
) -> Check:
    """Return what decides on an announcement by what is stored of its round.

    `own_record` is the receiver's key record in the key set that came with it. The check raises `Refusal`: FORKED,
    INCOMPLETE, DIGEST_DIFFERS, KEY_SET_DIFFERS, ERASED, BAD_RECORD.
    """

    def check(stored: Announced[Delivery]) -> None:
        # First: of a shuffler whose store was put back, whatever else is wrong follows from that.
        if releases is not None:
            check_chain(task, record, document, releases, stored.releases)
        known = stored.known
        if known is not None and known.record.body != document.body:
            name = f"query {task.queries[record.batch.query].name} of round {record.batch.round} of task {task.name}"
            message = f"the batch of {name} was announced with another record; a batch is released once"
            raise Refusal(Reason.DIGEST_DIFFERS, message)
        if known is not None and known.committed is not None:
            return  # its round's key may be destroyed, which no longer matters
        _check_own_key(task, record, stored.key, own_record, key_set_hash)
        # A batch that is known was compared with the others when it was first announced.
        for other in stored.others if known is None else ():
            identities = signers(task, record.batch.round)
            before = identities.hops[: len(record.hops)]
            _check_same_round(record, BatchRecord.read(other.record, identities.shuffler, before))

    return check


def _check_own_key(
    task: Task, record: BatchRecord, key: StoredKey | None, own_record: SignedDocument, key_set_hash: bytes
) -> None:
    if key is None or key.record != own_record:
        raise Refusal(Reason.KEY_SET_DIFFERS, "the key set's record of this service is not the one that it gave out")
    if key.key_set_hash not in (None, key_set_hash):
        message = "another batch of this round came with another key set; a round has exactly one"
        raise Refusal(Reason.KEY_SET_DIFFERS, message)
    if key.private is None:
        raise erased(task, record.batch.round)


def _check_same_round(record: BatchRecord, other: BatchRecord) -> None:
    """Every device answers every query, so all batches of a round say the same of the round."""
    for name in ("reports", "closed_by", "refusals"):
        mine, theirs = getattr(record, name), getattr(other, name)
        if mine != theirs:
            message = (
                f"{name} is {mine!r} here and {theirs!r} in the batch of query {other.batch.query} of the same round"
            )
            raise Refusal(Reason.BAD_RECORD, message)


def erased(task: Task, round_number: int) -> Refusal:
    """Return the refusal of everything that a destroyed key would be needed for."""
    return Refusal(
        Reason.ERASED,
        f"round {round_number} of task {task.name} is over; its key was destroyed and nothing opens any more",
    )


def new_part(delivery: Delivery | None, chunk: Envelopes) -> int:
    """Return how many envelopes of a chunk, from its beginning, are stored already; the rest is new.

    Raises:
        Refusal: INCOMPLETE, WRONG_OFFSET.
    """
    if delivery is None:
        raise _not_announced()
    count = len(chunk.envelopes)
    if chunk.offset > delivery.next_offset or chunk.offset + count > delivery.envelopes:
        message = f"envelopes {chunk.offset} to {chunk.offset + count} of {delivery.envelopes}"
        raise Refusal(Reason.WRONG_OFFSET, f"{message}; go on from {delivery.next_offset}")
    return count if delivery.committed is not None else min(count, delivery.next_offset - chunk.offset)


def check_repetition(stored: Iterable[tuple[int, bytes]], offset: int, envelopes: Sequence[bytes]) -> None:
    """Return only if these envelopes are what is `stored` from `offset` on, in chunks, each with its own offset.

    The first chunk holds what is at `offset`, and those of one batch are all of one length.

    Raises:
        Refusal: DIGEST_DIFFERS where another envelope is stored.
        HubbubError: if some are missing.
    """
    width, given = len(envelopes[0]), b"".join(envelopes)
    compared = 0
    for first, joined in stored:
        known = joined[max(0, offset - first) * width :][: len(given) - compared]
        if known != given[compared : compared + len(known)]:
            raise another_envelope(offset + compared // width)
        compared += len(known)
    if compared != len(given):
        raise HubbubError(f"the store lacks envelope {offset + compared // width} of a batch; it was damaged")


def another_envelope(offset: int) -> Refusal:
    """Return the refusal of a chunk that says otherwise than what is stored, at or after `offset`."""
    message = f"another envelope than before at {offset} or after; a batch is released once"
    return Refusal(Reason.DIGEST_DIFFERS, message)


def _not_announced() -> Refusal:
    return Refusal(Reason.INCOMPLETE, "this batch was not announced; begin its delivery first")


# Receiving


class Receiver(Generic[D]):
    """Receives batches into `inbox`; `work` is done once with each that is complete, and commits it."""

    def __init__(
        self, inbox: Inbox[D], work: Callable[[Task, D], Awaitable[Committed]], incidents: Incidents | None = None
    ) -> None:
        self._inbox = inbox
        self._work = work
        self._incidents = incidents or Incidents()
        self._commits: dict[BatchId, asyncio.Task[Committed]] = {}

    async def begin(
        self,
        task: Task,
        record: BatchRecord,
        document: SignedDocument,
        key_set: KeySet,
        own_record: SignedDocument,
        releases: ReleaseChunk | None = NO_RELEASES,
    ) -> int:
        """Take the announcement of a batch whose record and key set were checked; return the offset to go on from.

        With None, the releases are somebody else's to check and to store: they are passed on.

        Raises:
            Refusal: FORKED, INCOMPLETE, DIGEST_DIFFERS, KEY_SET_DIFFERS, ERASED, BAD_RECORD.
        """
        check = announcement_check(task, record, document, own_record, key_set.hash, releases)
        offset = await self._refused_or(
            task, self._inbox.announce(record, document, key_set.hash, check, releases or NO_RELEASES)
        )
        self._incidents.resolve(("releases", task.id))
        return offset

    async def _refused_or(self, task: Task, announcing: Awaitable[int]) -> int:
        try:
            return await announcing
        except Refusal as refusal:
            if refusal.reason is Reason.FORKED:
                # Only this one stays until somebody decides; the sender comes again with all others by itself.
                names = {"task": task.name}
                self._incidents.open(
                    ("releases", task.id), IncidentKind.PEER, "forked", refusal.message, refusal, **names
                )
            raise

    async def put(self, chunk: Envelopes) -> int:
        """Store a chunk and return the offset to go on from. A chunk that repeats what is stored changes nothing.

        Raises:
            Refusal: INCOMPLETE, WRONG_OFFSET, DIGEST_DIFFERS.
        """
        return await self._inbox.append(chunk)

    async def commit(self, task: Task, batch: BatchId, digest: bytes) -> Committed:
        """Have a batch worked on and committed. Calls that come together wait for the same work.

        Raises:
            Refusal: INCOMPLETE before all has arrived, DIGEST_DIFFERS where the digest is not the record's, or what
                arrived is not what the record says; and what the work raises.
        """
        if digest != (await self.announced(batch)).digest:
            message = "this batch was announced with another digest; a batch is released once"
            raise Refusal(Reason.DIGEST_DIFFERS, message)
        work = self._commits.get(batch)
        if work is None:
            work = asyncio.create_task(self._commit(task, batch))
            self._commits[batch] = work
            work.add_done_callback(lambda done: self._forget(task, batch, done))
        # A caller that gives up does not stop the work: it asks again.
        return await asyncio.shield(work)

    def _forget(self, task: Task, batch: BatchId, work: asyncio.Task[Committed]) -> None:
        # Done or failed: the next call starts from what is stored.
        del self._commits[batch]
        error = None if work.cancelled() else work.exception()
        refused = error.reason if isinstance(error, Refusal) else None
        if not isinstance(error, Exception) or refused in FINAL:
            self._incidents.resolve(batch)
            return
        names = {"task": task.name, "round": batch.round, "query": task.queries[batch.query].name}
        text = f"round {batch.round} of {task.name} is not counted, query {names['query']}: {error}"
        # What the sender sent is for the sender to repair; that we are not ready, or anything else, is for us.
        ours = refused in (None, Reason.NOT_READY)
        self._incidents.open(
            batch, IncidentKind.ROUNDS if ours else IncidentKind.PEER, "commit failed", text, error, **names
        )

    async def announced(self, batch: BatchId) -> D:
        """Return a batch.

        Raises:
            Refusal: INCOMPLETE where it was not announced.
        """
        delivery = await self._inbox.batch(batch)
        if delivery is None:
            raise _not_announced()
        return delivery

    async def _commit(self, task: Task, batch: BatchId) -> Committed:
        delivery = await self.announced(batch)
        if delivery.committed is not None:
            return delivery.committed
        if delivery.next_offset < delivery.envelopes:
            arrived = f"{delivery.next_offset} of {delivery.envelopes} envelopes arrived"
            raise Refusal(Reason.INCOMPLETE, f"{arrived}; put the others first")
        # First of all: bytes that the signed digest does not cover are never worked on.
        await self.check_envelopes(delivery)
        return await self._work(task, delivery)

    async def check_envelopes(self, delivery: D) -> None:
        """Return only if what arrived is what the record says; it is forgotten otherwise.

        Raises:
            Refusal: DIGEST_DIFFERS.
        """
        digest = await asyncio.to_thread(lambda: released_digest(self._inbox.arrived(delivery.id)))
        if digest != delivery.digest:
            await self._inbox.forget_envelopes(delivery.id)
            message = "the envelopes that arrived are not those of the batch's record; deliver them again from offset 0"
            raise Refusal(Reason.DIGEST_DIFFERS, message)
