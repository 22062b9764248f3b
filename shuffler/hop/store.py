"""Defines the store that a hop needs, as a protocol; `sqlite.py` implements it for one machine.

The contract is that of the analyzer's store (`analyzer/stores/protocol.py`): operations are durable, idempotent and one
transaction each, and erased data is gone.
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
"""Makes the hop's record of a list, from its digest and its number of envelopes."""


class HopStore(Inbox[HopBatch], Protocol):
    """The operations of a hop's store in addition to receiving batches (`Inbox`)."""

    @property
    def waiting(self) -> int:
        """The number of operations that wait, for the metrics."""

    @property
    def folder(self) -> Path:
        """A folder for temporary files without names that are too large for memory."""

    async def add_tasks(self, tasks: Iterable[Task]) -> None:
        """Add tasks; a known task is unchanged."""

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key; None if none was made yet."""

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round of an added task its key, and return the key that it has from now on."""

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys that have expired at `now` and that no batch was announced for."""

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase a round's envelopes and its private key, so that nothing of it is passed on."""

    async def mix(self, batch: BatchId, blocks: Iterator[bytes], width: int, sign: Sign) -> HopBatch:
        """Store a permuted list with the record that `sign` makes of it, erase the arrived envelopes; return the batch.

        `blocks` are chunks of the list, whose envelopes have `width` bytes. If the batch has a list already, the list
        stays and `blocks` are not read.
        """

    async def envelopes(self, batch: BatchId, offset: int, width: int) -> Sequence[bytes]:
        """Return some envelopes of a permuted list from `offset` on, each of `width` bytes; empty at its end."""

    async def passed_on(self, batch: BatchId, committed: Committed) -> Committed:
        """Store the next party's answer to a batch's commit, and erase the list; return the answer that is stored.

        With the last batch of a round its private key is erased too.
        """

    async def statuses(self) -> list[HopRoundStatus]:
        """Return the progress of each round that has a key, oldest key first."""

    def close(self) -> None:
        """Finish waiting operations, and close the files. Blocks; a second call does nothing."""
