"""The store in one SQLite file: what it acknowledged is on disk.

A commit appends one block per round instead of one row per submission: ids with digests in `known`, inner envelopes in
`arrived`. `arrived` is deleted when its permuted lists are stored; `known` serves retries until the round is erased.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hubbub.protos.errors import SignatureError
from hubbub.protos.messages import CredentialAction, KeyState, RoundState
from hubbub.protos.records.release_chain import Release
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import Close
from hubbub.service.errors import as_store_error, damaged
from hubbub.service.ledger.charges import Charges
from hubbub.service.ledger.ledgers import check_ledgers
from hubbub.service.ledger.release_chain import check_chains
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.sqlite.database import Database
from hubbub.service.sqlite.files import create, unusable
from hubbub.service.sqlite.group_commit import GroupCommit
from hubbub.service.sqlite.release_table import all_chains, releases_of
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import (
    ANY_ROUND,
    RETRIED,
    InsertOutcome,
    MasterSecret,
    Opened,
    RedeemedTicket,
    Revoked,
    Round,
    StoredBatch,
    StoreError,
    Tally,
    is_over,
)
from hubbub.shuffler.stores.sqlite import enrollment, tables
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME, LAYOUT
from hubbub.shuffler.stores.sqlite.staging import Mixer
from hubbub.shuffler.stores.sqlite.transaction import StoreTransaction

T = TypeVar("T")


class ShufflerSqliteStore:
    """The store (`shuffler.stores.protocol.ShufflerStore`) in a folder, for one process at a time."""

    @staticmethod
    def create(folder: Path) -> Path:
        """Create a store in `folder`, and return its file.

        Raises:
            StoreError: if there is a store already, or a part of one; then nothing was created.
        """
        return create(folder, FILE_NAME, LAYOUT)

    def __init__(
        self,
        folder: Path,
        observe: Observe = unobserved,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        commits: type[GroupCommit[StoreTransaction]] = GroupCommit,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the store in `folder`; `observe` gets the seconds of each transaction.

        `incidents` gets the disk's failures. `connection` is the class of the connections to the file, `commits` that
        of the object that writes through them.

        Raises:
            StoreError: if there is none, another process uses it, or another version wrote it; then nothing was created
                or changed. Also if a task's ledger or releases are not valid.
        """
        self._folder = folder
        self._database = Database(folder, FILE_NAME, LAYOUT, connection)
        try:
            # All checks come before `accept`, which truncates the log: a refused store stays as it was found.
            self._snapshot = tables.load(self._database.writer)
            writer = self._database.writer
            check_ledgers("shuffler", self._snapshot.charges, tables.batches_by_round(writer))
            check_chains("shuffler", all_chains(writer), tables.all_records(writer), own=True)
            self._database.accept()
        except StoreError:
            self._database.close()
            raise
        except (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, SignatureError) as error:
            self._database.close()
            path = self._database.path
            # A ValueError and the like: the rows exist, but with content that no version writes.
            raise (unusable(path, error) if isinstance(error, sqlite3.Error) else damaged(error, path)) from error
        self._reading = threading.Lock()
        self._counting: asyncio.Future[None] | None = None
        self._outcome = (incidents or Incidents()).of_store(self._database.path)
        self._failed = functools.partial(as_store_error, path=self._database.path)
        self._writer = commits(
            self._database.writer,
            lambda: StoreTransaction(self._database.writer, self._snapshot),
            observe=observe,
            failed=self._failed,
            outcome=self._outcome,
            committed=self._database.committed,
        )
        self._mixer = Mixer(self._writer, self._database, self._snapshot, self._read)

    @property
    def folder(self) -> Path:
        """The store's own folder."""
        return self._folder

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for the writing thread."""
        return self._writer.waiting

    def close(self) -> None:
        """Write waiting changes, and close the file."""
        # The writer first: it still writes what waits.
        self._writer.close()
        self._database.close()

    # Reading: the snapshot is in memory, and only this process changes the file

    async def find(self, task_id: bytes, number: int) -> Round | None:
        return self._snapshot.rounds.get((task_id, number))

    async def rounds(self) -> list[Round]:
        return sorted(self._snapshot.rounds.values(), key=lambda round_: round_.key)

    async def known(self, round_: Round, ids: Sequence[bytes]) -> list[bytes | None]:
        return self._snapshot.ids(round_.key).find(ids)

    async def submissions(self, round_: Round) -> int:
        current = self._snapshot.rounds[round_.task_id, round_.number]
        if current.state is RoundState.OPEN:
            return len(self._snapshot.ids(round_.key))
        return current.submissions

    async def tally(self, task_id: bytes, number: int) -> Mapping[str, int]:
        """Return refusals by reason, and retries, of a round (or of a task, with number -1)."""
        return self._snapshot.tally((task_id, number))

    async def charges(self, task_id: bytes) -> Charges:
        return self._snapshot.charges.get(task_id, [])

    async def releases(self, task_id: bytes) -> Sequence[Release]:
        """Return a task's releases, oldest first."""
        return await asyncio.to_thread(self._read, lambda: releases_of(self._database.reader, task_id))

    # Counting

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals, to be written with the next commit: a kill loses at most those since the last one."""
        # Only rounds that began have counts of their own: invented numbers must not fill the store.
        begun = (task_id, number) in self._snapshot.rounds
        self._snapshot.add_pending({(task_id, number if begun else ANY_ROUND): Counter(names)})
        self._write_counts()

    def _write_counts(self) -> None:
        """Start a transaction for the counts, unless one is in progress: the next one takes all that wait."""
        if self._counting is None or self._counting.done():
            self._counting = self._writer.submit(lambda _transaction: None)
            self._counting.add_done_callback(self._counted)

    def _counted(self, counting: asyncio.Future[None]) -> None:
        """Write the counts that came meanwhile; after a failure they wait for the next transaction."""
        if counting.exception() is None and self._snapshot.pending:
            with contextlib.suppress(StoreError):
                self._write_counts()

    # A round's life

    async def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round; a round that began already is returned unchanged."""

        def work(transaction: StoreTransaction) -> Round:
            return transaction.find(task_id, number) or transaction.add_round(task_id, number)

        return await self._writer.submit(work)

    async def install(self, round_: Round, keys: RoundKeyMaterial) -> Round:
        """Give a round its keys, for good."""

        def work(transaction: StoreTransaction) -> Round:
            current = transaction.current(round_)
            # Devices may have sealed for the first key set already, so a second one never replaces it.
            if current.keys is not None or current.state is not RoundState.OPEN:
                return current
            return transaction.write_keys(replace(current, keys=keys))

        return await self._writer.submit(work)

    async def insert(
        self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0, most: int | None = None
    ) -> list[InsertOutcome]:
        """Store submissions, each by itself; count those that are not new, and those that did not open."""

        def work(transaction: StoreTransaction) -> list[InsertOutcome]:
            outcomes = transaction.insert(round_, submissions, most)
            transaction.count(round_, _tally(outcomes, unopenable))
            return outcomes

        return await self._writer.submit(work)

    async def cut(self, round_: Round, closed_by: Close, minimum: int) -> Round:
        """Take no more submissions; by the operator only from `minimum` on.

        Raises:
            Refusal: BELOW_MINIMUM if the operator would cut under the minimum.
        """

        def work(transaction: StoreTransaction) -> Round:
            current = transaction.current(round_)
            if current.state is not RoundState.OPEN:
                return current
            held = transaction.submissions(current)
            if closed_by == "operator" and held < minimum:
                # Without the number: asked often enough, it would reveal when each person submits.
                fewer = f"round {round_.number} has fewer submissions than the minimum of {minimum}"
                raise Refusal(Reason.BELOW_MINIMUM, f"{fewer}; wait for more of them")
            refusals = {name: count for name, count in transaction.tally(current).items() if name != RETRIED}
            cut = replace(current, state=RoundState.CUT, submissions=held, closed_by=closed_by)
            return transaction.write_cut(replace(cut, refusals_at_cut=refusals))

        return await self._writer.submit(work)

    async def mix(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges = ()) -> Round:
        """Store permuted lists in steps, adopt them in one transaction, delete their sources in steps.

        See `shuffler.stores.sqlite.staging`.
        """
        return await self._mixer.mix(round_, work, charges)

    async def batches(self, round_: Round) -> list[StoredBatch]:
        """Return a mixed round's batches, in the task's order of queries, once their sources are deleted.

        A kill may have interrupted that deletion, so it is finished first.
        """
        await self._mixer.sweep(round_)
        return await asyncio.to_thread(self._read, lambda: tables.batches(self._database.reader, round_))

    async def envelopes(self, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
        return await asyncio.to_thread(
            self._read, lambda: tables.envelopes(self._database.reader, round_, query, offset, width)
        )

    def _read(self, work: Callable[[], T]) -> T:
        with self._reading:
            try:
                return work()
            except sqlite3.Error as error:
                self._outcome(error)
                raise self._failed(error) from error

    async def commit_batch(self, round_: Round, query: int) -> Round:
        return await self._writer.submit(
            lambda transaction: transaction.commit_batch(transaction.current(round_), query)
        )

    async def erase(self, round_: Round, final: RoundState, reason: str = "") -> Round:
        """Erase everything but numbers and signed records; only then set the final state and the reason.

        Deletion in pieces, rewriting the file, cutting the log and setting the state are steps. A kill in between
        leaves the earlier state, and all of them are repeated.
        """
        await self._writer.submit(lambda transaction: transaction.destroy_keys(transaction.current(round_)))
        for table in tables.CONTENTS:
            await self._mixer.delete(table, round_)
        while await self._writer.submit_bare(lambda _transaction: self._database.shrink()):
            pass
        await self._writer.submit_bare(lambda _transaction: self._database.rewrite())
        await self._writer.submit_bare(lambda _transaction: self._database.cut_log())

        def work(transaction: StoreTransaction) -> Round:
            current = transaction.current(round_)
            if is_over(current):
                return current
            return transaction.write_state(replace(current, state=final, reason=reason))

        return await self._writer.submit(work)

    # Enrollment

    async def masters(self) -> list[MasterSecret]:
        return await asyncio.to_thread(self._read, lambda: enrollment.masters(self._database.reader))

    async def step_masters(self, step: CredentialAction, secret: bytes, now: int) -> None:
        """Prepare, activate or forget master keys; the first is active from the start."""

        def work(transaction: StoreTransaction) -> None:
            if not enrollment.masters(transaction.connection):
                enrollment.add_master(transaction.connection, secret, KeyState.ACTIVE, now)
            elif step is CredentialAction.PREPARE:
                enrollment.add_master(transaction.connection, secret, KeyState.PENDING, now)
            elif step is CredentialAction.ACTIVATE:
                enrollment.activate(transaction.connection, now)
            elif step is CredentialAction.FORGET:
                enrollment.forget(transaction.connection, now)

        await self._writer.submit(work)
        if step is CredentialAction.FORGET:
            # The log still contains the destroyed key.
            await self._writer.submit_bare(lambda _transaction: self._database.cut_log())

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        return await self._writer.submit(lambda transaction: enrollment.redeem(transaction.connection, tickets))

    async def redeemed(self) -> int:
        return await asyncio.to_thread(self._read, lambda: enrollment.redeemed(self._database.reader))

    async def revoke(self, devices: Collection[bytes]) -> None:
        await self._writer.submit(lambda transaction: enrollment.revoke(transaction.connection, devices))

    async def revoked(self) -> Revoked:
        return await asyncio.to_thread(self._read, lambda: enrollment.revoked(self._database.reader))


def _tally(outcomes: Sequence[InsertOutcome], unopenable: int) -> Tally:
    if not unopenable and outcomes.count(InsertOutcome.STORED) == len(outcomes):
        return Counter()
    names = {
        InsertOutcome.DUPLICATE: RETRIED,
        InsertOutcome.CONFLICT: Reason.ID_CONFLICT.value,
        InsertOutcome.CUT: Reason.TOO_LATE.value,
        InsertOutcome.FULL: Reason.ROUND_FULL.value,
    }
    tally = Counter(names[outcome] for outcome in outcomes if outcome is not InsertOutcome.STORED)
    tally[Reason.UNOPENABLE.value] += unopenable
    return +tally
