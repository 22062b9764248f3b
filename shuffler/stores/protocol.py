"""Defines the store that the shuffler's stages need, as a protocol; `sqlite/` implements it for one machine.

The contract, which `tests/contract/` checks of every implementation:

- *Durable.* Once a coroutine returns, its result is on disk, even if the process or the machine died at any later
  moment.
- *Atomic.* A coroutine that raised `StoreError`, or never returned, has done all of its change or none of it.
- *Idempotent.* Every change may be repeated, and a repeated one answers as the first did. So each step is repeated
  after a crash.
- *Erased means gone.* Erased data is in no file of the store, nor in files that a killed process leaves.

Nothing here assumes that one process has the truth: reads are coroutines, and things that must agree are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hubbub.protos.messages import CredentialAction, RoundState
from hubbub.protos.records.release_chain import Release
from hubbub.protos.task.schedule import Close
from hubbub.service.ledger.charges import Charges
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, MasterSecret, Opened, RedeemedTicket, Revoked, Round, StoredBatch


class IngestStore(Protocol):
    """The part of a store that answering devices needs; a front end has only this part.

    Every coroutine raises `StoreError` if it failed, and then changed nothing. A `Round` argument only names the round;
    decisions use the round as it is stored.
    """

    @property
    def waiting(self) -> int:
        """The number of writes that wait, for the metrics."""

    async def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round as it is on disk; None if it never began."""

    async def known(self, round_: Round, ids: Sequence[bytes]) -> list[bytes | None]:
        """Return for each submission id the digest that is stored under it, or None.

        One call takes many ids: it is made for every submission before any other work on it.
        """

    async def submissions(self, round_: Round) -> int:
        """Return how many submissions of a round were acknowledged."""

    # Counting

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals, to be written soon; a kill loses at most those since the last commit.

        Returns at once without a promise: a refusal need not wait for the disk. Counts of a round that never began
        count for the task (`ANY_ROUND`); counts of no known task have an empty id.
        """

    async def insert(
        self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0, most: int | None = None
    ) -> list[InsertOutcome]:
        """Store submissions, each by itself, and return the outcome of each, in order.

        The first under an id is STORED if the round is OPEN and has fewer than `most` submissions, if that is given;
        otherwise it is FULL. The same bytes again are a DUPLICATE, whenever they come; other bytes are a CONFLICT. The
        same transaction counts those that are not new, and `unopenable` further ones that did not open.
        """

    async def masters(self) -> list[MasterSecret]:
        """Return the master keys, oldest first."""

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Record tickets as redeemed unless they are; return the record of each device, in order.

        What is recorded for a device stays: whoever repeats a redemption gets the record that it had, so a lost answer
        costs no ticket. Without tickets, it fails as it would with some, and changes nothing.
        """

    async def revoked(self) -> Revoked:
        """Return the revoked devices."""

    def close(self) -> None:
        """Write waiting changes, and close the files. Blocks. Later calls raise `StoreError`."""


class ShufflerStore(IngestStore, Protocol):
    """The store that the stages need. Every coroutine raises `StoreError` if it failed, and then changed nothing.

    A `Round` argument only names the round; decisions use the round as it is stored.
    """

    @property
    def folder(self) -> Path:
        """A folder for temporary files without names that are too large for memory."""

    # Reading

    async def rounds(self) -> list[Round]:
        """Return all rounds, in the order in which they began."""

    async def tally(self, task_id: bytes, number: int) -> Mapping[str, int]:
        """Return refusals by reason, and retries, of a round (or of a task, with number `ANY_ROUND`)."""

    async def charges(self, task_id: bytes) -> Charges:
        """Return a task's ledger, oldest charge first."""

    async def releases(self, task_id: bytes) -> Sequence[Release]:
        """Return a task's releases, oldest first; empty for a task whose records state no position."""

    # A round's life

    async def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round, OPEN and without keys; a round that began already is returned unchanged."""

    async def install(self, round_: Round, keys: RoundKeyMaterial) -> Round:
        """Give an OPEN round its keys; return the round with its keys from now on, which may be others.

        A round keeps its first key set for good.
        """

    async def cut(self, round_: Round, closed_by: Close, minimum: int) -> Round:
        """Take no more submissions. Fixes the numbers of submissions and refusals; a later cut changes nothing.

        Nothing is stored after the cut: its number contains exactly the acknowledged submissions.

        Raises:
            Refusal: BELOW_MINIMUM if the operator would cut under the minimum; the round stays OPEN.
        """

    async def mix(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges = ()) -> Round:
        """Make a CUT round MIXED: store the permuted lists that `work` makes, and charge for them.

        State, charges, records and release are stored, and the private key is destroyed, in one transaction. So a round
        is charged when there is something to deliver, and is never mixed twice: two orders of the same reports could
        distinguish them. The sources of the lists are deleted in that transaction or right after it, since they show
        the order of arrival. They are gone before this returns; if that failed or the process was killed, they are gone
        before `batches` returns any. Before the transaction, parts of lists may be stored; a round that is not MIXED
        has no lists, even if parts are stored.

        `work` runs in a thread and reads the arrived submissions. It may be called again if it has to start anew, and
        draws its permutation each time. The position among the task's releases that it gets is the one that it stores
        at. A round that is MIXED already is unchanged, and is not charged again.

        Raises:
            LedgerMoved: if the charges do not follow the task's last one; then nothing was done.
        """

    async def batches(self, round_: Round) -> list[StoredBatch]:
        """Return a mixed round's batches, in the task's order of queries, once the arrived submissions are gone."""

    async def envelopes(self, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
        """Return a chunk of a permuted list from `offset` on, up to the end of its block; empty at the end."""

    async def commit_batch(self, round_: Round, query: int) -> Round:
        """Record that the analyzer committed a batch; with the last one the round is RELEASED."""

    async def erase(self, round_: Round, final: RoundState, reason: str = "") -> Round:
        """Erase everything of a round but numbers and signed records; only then set its final state and the reason.

        Until then the round is in its earlier state, and all of this is repeated.
        """

    # Enrollment

    async def step_masters(self, step: CredentialAction, secret: bytes, now: int) -> None:
        """PREPARE, ACTIVATE or FORGET master keys, see `CredentialAction`; `secret` is for a new key, if one is made.

        A store without master keys first gets an active one, for every step. FORGET also forgets the tickets that
        have expired at `now`; forgotten data is in no file of the store.
        """

    async def redeemed(self) -> int:
        """Return the number of tickets that are redeemed and not forgotten."""

    async def revoke(self, devices: Collection[bytes]) -> None:
        """Revoke these devices."""
