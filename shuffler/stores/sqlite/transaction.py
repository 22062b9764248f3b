"""Gathers the changes of a transaction's jobs, and applies them to the snapshot after the commit."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hubbub.protos.messages import RoundState
from hubbub.service.ledger.charges import Charge, Charges, check_follows
from hubbub.service.sqlite.ledger_table import insert_charges
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.records import InsertOutcome, Opened, Round, RoundId, Tally, is_over
from hubbub.shuffler.stores.sqlite import tables
from hubbub.shuffler.stores.sqlite.id_index import IdIndex
from hubbub.shuffler.stores.sqlite.snapshot import Snapshot, add_counts


class StoreTransaction:
    """One transaction on `connection`. Only the writer's thread uses it."""

    def __init__(self, connection: sqlite3.Connection, snapshot: Snapshot) -> None:
        self._connection = connection
        self._snapshot = snapshot
        self._rounds: dict[RoundId, Round] = {}
        self._fresh: dict[int, dict[bytes, bytes]] = {}
        self._inners: dict[int, list[bytes]] = {}
        self._counts: dict[RoundId, Tally] = {}
        self._taken: dict[RoundId, Tally] = {}
        self._charges: dict[bytes, list[Charge]] = {}
        self._unswept: set[int] = set()

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection for a job's writes that do not change a round."""
        return self._connection

    # The stored state, with this transaction's changes

    def find(self, task_id: bytes, number: int) -> Round | None:
        """Return a round."""
        return self._rounds.get((task_id, number)) or self._snapshot.rounds.get((task_id, number))

    def current(self, round_: Round) -> Round:
        """Return a round as it is now."""
        return self.find(round_.task_id, round_.number) or round_

    def submissions(self, round_: Round) -> int:
        """Return how many submissions are stored."""
        return len(self._snapshot.ids(round_.key)) + len(self._fresh.get(round_.key, {}))

    def tally(self, round_: Round) -> Tally:
        """Return all counts of a round."""
        self._take()
        key = (round_.task_id, round_.number)
        parts = (self._snapshot.tallies, self._counts, self._taken)
        return sum((part.get(key, Counter()) for part in parts), Counter())

    # Changes

    def count(self, round_: Round, tally: Tally) -> None:
        """Count for a round."""
        if tally:
            self._counts.setdefault((round_.task_id, round_.number), Counter()).update(tally)

    def insert(self, round_: Round, submissions: Sequence[Opened], most: int | None = None) -> list[InsertOutcome]:
        """Gather new submissions, up to `most` of the round, and return the outcome of each."""
        is_open = self.current(round_).state is RoundState.OPEN
        known = self._snapshot.ids(round_.key)
        fresh = self._fresh.setdefault(round_.key, {})
        inners = self._inners.setdefault(round_.key, [])
        room = math.inf if most is None else most - len(known) - len(fresh)
        outcomes, new = [], InsertOutcome.STORED
        digests = known.find([submission.id for submission in submissions])
        for submission, held in zip(submissions, digests, strict=True):
            # Known ids come first, so that a retry after the cut still gets its receipt. `fresh` is read too: one
            # transaction may have two copies.
            digest = held or fresh.get(submission.id)
            if digest is not None:
                outcomes.append(InsertOutcome.DUPLICATE if digest == submission.digest else InsertOutcome.CONFLICT)
            elif not is_open:
                outcomes.append(InsertOutcome.CUT)
            elif room <= 0:
                outcomes.append(InsertOutcome.FULL)
            else:
                fresh[submission.id] = submission.digest
                inners.append(submission.inners)
                outcomes.append(new)
                room -= 1
        return outcomes

    def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round."""
        key = tables.insert_round(self._connection, task_id, number)
        return self._note(Round(key, task_id, number, RoundState.OPEN))

    def write_keys(self, round_: Round) -> Round:
        """Write a round's keys."""
        tables.update_keys(self._connection, round_)
        return self._note(round_)

    def write_cut(self, round_: Round) -> Round:
        """Write a cut round."""
        tables.update_cut(self._connection, round_)
        return self._note(round_)

    def write_state(self, round_: Round) -> Round:
        """Write a round's state."""
        tables.update_state(self._connection, round_)
        return self._note(round_)

    def write_mixed(self, round_: Round) -> Round:
        """Destroy the private key; the round is MIXED, and the sources of its lists must be swept."""
        self._unswept.add(round_.key)
        return self.write_state(_without_private_key(replace(round_, state=RoundState.MIXED)))

    def check_charges(self, round_: Round, charges: Charges) -> None:
        """Return only if charges follow those of the round's task.

        Raises:
            LedgerMoved: if they do not; the job may fail alone then, as long as it has written nothing.
        """
        known = len(self._snapshot.charges.get(round_.task_id, ())) + len(self._charges.get(round_.task_id, ()))
        check_follows(known, charges)

    def charge(self, round_: Round, charges: Charges) -> None:
        """Add to the ledger of the round's task."""
        insert_charges(self._connection, round_.task_id, charges)
        self._charges.setdefault(round_.task_id, []).extend(charges)

    def commit_batch(self, round_: Round, query: int) -> Round:
        """Record a committed batch; with the last one the round is RELEASED."""
        left = tables.commit_batch(self._connection, round_, query)
        if left or round_.state is not RoundState.MIXED:
            return round_
        return self.write_state(replace(round_, state=RoundState.RELEASED))

    def destroy_keys(self, round_: Round) -> Round:
        """Destroy the round's secret keys, before its data is deleted."""
        # Submissions that this transaction gathered for the round must not be written.
        self._fresh.pop(round_.key, None)
        self._inners.pop(round_.key, None)
        return self.write_state(_without_secrets(round_))

    def _note(self, round_: Round) -> Round:
        self._rounds[round_.task_id, round_.number] = round_
        return round_

    # Called by group commit

    def flush(self) -> None:
        """Write the gathered changes."""
        self._take()
        for key, fresh in self._fresh.items():
            if fresh:
                block = self._snapshot.next_block.get(key, 0)
                tables.insert_block(self._connection, key, block, fresh, self._inners[key])
        for counts in (self._counts, self._taken):
            tables.add_tallies(self._connection, counts)

    def settle(self) -> None:
        """Apply the written changes to the snapshot."""
        for key, fresh in self._fresh.items():
            if fresh:
                if key not in self._snapshot.known:  # `setdefault` would make a table, and its cipher, at every commit
                    self._snapshot.known[key] = IdIndex()
                self._snapshot.known[key].update(fresh)
                self._snapshot.next_block[key] = self._snapshot.next_block.get(key, 0) + 1
        self._snapshot.show_counts(self._counts, self._taken)
        for task_id, charges in self._charges.items():
            self._snapshot.charges[task_id] = [*self._snapshot.charges.get(task_id, ()), *charges]
        self._snapshot.rounds.update(self._rounds)
        self._snapshot.unswept.update(self._unswept)
        for round_ in self._rounds.values():
            if is_over(round_):
                # A round that is over answers no retries.
                self._snapshot.known.pop(round_.key, None)

    def abandon(self) -> None:
        """Return other callers' counts to the snapshot, and forget all other changes."""
        self._snapshot.put_back(self._taken)

    def _take(self) -> None:
        add_counts(self._taken, self._snapshot.take_pending())


def _without_private_key(round_: Round) -> Round:
    if round_.keys is None:
        return round_
    # Retries still need its pseudonyms until the round is erased.
    return replace(round_, keys=replace(round_.keys, private_key=b""))


def _without_secrets(round_: Round) -> Round:
    return replace(round_, keys=None if round_.keys is None else RoundKeyMaterial(b"", round_.keys.key_set))
