"""Defines how received batches are stored on any database: the operations of a store, and of one transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.release_chain import NO_RELEASES, Release, ReleaseChunk
from hubbub.service.receiving.receiver import Announced, Check, D, StoredKey, new_part
from hubbub.service.receiving.round_keys import NewRoundKey

T = TypeVar("T")


class InboxTransaction(ABC, Generic[D]):
    """One transaction on round keys and batches. Its writes are stored when it ends."""

    # Keys

    @abstractmethod
    def key(self, task_id: bytes, number: int) -> StoredKey | None:
        """A round's key, if one was made."""

    def add_key(self, task_id: bytes, number: int, key: NewRoundKey) -> StoredKey:
        """Store a round's key, unless it has one; return the stored key."""
        known = self.key(task_id, number)
        if known is not None:
            return known
        self._insert_key(task_id, number, key)
        return StoredKey(key.private, key.record, None)

    @abstractmethod
    def _insert_key(self, task_id: bytes, number: int, key: NewRoundKey) -> None:
        """Store the key of a round without one."""

    @abstractmethod
    def expire_keys(self, now: float) -> int:
        """Destroy the expired keys that no batch needs; return how many."""

    @abstractmethod
    def abandon(self, task_id: bytes, number: int) -> None:
        """Destroy a round's delivered envelopes and its private key; the round is given up."""

    # Batches

    @abstractmethod
    def batch(self, batch: BatchId) -> D | None:
        """A batch, if it was announced."""

    @abstractmethod
    def batches(self, task_id: bytes, number: int) -> list[D]:
        """A round's announced batches, in the task's order of queries."""

    def announce(
        self, record: BatchRecord, document: SignedDocument, key_set_hash: bytes, check: Check, sent: ReleaseChunk
    ) -> int:
        """Let `check` decide on an announcement, and store it with the new ones of the releases that came with it."""
        batch = record.batch
        stored = self.batches(batch.task_id, batch.round)
        known = next((each for each in stored if each.id == batch), None)
        others = [each for each in stored if each.id != batch]
        releases = self._releases(batch.task_id)
        check(Announced(self.key(batch.task_id, batch.round), known, others, releases))
        self._add_releases(batch.task_id, sent.releases[max(0, len(releases) - sent.first) :])
        if known is not None:
            return known.position
        self._insert_batch(record, document, key_set_hash)
        return 0

    @abstractmethod
    def _releases(self, task_id: bytes) -> Sequence[Release]:
        """Return the task's stored releases, oldest first."""

    @abstractmethod
    def _add_releases(self, task_id: bytes, releases: Sequence[Release]) -> None:
        """Append releases to the stored ones of the task."""

    @abstractmethod
    def _insert_batch(self, record: BatchRecord, document: SignedDocument, key_set_hash: bytes) -> None:
        """Store a new batch, and the key set of its round, which all batches of the round share."""

    def append(self, chunk: Envelopes) -> int:
        """Store the new part of a chunk; return the next offset to send."""
        delivery = self.batch(chunk.batch)
        repeated, count = new_part(delivery, chunk), len(chunk.envelopes)
        if delivery is None or delivery.committed is not None:
            return chunk.offset if delivery is None else delivery.position
        if repeated:
            # A repeated part must equal the stored one: two deliveries of one batch must not be mixed up.
            self._check_repetition(chunk, repeated)
        if repeated < count:
            self._insert_chunk(chunk.batch, delivery.next_offset, chunk.envelopes[repeated:])
        return delivery.next_offset + count - repeated

    @abstractmethod
    def _check_repetition(self, chunk: Envelopes, repeated: int) -> None:
        """Check that the first `repeated` envelopes of a chunk equal the stored ones at its offset."""

    @abstractmethod
    def _insert_chunk(self, batch: BatchId, first: int, envelopes: Sequence[bytes]) -> None:
        """Append envelopes to the stored ones of a batch; `first` is the offset of the first."""

    @abstractmethod
    def forget_envelopes(self, batch: BatchId) -> None:
        """Forget the arrived envelopes of an uncommitted batch, so that its delivery begins again."""


Made = TypeVar("Made", bound=InboxTransaction[Any])


class InboxOperations(ABC, Generic[Made, D]):
    """The operations of every receiver's store (`receiver.Inbox`), each in one transaction."""

    @abstractmethod
    async def _look(self, work: Callable[[Made], T]) -> T:
        """Run an operation that only reads."""

    @abstractmethod
    async def _change(self, work: Callable[[Made], T]) -> T:
        """Run an operation; its result comes when it is on disk."""

    @abstractmethod
    def _chunk_after(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        """Return the first arrived chunk of a batch after an offset; None at the end. Blocks."""

    # Keys

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        return await self._look(lambda tables: tables.key(task_id, round_number))

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Store a round's key, unless it has one; return the stored key."""
        return await self._change(lambda tables: tables.add_key(task_id, round_number, key))

    async def expire_keys(self, now: float) -> int:
        """Erase the expired private keys that no batch needs; return how many."""
        return await self._change(lambda tables: tables.expire_keys(now))

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase a round's delivered envelopes and its private key."""
        await self._change(lambda tables: tables.abandon(task_id, round_number))

    # Receiving

    async def batch(self, batch: BatchId) -> D | None:
        return await self._look(lambda tables: tables.batch(batch))

    async def batches(self, task_id: bytes, round_number: int) -> list[D]:
        return await self._look(lambda tables: tables.batches(task_id, round_number))

    async def announce(
        self,
        record: BatchRecord,
        document: SignedDocument,
        key_set_hash: bytes,
        check: Check,
        releases: ReleaseChunk = NO_RELEASES,
    ) -> int:
        """Let `check` decide, and store the announcement; return the next offset to send."""
        return await self._change(lambda tables: tables.announce(record, document, key_set_hash, check, releases))

    async def append(self, chunk: Envelopes) -> int:
        """Store the new part of a chunk, and return the next offset to send."""
        return await self._change(lambda tables: tables.append(chunk))

    def arrived(self, batch: BatchId) -> Iterator[bytes]:
        """Give the arrived envelopes, joined, in chunks. Blocks, so call it in a thread.

        Each chunk is a separate read, so that minutes of counting do not prevent truncating the log.
        """
        offset = -1
        while found := self._chunk_after(batch, offset):
            offset, envelopes = found
            yield envelopes

    async def forget_envelopes(self, batch: BatchId) -> None:
        """Forget the arrived envelopes of an uncommitted batch."""
        await self._change(lambda tables: tables.forget_envelopes(batch))
