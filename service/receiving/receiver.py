"""Receives batches from a shuffler, which announces each, puts it in chunks and commits it. Calls may be repeated.

The analyzer and each hop (a shuffler after the first one) use it. `service.receiving.record_checks` checks a batch's
record before anything is stored.

This module moves the bytes, and checks the consistency of a batch, its record and its round for every receiver. The
caller provides the store of batches, and the work on a batch that has arrived completely.
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
from hubbub.protos.refusals import ROUND_ENDED, Reason, Refusal
from hubbub.protos.task.task import Task, signers
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
    """A stored batch: the sender's record, the progress of delivery, and the counts once it is committed.

    `reports` counts those of devices; the envelopes include `dummies` more, made by the shufflers before the receiver.
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
        """How many envelopes the batch has: those that no earlier hop left out."""
        return self.reports + self.dummies - sum(left_out_by_hops(self.record).values())

    @property
    def position(self) -> int:
        """The next offset to send; the end once the batch is committed, when its envelopes may already be erased."""
        return self.envelopes if self.committed is not None else self.next_offset


D = TypeVar("D", bound=Delivery)
D_co = TypeVar("D_co", bound=Delivery, covariant=True)


@dataclass(frozen=True)
class Announced(Generic[D_co]):
    """The stored state of a round when a batch of it is announced: its key, the batch itself if known, and the others.

    `releases` are those of its task, oldest first.
    """

    key: StoredKey | None
    known: D_co | None
    others: Sequence[D_co]
    releases: Sequence[Release] = ()


Check = Callable[[Announced[Delivery]], None]
"""Decides on an announcement: raises `Refusal` to refuse it. It may be called again, so it changes nothing."""


class Inbox(Protocol[D_co]):
    """The store of received batches. Every result that a coroutine returned is on disk."""

    async def batch(self, batch: BatchId) -> D_co | None:
        """Return a batch; None if it was not announced."""

    async def announce(
        self,
        record: BatchRecord,
        document: SignedDocument,
        key_set_hash: bytes,
        check: Check,
        releases: ReleaseChunk = NO_RELEASES,
    ) -> int:
        """Let `check` decide, and store the announcement in the same transaction; return the next offset to send.

        The first batch of a round fixes the round's key set. A known batch stays as it is. New ones of the `releases`
        are added to those of its task.

        Raises:
            Refusal: raised by `check`; nothing was stored.
        """

    async def append(self, chunk: Envelopes) -> int:
        """Store the new part of a chunk, and return the next offset to send; see `new_part`.

        Raises:
            Refusal: INCOMPLETE if the batch was not announced, WRONG_OFFSET if the chunk leaves a gap or exceeds the
                batch, DIGEST_DIFFERS if it differs from the stored part. Then nothing was stored.
        """

    def arrived(self, batch: BatchId) -> Iterator[bytes]:
        """Give the arrived envelopes, joined, in chunks of any length. Blocks, so call it in a thread."""

    async def forget_envelopes(self, batch: BatchId) -> None:
        """Forget the arrived envelopes of an uncommitted batch, so that its delivery begins again at offset 0."""


# Checks of every receiver


def announcement_check(
    task: Task,
    record: BatchRecord,
    document: SignedDocument,
    own_record: SignedDocument,
    key_set_hash: bytes,
    releases: ReleaseChunk = NO_RELEASES,
) -> Check:
    """Return the check of an announcement against the stored state of its round.

    `own_record` is the receiver's key record in the key set that came with it. The check raises `Refusal`: FORKED,
    INCOMPLETE, DIGEST_DIFFERS, KEY_SET_DIFFERS, ERASED, BAD_RECORD.
    """

    def check(stored: Announced[Delivery]) -> None:
        # First: if the shuffler's store is an old copy, every other fault follows from that.
        check_chain(task, record, document, releases, stored.releases)
        known = stored.known
        if known is not None and known.record.body != document.body:
            name = f"query {task.queries[record.batch.query].name} of round {record.batch.round} of task {task.name}"
            message = (
                f"the batch of {name} was announced with another record before, but a batch is released only once; "
                "check the sender's store (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
            )
            raise Refusal(Reason.DIGEST_DIFFERS, message)
        if known is not None and known.committed is not None:
            return  # the round's key may be destroyed, which no longer matters
        _check_own_key(task, record, stored.key, own_record, key_set_hash)
        # A known batch was compared with the others at its first announcement.
        for other in stored.others if known is None else ():
            identities = signers(task, record.batch.round)
            before = identities.hops[: len(record.hops)]
            _check_same_round(record, BatchRecord.read(other.record, identities.shuffler, before))

    return check


def _check_own_key(
    task: Task, record: BatchRecord, key: StoredKey | None, own_record: SignedDocument, key_set_hash: bytes
) -> None:
    if key is None or key.record != own_record:
        raise Refusal(
            Reason.KEY_SET_DIFFERS,
            "the key set has another key record of this service than the one that it issued; one of the two stores "
            "is an old copy or was lost (docs/howto/respond-to-incidents.md, A store was damaged or lost)",
        )
    if key.key_set_hash not in (None, key_set_hash):
        message = (
            "another batch of this round came with another key set, but a round has exactly one; check the sender's "
            "store (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )
        raise Refusal(Reason.KEY_SET_DIFFERS, message)
    if key.private is None:
        raise erased(task, record.batch.round)


def _check_same_round(record: BatchRecord, other: BatchRecord) -> None:
    """Check that two batches agree on their round: every device answers every query, so all batches must."""
    for name in ("reports", "closed_by", "refusals"):
        mine, theirs = getattr(record, name), getattr(other, name)
        if mine != theirs:
            message = (
                f"{name} is {mine!r} here and {theirs!r} in the batch of query {other.batch.query} of the same "
                "round; all batches of a round must agree"
            )
            raise Refusal(Reason.BAD_RECORD, message)


def erased(task: Task, round_number: int) -> Refusal:
    """Return the refusal of a call that needs a destroyed key."""
    return Refusal(
        Reason.ERASED,
        f"round {round_number} of task {task.name} is over; its key was destroyed, so no envelope opens",
    )


def new_part(delivery: Delivery | None, chunk: Envelopes) -> int:
    """Return how many envelopes at the beginning of a chunk are stored already; the rest is new.

    Raises:
        Refusal: INCOMPLETE, WRONG_OFFSET.
    """
    if delivery is None:
        raise _not_announced()
    count = len(chunk.envelopes)
    if chunk.offset > delivery.next_offset or chunk.offset + count > delivery.envelopes:
        message = f"envelopes {chunk.offset} to {chunk.offset + count} of {delivery.envelopes}"
        raise Refusal(Reason.WRONG_OFFSET, f"{message}; continue at {delivery.next_offset}")
    return count if delivery.committed is not None else min(count, delivery.next_offset - chunk.offset)


def check_repetition(stored: Iterable[tuple[int, bytes]], offset: int, envelopes: Sequence[bytes]) -> None:
    """Check that these envelopes equal the `stored` ones from `offset` on; `stored` gives chunks with their offsets.

    The first chunk contains the envelope at `offset`, and all envelopes of a batch have one length.

    Raises:
        Refusal: DIGEST_DIFFERS if another envelope is stored.
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
        raise HubbubError(
            f"the store lacks envelope {offset + compared // width} of a batch, so it is damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )


def another_envelope(offset: int) -> Refusal:
    """Return the refusal of a chunk that differs from the stored envelopes, at or after `offset`."""
    message = (
        f"an envelope at {offset} or after differs from the one sent before, but a batch is released only once; "
        "check the sender's store (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
    )
    return Refusal(Reason.DIGEST_DIFFERS, message)


def _not_announced() -> Refusal:
    return Refusal(Reason.INCOMPLETE, "this batch was not announced; begin its delivery first")


# Receiving


class Receiver(Generic[D]):
    """Receives batches into `inbox`; `work` is called once for each complete batch, and commits it."""

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
        releases: ReleaseChunk = NO_RELEASES,
    ) -> int:
        """Accept the announcement of a batch whose record and key set were checked; return the next offset to send.

        Raises:
            Refusal: FORKED, INCOMPLETE, DIGEST_DIFFERS, KEY_SET_DIFFERS, ERASED, BAD_RECORD.
        """
        check = announcement_check(task, record, document, own_record, key_set.hash, releases)
        offset = await self._refused_or(task, self._inbox.announce(record, document, key_set.hash, check, releases))
        self._incidents.resolve(("releases", task.id))
        return offset

    async def _refused_or(self, task: Task, announcing: Awaitable[int]) -> int:
        try:
            return await announcing
        except Refusal as refusal:
            if refusal.reason is Reason.FORKED:
                # Only a fork stays until an operator decides; after other refusals, the sender retries by itself.
                names = {"task": task.name}
                self._incidents.open(
                    ("releases", task.id), IncidentKind.PEER, "forked", refusal.message, refusal, **names
                )
            raise

    async def put(self, chunk: Envelopes) -> int:
        """Store a chunk and return the next offset to send. A chunk that repeats stored envelopes changes nothing.

        Raises:
            Refusal: INCOMPLETE, WRONG_OFFSET, DIGEST_DIFFERS.
        """
        return await self._inbox.append(chunk)

    async def commit(self, task: Task, batch: BatchId, digest: bytes) -> Committed:
        """Process and commit a batch. Concurrent calls wait for the same work.

        Raises:
            Refusal: INCOMPLETE before all envelopes have arrived; DIGEST_DIFFERS if the digest is not the record's, or
                the arrived envelopes do not match the record; and the refusals of the work.
        """
        if digest != (await self.announced(batch)).digest:
            message = (
                "this batch was announced with another digest, but a batch is released only once; check the "
                "sender's store (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
            )
            raise Refusal(Reason.DIGEST_DIFFERS, message)
        work = self._commits.get(batch)
        if work is None:
            work = asyncio.create_task(self._commit(task, batch))
            self._commits[batch] = work
            work.add_done_callback(lambda done: self._forget(task, batch, done))
        # A caller that gives up does not stop the work: it calls again later.
        return await asyncio.shield(work)

    def _forget(self, task: Task, batch: BatchId, work: asyncio.Task[Committed]) -> None:
        # Done or failed: the next call starts from the stored state.
        del self._commits[batch]
        error = None if work.cancelled() else work.exception()
        refused = error.reason if isinstance(error, Refusal) else None
        if not isinstance(error, Exception) or refused in ROUND_ENDED:
            self._incidents.resolve(batch)
            return
        names = {"task": task.name, "round": batch.round, "query": task.queries[batch.query].name}
        text = f"round {batch.round} of {task.name} is not counted, query {names['query']}: {error}"
        # A refusal of the sent data is the sender's to repair; NOT_READY, and every other error, is ours.
        ours = refused in (None, Reason.NOT_READY)
        self._incidents.open(
            batch, IncidentKind.ROUNDS if ours else IncidentKind.PEER, "commit failed", text, error, **names
        )

    async def announced(self, batch: BatchId) -> D:
        """Return a batch.

        Raises:
            Refusal: INCOMPLETE if it was not announced.
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
            raise Refusal(Reason.INCOMPLETE, f"{arrived}; send the others before the commit")
        # First of all: bytes that the signed digest does not cover are never processed.
        await self.check_envelopes(delivery)
        return await self._work(task, delivery)

    async def check_envelopes(self, delivery: D) -> None:
        """Check that the arrived envelopes match the record; forget them otherwise.

        Raises:
            Refusal: DIGEST_DIFFERS.
        """
        digest = await asyncio.to_thread(lambda: released_digest(self._inbox.arrived(delivery.id)))
        if digest != delivery.digest:
            await self._inbox.forget_envelopes(delivery.id)
            message = "the arrived envelopes are not those of the batch's record; deliver them again from offset 0"
            raise Refusal(Reason.DIGEST_DIFFERS, message)
