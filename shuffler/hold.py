"""Hold: what a round's store does, and its SQLite form. What it has answered is on disk.

Ids are looked up in memory (`ids`), rebuilt at start: a unique index on random 16-byte ids would hold the writer at
about 31,000 rows a second, as many as two cores open. A commit appends one block per round instead of one row per
submission: ids with digests in `known`, inner envelopes in `arrived`. `arrived` is deleted when its permuted lists are
stored, `known` serves retries until the round is erased.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task import Close
from hubbub.service.stages import Observe, unobserved
from hubbub.shuffler import tables
from hubbub.shuffler.budget import check_ledgers
from hubbub.shuffler.database import Database
from hubbub.shuffler.keys import RoundKeys
from hubbub.shuffler.mix import Inners
from hubbub.shuffler.records import FINAL, Charge, Held, Opened, Round, StoredBatch, StoreError
from hubbub.shuffler.unit import RETRIED, Tally, Unit, View
from hubbub.shuffler.writer import Writer

T = TypeVar("T")


class Store(Protocol):
    """What the stages need of a store. Every coroutine raises `StoreError` where it could not, and did nothing then."""

    def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round as it stands on disk."""

    def rounds(self) -> list[Round]:
        """Return all rounds, oldest first."""

    def known(self, round_: Round, submission_id: bytes) -> bytes | None:
        """Return the digest of the submission that is held under an id."""

    def submissions(self, round_: Round) -> int:
        """Return how many submissions were acknowledged."""

    def tally(self, task_id: bytes, number: int) -> Mapping[str, int]:
        """Return refusals by reason, and retries, of a round (or of a task, with number -1)."""

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals, to be written with the next commit: a kill loses at most those since the last one."""

    async def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round, or return it as it stands."""

    async def install(self, round_: Round, keys: RoundKeys) -> Round:
        """Give a round its keys, once and for all."""

    async def hold(self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0) -> list[Held]:
        """Hold submissions, each by itself; count what is not new, and those that did not open."""

    async def cut(self, round_: Round, closed_by: Close, minimum: int) -> Round:
        """Take no more submissions; by the operator only from `minimum` on."""

    def charges(self, task_id: bytes) -> Sequence[Charge]:
        """Return a task's ledger, oldest charge first."""

    async def mix(self, round_: Round, work: Callable[[Inners], None], charges: Sequence[Charge] = ()) -> Round:
        """Store permuted lists, charge for them, delete what they came from, in one transaction; destroy the key."""

    async def batches(self, round_: Round) -> list[StoredBatch]:
        """Return a mixed round's batches, by query."""

    async def envelopes(self, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
        """Return a stretch of a permuted list from `offset` on, as many as one block holds; empty at the end.

        Each envelope has `width` bytes.
        """

    async def commit_batch(self, round_: Round, query: int) -> Round:
        """Note that the analyzer committed a batch; with the last one the round is RELEASED."""

    async def erase(self, round_: Round, final: RoundState, reason: str = "") -> Round:
        """Erase everything but numbers and signed records, and only then say so, with the reason."""


class SqliteStore:
    """The store in one SQLite file."""

    def __init__(
        self,
        folder: Path,
        observe: Observe = unobserved,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        writer: type[Writer[Unit]] = Writer,
    ) -> None:
        """Open or make the store in `folder`; `observe` is told how many seconds each transaction took.

        `connection` is the class of the connections to the file, `writer` that of what writes through them.

        Raises:
            StoreError: where another process uses it, or another version wrote it; then nothing was touched. Also where
                a task's ledger does not hold.
        """
        self._database = Database(folder, connection)
        self._view = View()
        try:
            tables.load(self._database.writer, self._view)
            check_ledgers(self._view.charges, tables.batches_by_round(self._database.writer))
        except StoreError:
            self._database.close()
            raise
        self._reading = threading.Lock()
        self._counting: asyncio.Future[None] | None = None
        self._writer = writer(self._database.writer, lambda: Unit(self._database.writer, self._view), observe)

    @property
    def waiting(self) -> int:
        """How many jobs wait for the thread that writes."""
        return self._writer.waiting

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._writer.close()
        self._database.close()

    def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round as it stands on disk."""
        return self._view.rounds.get((task_id, number))

    def rounds(self) -> list[Round]:
        """Return all rounds, oldest first."""
        return sorted(self._view.rounds.values(), key=lambda round_: round_.key)

    def known(self, round_: Round, submission_id: bytes) -> bytes | None:
        """Return the digest of the submission that is held under an id."""
        return self._view.ids(round_.key).get(submission_id)

    def submissions(self, round_: Round) -> int:
        """Return how many submissions were acknowledged."""
        current = self._view.rounds[round_.task_id, round_.number]
        if current.state is RoundState.OPEN:
            return len(self._view.ids(round_.key))
        return current.submissions

    def tally(self, task_id: bytes, number: int) -> Mapping[str, int]:
        """Return refusals by reason, and retries, of a round (or of a task, with number -1)."""
        return self._view.tally((task_id, number))

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals, to be written with the next commit: a kill loses at most those since the last one."""
        self._view.add_pending({(task_id, number): Counter(names)})
        self._write_counts()

    def _write_counts(self) -> None:
        """Have a transaction begun for the counts, if none is on its way: all that wait go into the next one."""
        if self._counting is None or self._counting.done():
            self._counting = self._writer.submit(lambda _unit: None)
            self._counting.add_done_callback(self._counted)

    def _counted(self, counting: asyncio.Future[None]) -> None:
        """Write what was counted meanwhile; after a failure it waits for the next transaction."""
        if counting.exception() is None and self._view.pending:
            with contextlib.suppress(StoreError):
                self._write_counts()

    async def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round, or return it as it stands."""

        def work(unit: Unit) -> Round:
            return unit.find(task_id, number) or unit.add_round(task_id, number)

        return await self._writer.submit(work)

    async def install(self, round_: Round, keys: RoundKeys) -> Round:
        """Give a round its keys, once and for all."""

        def work(unit: Unit) -> Round:
            current = unit.current(round_)
            if current.keys is not None or current.state is not RoundState.OPEN:
                return current
            return unit.write_keys(replace(current, keys=keys))

        return await self._writer.submit(work)

    async def hold(self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0) -> list[Held]:
        """Hold submissions, each by itself; count what is not new, and those that did not open."""

        def work(unit: Unit) -> list[Held]:
            outcomes = unit.hold(round_, submissions)
            unit.count(round_, _tally(outcomes, unopenable))
            return outcomes

        return await self._writer.submit(work)

    async def cut(self, round_: Round, closed_by: Close, minimum: int) -> Round:
        """Take no more submissions; by the operator only from `minimum` on.

        Raises:
            Refusal: BELOW_MINIMUM where the operator would cut under the minimum.
        """

        def work(unit: Unit) -> Round:
            current = unit.current(round_)
            if current.state is not RoundState.OPEN:
                return current
            held = unit.submissions(current)
            if closed_by == "operator" and held < minimum:
                raise Refusal(
                    Reason.BELOW_MINIMUM,
                    f"round {round_.number} holds {held} submissions, the minimum is {minimum}; wait for more of them",
                )
            refusals = {name: count for name, count in unit.tally(current).items() if name != RETRIED}
            cut = replace(current, state=RoundState.CUT, submissions=held, closed_by=closed_by)
            return unit.write_cut(replace(cut, refusals_at_cut=refusals))

        return await self._writer.submit(work)

    def charges(self, task_id: bytes) -> Sequence[Charge]:
        """Return a task's ledger, oldest charge first."""
        return self._view.charges.get(task_id, [])

    async def mix(self, round_: Round, work: Callable[[Inners], None], charges: Sequence[Charge] = ()) -> Round:
        """Store permuted lists, charge for them, delete what they came from, in one transaction; destroy the key."""

        def job(unit: Unit) -> Round:
            current = unit.current(round_)
            if current.state is RoundState.CUT:
                work(tables.RoundTables(self._database.writer, current, self._database.path.parent))
                unit.charge(current, charges)
                current = unit.write_mixed(current)
            return current

        mixed = await self._writer.submit(job, alone=True)
        await self._writer.submit_bare(lambda _unit: self._database.cut_log())
        return mixed

    async def batches(self, round_: Round) -> list[StoredBatch]:
        """Return a mixed round's batches, by query."""
        return await asyncio.to_thread(self._read, lambda: tables.batches(self._database.reader, round_))

    async def envelopes(self, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
        """Return a stretch of a permuted list from `offset` on, as many as one block holds; empty at the end."""
        return await asyncio.to_thread(
            self._read, lambda: tables.envelopes(self._database.reader, round_, query, offset, width)
        )

    def _read(self, work: Callable[[], T]) -> T:
        with self._reading:
            return work()

    async def commit_batch(self, round_: Round, query: int) -> Round:
        """Note that the analyzer committed a batch; with the last one the round is RELEASED."""
        return await self._writer.submit(lambda unit: unit.commit_batch(unit.current(round_), query))

    async def erase(self, round_: Round, final: RoundState, reason: str = "") -> Round:
        """Erase everything but numbers and signed records, and only then say so, with the reason.

        Deleting, writing the file anew, cutting the log and saying so are steps: a kill in between leaves the earlier
        state, and all are done again.
        """
        await self._writer.submit(lambda unit: unit.delete_contents(unit.current(round_)), alone=True)
        while await self._writer.submit_bare(lambda _unit: self._database.shrink()):
            pass
        await self._writer.submit_bare(lambda _unit: self._database.rewrite())
        await self._writer.submit_bare(lambda _unit: self._database.cut_log())

        def work(unit: Unit) -> Round:
            current = unit.current(round_)
            if current.state in FINAL:
                return current
            return unit.write_state(replace(current, state=final, reason=reason))

        return await self._writer.submit(work)


def _tally(outcomes: Sequence[Held], unopenable: int) -> Tally:
    names = {Held.SAME: RETRIED, Held.CONFLICT: Reason.ID_CONFLICT.value, Held.CUT: Reason.TOO_LATE.value}
    tally = Counter(names[outcome] for outcome in outcomes if outcome is not Held.NEW)
    tally[Reason.UNOPENABLE.value] += unopenable
    return +tally
