"""Stores submissions of many calls in one transaction, while other processes store the same ids.

A transaction that stores in a round shares the round's lock, and a cut takes it exclusively: so nothing is stored after
the cut. Ids are inserted first, in one order for every process, and the table's primary key decides between processes:
the second one waits for the first one's commit. Only then is the round's number of submissions raised. All writers of
the round wait for that one row, as long as a commit takes. If other processes made the round full meanwhile, the
transaction is rolled back. If a round may become full, the lock is taken exclusively, so that the number is known
beforehand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason
from hubbub.service.errors import StoreError
from hubbub.service.postgres.sessions import Connection, lock
from hubbub.shuffler.records import RETRIED, InsertOutcome, Opened, Round, RoundId, Tally, is_over
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.sealing import RoundCipher
from hubbub.shuffler.stores.postgres.secrets import SecretsOf

ROUND_LOCK = "round"
"""The kind of lock that transactions that store in a round share, and that a cut or an erasure takes exclusively."""

_BLOCK_ID_BYTES = 16


@dataclass(frozen=True)
class PendingInsert:
    """The submissions that one call asks to store: see `IngestStore.insert`."""

    round: Round
    submissions: Sequence[Opened] = field(repr=False)
    unopenable: int = 0
    most: int | None = None


class NearlyFullError(Exception):
    """A round may become full: the transaction must be repeated with the locks taken exclusively."""


def insert(
    connection: Connection, secrets: SecretsOf, calls: Sequence[PendingInsert], *, alone: bool = False
) -> list[list[InsertOutcome]]:
    """Store the submissions of calls, those of a round in order; return the outcome of each, and count the outcomes.

    Raises:
        NearlyFullError: if a round may become full and its lock is not taken `alone`; the transaction is rolled back.
    """
    by_round: dict[int, list[int]] = {}
    for place, call in enumerate(calls):
        by_round.setdefault(call.round.key, []).append(place)
    outcomes: list[list[InsertOutcome]] = [[] for _ in calls]
    counts: dict[RoundId, Tally] = {}
    # In one order for every process, to avoid deadlocks.
    for key in sorted(by_round):
        of_round = [calls[place] for place in by_round[key]]
        for place, found in zip(by_round[key], _insert_in(connection, secrets, of_round, alone), strict=True):
            outcomes[place] = found
            round_ = calls[place].round
            counts.setdefault((round_.task_id, round_.number), Counter()).update(_tally(found, calls[place].unopenable))
    tables.add_tallies(connection, counts)
    return outcomes


def _tally(outcomes: Sequence[InsertOutcome], unopenable: int) -> Tally:
    names = {
        InsertOutcome.DUPLICATE: RETRIED,
        InsertOutcome.CONFLICT: Reason.ID_CONFLICT.value,
        InsertOutcome.CUT: Reason.TOO_LATE.value,
        InsertOutcome.FULL: Reason.ROUND_FULL.value,
    }
    tally = Counter(names[outcome] for outcome in outcomes if outcome is not InsertOutcome.STORED)
    tally[Reason.UNOPENABLE.value] += unopenable
    return +tally


def _insert_in(
    connection: Connection, secrets: SecretsOf, calls: Sequence[PendingInsert], alone: bool
) -> list[list[InsertOutcome]]:
    round_ = calls[0].round
    lock(connection, ROUND_LOCK, str(round_.key), shared=not alone)
    current, held = _current(connection, round_)
    cipher = secrets.of((round_.task_id, round_.number)).cipher
    if is_over(current) or cipher is None:
        # Its ids are gone, so retries and new submissions cannot be distinguished.
        return [[InsertOutcome.CUT] * len(call.submissions) for call in calls]
    work = _Insertion(connection, current, cipher, held)
    if alone or current.state is not RoundState.OPEN:
        return [work.alone(call) for call in calls]
    asked = sum(len(call.submissions) for call in calls)
    if any(call.most is not None and held + asked > call.most for call in calls):
        # The number must not change from here to the commit. A process must not upgrade a shared lock: two that do so
        # would deadlock.
        raise NearlyFullError
    return work.concurrently(calls)


def _current(connection: Connection, round_: Round) -> tuple[Round, int]:
    current = tables.find(connection, round_.task_id, round_.number)
    if current is None:
        raise StoreError(
            f"the database has no round {round_.number} of task {round_.task_id.hex()}; it may be an old copy: "
            "restore the newest copy"
        )
    return current, tables.held(connection, current)


class _Insertion:
    """Submissions of one round, in a transaction that has the round's lock."""

    def __init__(self, connection: Connection, round_: Round, cipher: RoundCipher, held: int) -> None:
        self._connection = connection
        self._round = round_
        self._cipher = cipher
        self._held = held
        self._stored: dict[bytes, bytes] = {}

    def concurrently(self, calls: Sequence[PendingInsert]) -> list[list[InsertOutcome]]:
        """Store in an open round with enough room, while others do too: every id that can be inserted is new."""
        first = self._firsts(calls)
        fresh = self._insert(first)
        known = {stored: digest for stored, (_, digest, _) in first.items()}
        known.update(self.known([stored for stored in first if stored not in fresh]))
        limits = [call.most for call in calls if call.most is not None]
        self._append([first[stored][2] for stored in first if stored in fresh])
        # Others with the shared lock may have stored since the number was read; from here on nobody else changes it.
        if limits and self._held > min(limits):
            raise NearlyFullError
        return [[self._outcome(each, known, fresh) for each in call.submissions] for call in calls]

    def alone(self, call: PendingInsert) -> list[InsertOutcome]:
        """Store in a round whose number nobody else changes: known ids first, then as many as have room."""
        first = self._firsts([call])
        known = self.known(list(first))
        room = len(first) if call.most is None else max(0, call.most - self._held)
        unknown = [stored for stored in first if stored not in known]
        chosen = {stored: first[stored] for stored in (unknown[:room] if self._round.state is RoundState.OPEN else ())}
        fresh = self._insert(chosen)
        if len(fresh) != len(chosen):
            raise StoreError("another process stored in a round whose lock was taken; the transaction is repeated")
        self._append([inners for _, _, inners in chosen.values()])
        known.update({stored: digest for stored, (_, digest, _) in chosen.items()})
        return [self._outcome(each, known, fresh) for each in call.submissions]

    def known(self, stored: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the digests of those ids that are stored."""
        if not stored:
            return {}
        found = tables.digests(self._connection, self._round, stored)
        return {each: self._cipher.open_digest(each, sealed) for each, sealed in found.items()}

    def _firsts(self, calls: Sequence[PendingInsert]) -> dict[bytes, tuple[bytes, bytes, bytes]]:
        """Return the first submission under each id: its sealed digest, its digest, its inner envelopes."""
        first: dict[bytes, tuple[bytes, bytes, bytes]] = {}
        for call in calls:
            for each in call.submissions:
                stored = self._stored[each.id] = self._cipher.id(each.id)
                if stored not in first:
                    first[stored] = (self._cipher.seal_digest(stored, each.digest), each.digest, each.inners)
        return first

    def _insert(self, chosen: Mapping[bytes, tuple[bytes, bytes, bytes]]) -> set[bytes]:
        """Insert ids that are not stored yet; return them."""
        if not chosen:
            return set()
        ids = sorted(chosen)
        statement = tables.of_round(
            "INSERT INTO {ids} (id, digest) SELECT * FROM unnest(%s::bytea[], %s::bytea[]) "
            "ON CONFLICT DO NOTHING RETURNING id",
            self._round.key,
        )
        rows = self._connection.execute(statement, (ids, [chosen[stored][0] for stored in ids])).fetchall()
        return {stored for (stored,) in rows}

    def _append(self, inners: Sequence[bytes]) -> None:
        if not inners:
            return
        block = os.urandom(_BLOCK_ID_BYTES)
        statement = tables.of_round("INSERT INTO {arrived} (block, inners) VALUES (%s, %s)", self._round.key)
        self._connection.execute(statement, (block, self._cipher.seal_arrived(block, b"".join(inners))))
        # Last, since every writer of the round waits for this row until the commit.
        number = "UPDATE round SET held = held + %s WHERE key = %s RETURNING held"
        row = self._connection.execute(number, (len(inners), self._round.key)).fetchone()
        self._held = self._held + len(inners) if row is None else int(row[0])

    def _outcome(self, each: Opened, known: Mapping[bytes, bytes], fresh: set[bytes]) -> InsertOutcome:
        """Return the outcome of a submission; the first of each `fresh` id is removed from that set."""
        stored = self._stored[each.id]
        if stored in fresh:
            fresh.discard(stored)
            return InsertOutcome.STORED
        digest = known.get(stored)
        if digest is None:
            return InsertOutcome.FULL if self._round.state is RoundState.OPEN else InsertOutcome.CUT
        return InsertOutcome.DUPLICATE if digest == each.digest else InsertOutcome.CONFLICT
