"""What the analyzer's stages need of a store, as a protocol; `sqlite/` is the store of one machine.

The contract, which `tests/contract/` holds every implementation to:

- *Durable.* What a coroutine returned is on disk: it is there after the process, or the machine, died at any moment.
- *One transaction each.* What an operation checks and what it changes belong together: nobody else's change comes in
  between. It has done all of it, or nothing where it raised or never returned.
- *Idempotent.* Every change may be asked for again, and answers as the first time where it was done then.
- *Erased means gone.* What was erased is in no file of the store any more when the coroutine returns, nor in what a
  killed process leaves; where the disk did not allow that, with the next change, or at the next start.

Where the store cannot take something now, as on a full disk, operations raise `Refusal` NOT_READY, which says when to
come again; a store that was closed raises `StoreError`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from hubbub.analyzer.records import Past, ReceivedBatch, RoundProgress
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, Release
from hubbub.protos.records.results import RoundId
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.ledger.charges import Charges
from hubbub.service.ledger.release_chain import Signed
from hubbub.service.receiving.receiver import Inbox, StoredKey
from hubbub.service.receiving.round_keys import NewRoundKey


class AnalyzerStore(Inbox[ReceivedBatch], Protocol):
    """What the stages need of a store, besides what receiving a batch needs (`Inbox`)."""

    @property
    def waiting(self) -> int:
        """How many operations wait; for the metrics."""

    # Tasks

    async def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        """Remember signed tasks; one that is known stays as it is."""

    async def task(self, task_id: bytes) -> SignedTask | None:
        """Return a task that was ever added."""

    # Keys

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key; None if none was made yet."""

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round of a task that was added its key, and return the key that it has from now on.

        A round has one key for good: the first that is added, be it destroyed since. Later ones are not stored.
        """

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys whose records are not valid any more at `now`, and that no batch was announced for.

        So are those of rounds with attested releases that never became whole, unless what was counted of one costs more
        than the round does at its minimum: rounds that were released later wait for it. Returns how many (`now` is in
        seconds since 1970).
        """

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase what a round was delivered with and its private key: nothing of it will be counted."""

    # Releases

    async def known(self, task_id: bytes) -> Known:
        """Return what is known of a task's releases: those that came with its batches' announcements."""

    async def chains(self) -> Mapping[bytes, Sequence[tuple[Release, bytes]]]:
        """Return the releases of all tasks that have any, in order, each with the head that is stored beside it."""

    async def records(self) -> Sequence[Signed]:
        """Return the records of all batches that were announced: the task's id, the query, the document."""

    # Counting

    async def batches(self, task_id: bytes, round_number: int) -> list[ReceivedBatch]:
        """Return a round's announced batches, in the task's order of queries."""

    async def commit(
        self, batch: BatchId, counts: bytes, attestation: bytes, committed: Committed, charges: Charges
    ) -> Committed:
        """Store what was counted of an announced batch, and charge for it; return what the batch is committed with.

        `attestation` is the analyzer's signature of it (`analyzer.attestation`).

        A batch that is committed already stays as it is, and is not charged again.

        Raises:
            LedgerMoved: where the charges do not follow the task's last one; nothing was stored.
        """

    async def charges(self, task_id: bytes) -> Charges:
        """Return a task's ledger, oldest charge first."""

    async def ledgers(self) -> Mapping[bytes, Charges]:
        """Return the ledgers of all tasks that have charges, by their ids."""

    async def counted(self) -> Mapping[tuple[bytes, int], int]:
        """Return the rounds (task id, number) of which a batch was committed, with how many queries their task has."""

    # Certificates

    async def uncertified(self) -> list[tuple[bytes, int]]:
        """Return the rounds whose batches are all committed and that have no certificate: (task id, round), rising."""

    async def past(self, task_id: bytes, round_number: int) -> Past:
        """Return what the certificate of a round that is counted composes."""

    async def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        """Store a round's certificate, destroy its private key, and erase the counts of the queries `withheld`.

        A round has one certificate: a later one is not stored. Nobody can open the round's envelopes from then on;
        `erase_some` takes them away.
        """

    async def unerased(self) -> list[tuple[bytes, int]]:
        """Return the certified rounds whose envelopes are still there: (task id, round), rising."""

    async def erase_some(self, task_id: bytes, round_number: int) -> bool:
        """Erase some of the envelopes of a certified round; return whether there are more.

        Not all at once, so that whoever reads results does not wait for all of it.
        """

    async def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        """Return a round's certificate, if it was made."""

    async def certified(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, of one task or of all, in the order in which they were certified."""

    async def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """Return how far the rounds are that a key was made for, oldest key first, of one task or of all."""

    def close(self) -> None:
        """Finish what waits, and let the files go. Blocks; a second call does nothing."""
