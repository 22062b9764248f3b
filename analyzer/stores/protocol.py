"""Defines the store that the analyzer's stages need, as a protocol; `sqlite/` implements it for one machine.

The contract, which `tests/contract/` checks of every implementation:

- *Durable.* Once a coroutine returns, its result is on disk, even if the process or the machine died at any later
  moment.
- *One transaction each.* An operation's checks and changes belong together, without another change in between. It has
  done all of it, or nothing if it raised or never returned.
- *Idempotent.* Every change may be repeated, and a repeated one answers as the first did.
- *Erased means gone.* Erased data is in no file of the store when the coroutine returns, nor in files that a killed
  process leaves. If the disk did not allow that, it is done with the next change, or at the next start.

If the store cannot take something now, for example on a full disk, operations raise `Refusal` NOT_READY with a time to
come again; a closed store raises `StoreError`.
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
    """The store that the stages need, in addition to receiving batches (`Inbox`)."""

    @property
    def waiting(self) -> int:
        """The number of operations that wait, for the metrics."""

    # Tasks

    async def add_tasks(self, tasks: Iterable[SignedTask]) -> None:
        """Add signed tasks; a known task is unchanged."""

    async def task(self, task_id: bytes) -> SignedTask | None:
        """Return a task that was ever added."""

    # Keys

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key; None if none was made yet."""

    async def add_key(self, task_id: bytes, round_number: int, key: NewRoundKey) -> StoredKey:
        """Give a round of an added task its key, and return the key that it has from now on.

        A round has one key for good: the first that is added, even if it was destroyed since. Later ones are not
        stored.
        """

    async def expire_keys(self, now: float) -> int:
        """Erase the private keys whose records have expired at `now`, and that no batch was announced for.

        Also erase those of rounds with attested releases that never became complete, since later released rounds wait
        for them; a round is kept if its counted batches cost more than the round at its minimum. Returns the number of
        rounds (`now` is in seconds since 1970).
        """

    async def abandon(self, task_id: bytes, round_number: int) -> None:
        """Erase a round's envelopes and its private key, so that nothing of it will be counted."""

    # Releases

    async def known(self, task_id: bytes) -> Known:
        """Return the known releases of a task: those that came with its batches' announcements."""

    async def chains(self) -> Mapping[bytes, Sequence[tuple[Release, bytes]]]:
        """Return the releases of all tasks that have any, in order, each with its stored head."""

    async def records(self) -> Sequence[Signed]:
        """Return the records of all announced batches: the task's id, the query, the document."""

    # Counting

    async def batches(self, task_id: bytes, round_number: int) -> list[ReceivedBatch]:
        """Return a round's announced batches, in the task's order of queries."""

    async def commit(
        self, batch: BatchId, counts: bytes, attestation: bytes, committed: Committed, charges: Charges
    ) -> Committed:
        """Store the counts of an announced batch, and charge for it; return the stored commit.

        `attestation` is the analyzer's signature of the counts (`analyzer.attestation`).

        A batch that is committed already is unchanged, and is not charged again.

        Raises:
            LedgerMoved: if the charges do not follow the task's last one; then nothing was stored.
        """

    async def charges(self, task_id: bytes) -> Charges:
        """Return a task's ledger, oldest charge first."""

    async def ledgers(self) -> Mapping[bytes, Charges]:
        """Return the ledgers of all tasks that have charges, by their ids."""

    async def counted(self) -> Mapping[tuple[bytes, int], int]:
        """Return the rounds (task id, number) with a committed batch, each with its task's number of queries."""

    # Certificates

    async def uncertified(self) -> list[tuple[bytes, int]]:
        """Return the rounds with all batches committed but no certificate: (task id, round), rising."""

    async def past(self, task_id: bytes, round_number: int) -> Past:
        """Return the rounds that the certificate of a counted round composes."""

    async def certify(self, task_id: bytes, round_number: int, document: bytes, withheld: Collection[int]) -> None:
        """Store a round's certificate, destroy its private key, and erase the counts of the queries `withheld`.

        A round has one certificate: a later one is not stored. Nobody can open the round's envelopes from then on;
        `erase_some` erases them.
        """

    async def unerased(self) -> list[tuple[bytes, int]]:
        """Return the certified rounds that still have envelopes: (task id, round), rising."""

    async def erase_some(self, task_id: bytes, round_number: int) -> bool:
        """Erase some of the envelopes of a certified round; return whether there are more.

        Not all at once, so that readers of results do not wait for all of it.
        """

    async def certificate(self, task_id: bytes, round_number: int) -> bytes | None:
        """Return a round's certificate, if it was made."""

    async def certified(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds, of one task or of all, in the order in which they were certified."""

    async def progress(self, task_id: bytes | None) -> list[RoundProgress]:
        """Return the progress of the rounds that have a key, oldest key first, of one task or of all."""

    def close(self) -> None:
        """Finish waiting operations, and close the files. Blocks; a second call does nothing."""
