"""Submissions of many calls in one transaction, while other processes do the same with the same ids.

Whoever holds in a round shares its lock, and whoever cuts it takes it alone: so nothing is held after the cut. Ids are
inserted first, in one order for everybody, and the table's primary key decides between processes: who comes second
waits for the first one's commit. Only then is the round's number of submissions raised, which is the one row that all
who hold wait for, as long as a commit takes; where it turns out that others made the round full meanwhile, all of it
is taken back. Where the round may become full, the lock is taken alone, so that the number is known beforehand.
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
"""The kind of lock that whoever holds in a round shares, and whoever cuts or erases it takes alone."""

_BLOCK_ID_BYTES = 16


@dataclass(frozen=True)
class PendingInsert:
    """What one call asks to be held: see `IngestStore.insert`."""

    round: Round
    submissions: Sequence[Opened] = field(repr=False)
    unopenable: int = 0
    most: int | None = None


class NearlyFullError(Exception):
    """A round may become full: all of it is to be done again with the locks taken alone."""


def insert(
    connection: Connection, secrets: SecretsOf, calls: Sequence[PendingInsert], *, alone: bool = False
) -> list[list[InsertOutcome]]:
    """Hold what calls ask for, those of a round in order; say of each submission what became of it, and count that.

    Raises:
        NearlyFullError: if a round may become full and its lock is not held `alone`; the transaction is taken back.
    """
    by_round: dict[int, list[int]] = {}
    for place, call in enumerate(calls):
        by_round.setdefault(call.round.key, []).append(place)
    outcomes: list[list[InsertOutcome]] = [[] for _ in calls]
    counts: dict[RoundId, Tally] = {}
    # In one order for everybody, so that nobody waits in a circle.
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
        # Its ids are gone, so a retry is not told from what is new.
        return [[InsertOutcome.CUT] * len(call.submissions) for call in calls]
    work = _Insertion(connection, current, cipher, held)
    if alone or current.state is not RoundState.OPEN:
        return [work.alone(call) for call in calls]
    asked = sum(len(call.submissions) for call in calls)
    if any(call.most is not None and held + asked > call.most for call in calls):
        # The number must not change from here to the commit. Whoever shares a lock must not wait for it alone: two who
        # do would wait for each other.
        raise NearlyFullError
    return work.concurrently(calls)


def _current(connection: Connection, round_: Round) -> tuple[Round, int]:
    current = tables.find(connection, round_.task_id, round_.number)
    if current is None:
        raise StoreError(
            f"the database has no round {round_.number} of task {round_.task_id.hex()}; is it an old copy?"
        )
    return current, tables.held(connection, current)


class _Insertion:
    """Submissions of one round, in a transaction that has its lock."""

    def __init__(self, connection: Connection, round_: Round, cipher: RoundCipher, held: int) -> None:
        self._connection = connection
        self._round = round_
        self._cipher = cipher
        self._held = held
        self._stored: dict[bytes, bytes] = {}

    def concurrently(self, calls: Sequence[PendingInsert]) -> list[list[InsertOutcome]]:
        """Hold in an open round with room enough, while others do, too: what could be inserted is new."""
        first = self._firsts(calls)
        fresh = self._insert(first)
        known = {stored: digest for stored, (_, digest, _) in first.items()}
        known.update(self.known([stored for stored in first if stored not in fresh]))
        limits = [call.most for call in calls if call.most is not None]
        self._append([first[stored][2] for stored in first if stored in fresh])
        # Others who shared the lock may have held since the number was read; only now nobody else changes it.
        if limits and self._held > min(limits):
            raise NearlyFullError
        return [[self._outcome(each, known, fresh) for each in call.submissions] for call in calls]

    def alone(self, call: PendingInsert) -> list[InsertOutcome]:
        """Hold in any round whose number nobody else changes: known ids first, then what has room."""
        first = self._firsts([call])
        known = self.known(list(first))
        room = len(first) if call.most is None else max(0, call.most - self._held)
        unknown = [stored for stored in first if stored not in known]
        chosen = {stored: first[stored] for stored in (unknown[:room] if self._round.state is RoundState.OPEN else ())}
        fresh = self._insert(chosen)
        if len(fresh) != len(chosen):
            raise StoreError("somebody else held in a round whose lock was held; it is tried again")
        self._append([inners for _, _, inners in chosen.values()])
        known.update({stored: digest for stored, (_, digest, _) in chosen.items()})
        return [self._outcome(each, known, fresh) for each in call.submissions]

    def known(self, stored: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the digests of those ids that are held."""
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
        """Insert ids that are not held yet; return which."""
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
        # Last, as everybody who holds in the round waits for this row until the commit.
        number = "UPDATE round SET held = held + %s WHERE key = %s RETURNING held"
        row = self._connection.execute(number, (len(inners), self._round.key)).fetchone()
        self._held = self._held + len(inners) if row is None else int(row[0])

    def _outcome(self, each: Opened, known: Mapping[bytes, bytes], fresh: set[bytes]) -> InsertOutcome:
        """Say what became of a submission; the first of each that is `fresh` is taken out of it."""
        stored = self._stored[each.id]
        if stored in fresh:
            fresh.discard(stored)
            return InsertOutcome.STORED
        digest = known.get(stored)
        if digest is None:
            return InsertOutcome.FULL if self._round.state is RoundState.OPEN else InsertOutcome.CUT
        return InsertOutcome.DUPLICATE if digest == each.digest else InsertOutcome.CONFLICT
