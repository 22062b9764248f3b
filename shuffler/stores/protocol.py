"""What the shuffler's stages need of a store, as a protocol; `sqlite/` is the store of one machine.

The contract, which `tests/contract/` holds every implementation to:

- *Durable.* What a coroutine returned is on disk: it is there after the process, or the machine, died at any moment.
- *Whole or not at all.* A coroutine that raised `StoreError`, or never returned, has done all of it or nothing.
- *Idempotent.* Every change may be asked for again, and answers as the first time where it was done then. So after a
  crash each step is simply done again.
- *Erased means gone.* What was erased is in no file of the store any more, nor in what a killed process leaves.

Nothing here assumes that one process has the truth: reads are coroutines, and what must hold together is one call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hubbub.protos.messages import CredentialAction, RoundState
from hubbub.protos.records.release_chain import Release
from hubbub.protos.task.task import Close
from hubbub.service.ledger.charges import Charges
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, MasterSecret, Opened, RedeemedTicket, Revoked, Round, StoredBatch


class IngestStore(Protocol):
    """The part of a store that devices are answered with; a front end has this one alone.

    Every coroutine raises `StoreError` where it could not, and did nothing then. A `Round` that is handed in says which
    round is meant; what is decided is decided by the round as it is stored.
    """

    @property
    def waiting(self) -> int:
        """How many writes wait; for the metrics."""

    async def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round as it is on disk; None if it was never begun."""

    async def known(self, round_: Round, ids: Sequence[bytes]) -> list[bytes | None]:
        """Return for each submission id the digest of what is held under it, None if nothing is.

        One call for many ids: this is asked of every submission before any work is put into it.
        """

    async def submissions(self, round_: Round) -> int:
        """Return how many submissions of a round were acknowledged."""

    # Counting

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals, to be written soon; a kill loses at most those since the last commit.

        Returns at once, and promises nothing to anyone: a refusal need not wait for the disk. Counts of a round that
        was never begun are the task's (`ANY_ROUND`); those of no task that is known have an empty id.
        """

    async def insert(
        self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0, most: int | None = None
    ) -> list[InsertOutcome]:
        """Hold submissions, each by itself, and say of each what became of it, in order.

        The first under an id is held (NEW) while the round is OPEN and holds fewer than `most`, where that is given;
        beyond, it is FULL. The same bytes again are a retry (SAME), whenever they come; other bytes are a CONFLICT. In
        the same transaction, what is not new is counted, and `unopenable` more that did not open.
        """

    async def masters(self) -> list[MasterSecret]:
        """Return the master keys, oldest first."""

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Note tickets as redeemed, those that are not yet; return what is then known of each device, in order."""

    async def revoked(self) -> Revoked:
        """Return who is admitted no more."""

    def close(self) -> None:
        """Write what waits, and let the files go. Blocks. Later calls raise `StoreError`."""


class ShufflerStore(IngestStore, Protocol):
    """What the stages need of a store. Every coroutine raises `StoreError` where it could not, and did nothing then.

    A `Round` that is handed in says which round is meant; what is decided is decided by the round as it is stored.
    """

    @property
    def folder(self) -> Path:
        """Where files without names may lie for a while, that are too large for memory."""

    # Reading

    async def rounds(self) -> list[Round]:
        """Return all rounds, in the order in which they were begun."""

    async def tally(self, task_id: bytes, number: int) -> Mapping[str, int]:
        """Return refusals by reason, and retries, of a round (or of a task, with number `ANY_ROUND`)."""

    async def charges(self, task_id: bytes) -> Charges:
        """Return a task's ledger, oldest charge first."""

    async def releases(self, task_id: bytes) -> Sequence[Release]:
        """Return a task's releases, the first of them first; none of a task whose records state no position."""

    # A round's life

    async def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round, OPEN and without keys; return it as it is where it was begun before."""

    async def install(self, round_: Round, keys: RoundKeyMaterial) -> Round:
        """Give an OPEN round its keys; return the round with the keys that it has from now on, which may be others.

        A round has one key set for good: the first that is installed.
        """

    async def cut(self, round_: Round, closed_by: Close, minimum: int) -> Round:
        """Take no more submissions. Fixes the numbers of submissions and refusals; a later cut changes nothing.

        Nothing is held after the cut: what was acknowledged is in its number, and nothing else is.

        Raises:
            Refusal: BELOW_MINIMUM where the operator would cut under the minimum; the round stays OPEN.
        """

    async def mix(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges = ()) -> Round:
        """Make a CUT round MIXED: store the permuted lists that `work` makes, and charge for them.

        State, charges, records and release are stored, and the private key is destroyed, in one transaction: a round is
        charged when there is something to deliver, and never mixed twice, by whose two orders its reports could be told
        apart. What the lists came from is deleted with that or right after it: it tells the order of arrival, so it is
        gone before this returns, and where that failed or the process was killed, before `batches` gives any. Before
        the transaction lists may be stored in part; a round that is not MIXED has none, whatever lies there.

        `work` runs in a thread, reads what arrived, and may be called again where it has to be begun anew: it draws its
        permutation each time. The position among the task's releases that it is told is the one that it stores at.
        A round that is MIXED already stays as it is, and is not charged again.

        Raises:
            LedgerMoved: where the charges do not follow the task's last; nothing was done.
        """

    async def batches(self, round_: Round) -> list[StoredBatch]:
        """Return a mixed round's batches, in the task's order of queries, once nothing is left of what arrived."""

    async def envelopes(self, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
        """Return a chunk of a permuted list from `offset` on, as many as one block holds; empty at the end."""

    async def commit_batch(self, round_: Round, query: int) -> Round:
        """Note that the analyzer committed a batch; with the last one the round is RELEASED."""

    async def erase(self, round_: Round, final: RoundState, reason: str = "") -> Round:
        """Erase everything of a round but numbers and signed records, and only then say so, with the reason.

        Until it says so, the round is in its earlier state and all of this is done again.
        """

    # What devices are admitted with

    async def step_masters(self, step: CredentialAction, secret: bytes, now: int) -> None:
        """PREPARE, ACTIVATE or FORGET master keys, as `CredentialAction` says; `secret` is a new one's, if one is made.

        A store without any gets an active one first, whatever the step. FORGET forgets besides what is known of
        tickets that have expired at `now`; what was forgotten is in no file of the store any more.
        """

    async def redeemed(self) -> int:
        """Return how many tickets were redeemed, and not forgotten."""

    async def revoke(self, devices: Collection[bytes]) -> None:
        """Admit these devices no more."""
