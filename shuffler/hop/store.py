"""What a hop needs of a store, as a protocol; `sqlite.py` is the store of one machine.

The contract is that of the analyzer's (`analyzer/store.py`): durable, one transaction each, idempotent, erased means
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.protos.task.task import Task
from hubbub.service.receiving.receiver import Inbox, StoredKey
from hubbub.service.receiving.round_keys import NewRoundKey
from hubbub.shuffler.hop.records import HopBatch, HopRoundStatus

Sign = Callable[[bytes, int], SignedDocument]
"""Makes the hop's record of a list: its digest, and how many envelopes it has."""


class HopStore(Inbox[HopBatch], Protocol):
    """What a hop needs of a store, besides what receiving a batch needs (`Inbox`)."""

    @property
    def waiting(self) -> int:
        """How many operations wait; for the metrics."""

    @property
    def folder(self) -> Path:
        """Where files without names may lie for a while, that are too large for memory."""

    async def add_tasks(self, tasks: Iterable[Task]) -> None:
        """Remember tasks; one that is known stays as it is."""

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key; None if none was made yet."""

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round of a task that was added its key, and return the key that it has from now on."""

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys that are not valid any more at `now` and that no batch was announced for."""

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase a round's envelopes and its private key: nothing of it is passed on any more."""

    async def mix(self, batch: BatchId, blocks: Iterator[bytes], width: int, sign: Sign) -> HopBatch:
        """Store a permuted list with the record that `sign` makes of it, erase what arrived; return the batch.

        `blocks` are chunks of the list, whose envelopes have `width` bytes. They are not read where the batch has a
        list already, which then stays.
        """

    async def envelopes(self, batch: BatchId, offset: int, width: int) -> Sequence[bytes]:
        """Return some envelopes of a permuted list from `offset` on, each of `width` bytes; none at its end."""

    async def passed_on(self, batch: BatchId, committed: Committed) -> Committed:
        """Note that the next party has committed a batch and what it answered, and erase its list.

        With the last batch of a round its private key is erased too. Returns what the batch is committed with.
        """

    async def statuses(self) -> list[HopRoundStatus]:
        """Return how far the rounds are that a key was made for, oldest key first."""

    def close(self) -> None:
        """Finish what waits, and let the files go. Blocks; a second call does nothing."""
