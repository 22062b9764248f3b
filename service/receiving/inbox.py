"""What storing received batches is on any database: the operations of a store, and what one transaction does."""

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
    """One transaction on round keys and batches. What it writes is stored when it ends."""

    # Keys

    @abstractmethod
    def key(self, task_id: bytes, number: int) -> StoredKey | None:
        """A round's key, if one was made."""

    def add_key(self, task_id: bytes, number: int, key: NewRoundKey) -> StoredKey:
        """Give a round its key, unless it has one; return the one that it has."""
        known = self.key(task_id, number)
        if known is not None:
            return known
        self._insert_key(task_id, number, key)
        return StoredKey(key.private, key.record, None)

    @abstractmethod
    def _insert_key(self, task_id: bytes, number: int, key: NewRoundKey) -> None:
        """Store the key of a round that has none."""

    @abstractmethod
    def expire_keys(self, now: float) -> int:
        """Destroy the keys whose time is over and that nothing waits for; return how many."""

    @abstractmethod
    def abandon(self, task_id: bytes, number: int) -> None:
        """Destroy what a round was delivered with, and its private key: nothing more is done with it."""

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
        """Have `check` decide on an announcement, and store it with what is new of the releases that came with it."""
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

    def _releases(self, _task_id: bytes) -> Sequence[Release]:
        """The task's releases as they are stored; a receiver that only passes batches on stores none."""
        return ()

    def _add_releases(self, _task_id: bytes, _releases: Sequence[Release]) -> None:
        """Store releases behind those of the task that are stored."""

    @abstractmethod
    def _insert_batch(self, record: BatchRecord, document: SignedDocument, key_set_hash: bytes) -> None:
        """Store a batch that is new, and the key set of its round, which all batches of the round come with."""

    def append(self, chunk: Envelopes) -> int:
        """Store the part of a chunk that is new; return the offset to go on from."""
        delivery = self.batch(chunk.batch)
        repeated, count = new_part(delivery, chunk), len(chunk.envelopes)
        if delivery is None or delivery.committed is not None:
            return chunk.offset if delivery is None else delivery.position
        if repeated:
            # What is sent again must be what is stored: two deliveries of one batch must not be mixed.
            self._check_repetition(chunk, repeated)
        if repeated < count:
            self._insert_chunk(chunk.batch, delivery.next_offset, chunk.envelopes[repeated:])
        return delivery.next_offset + count - repeated

    @abstractmethod
    def _check_repetition(self, chunk: Envelopes, repeated: int) -> None:
        """Return only if the first `repeated` envelopes of a chunk are what is stored at its offset."""

    @abstractmethod
    def _insert_chunk(self, batch: BatchId, first: int, envelopes: Sequence[bytes]) -> None:
        """Store envelopes of a batch behind those that are there; `first` is the offset of the first."""

    @abstractmethod
    def forget_envelopes(self, batch: BatchId) -> None:
        """Forget what arrived of a batch that is not committed, so that its delivery begins again."""


Made = TypeVar("Made", bound=InboxTransaction[Any])


class InboxOperations(ABC, Generic[Made, D]):
    """What every receiver's store does (`receiver.Inbox`), each operation in one transaction."""

    @abstractmethod
    async def _look(self, work: Callable[[Made], T]) -> T:
        """Do an operation that only reads."""

    @abstractmethod
    async def _change(self, work: Callable[[Made], T]) -> T:
        """Do an operation; its result is there when it is on disk."""

    @abstractmethod
    def _chunk_after(self, batch: BatchId, offset: int) -> tuple[int, bytes] | None:
        """The first chunk behind an offset that arrived of a batch; None at the end. Blocks."""

    # Keys

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        return await self._look(lambda tables: tables.key(task_id, round_number))

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round its key, and return the key that it has from now on."""
        return await self._change(lambda tables: tables.add_key(task_id, round_number, key))

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys that are not valid any more and that nothing waits for; return how many."""
        return await self._change(lambda tables: tables.expire_keys(now))

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase what a round was delivered with and its private key."""
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
        """Have `check` decide, and store the announcement; return the offset to go on from."""
        return await self._change(lambda tables: tables.announce(record, document, key_set_hash, check, releases))

    async def append(self, chunk: Envelopes) -> int:
        """Store the part of a chunk that is new, and return the offset to go on from."""
        return await self._change(lambda tables: tables.append(chunk))

    def arrived(self, batch: BatchId) -> Iterator[bytes]:
        """Give the envelopes that arrived, joined, in chunks. Blocks: it is for threads.

        Each chunk is read by itself, so that a batch that takes minutes to count keeps no log from being cut.
        """
        offset = -1
        while found := self._chunk_after(batch, offset):
            offset, envelopes = found
            yield envelopes

    async def forget_envelopes(self, batch: BatchId) -> None:
        """Forget what arrived of a batch that is not committed."""
        await self._change(lambda tables: tables.forget_envelopes(batch))
