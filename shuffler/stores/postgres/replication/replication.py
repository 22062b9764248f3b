"""The leader's side of keyring replication. No change is answered before every copy that may lead has it.

A keyring is never in the database, so every process that may take over has a copy of it. The database lists the copies
that may take over: the *members*, the leader's own among them. From four rules it follows that no answered change is
missing, and no destroyed key comes back, whichever process takes over, and whenever:

1. A change is answered only once all members have it on disk. A copy without it must first stop being a member, and the
   database must record this before the change is answered.
2. A copy that becomes a member has all changes by then, and from then on counts in the first rule. It counts before the
   database lists it, and goes on counting if it is unknown whether the database does.
3. The database records how many changes were answered, before they are. A copy with fewer is an old one, such as a
   folder that somebody copied or restored by hand, and never takes over although it has the name of a member.
4. A process that takes over is a member, by the database's list in the transaction that raises the term (`leadership`).
   An earlier leader's change of the list is committed before that, and then seen, or never.

A leader may be killed or cut off at any moment. Changes that it has and its copies lack were not answered; the next
leader repeats them, and all of them may be repeated. Changes that copies have and the next term does not use are keys
of rounds that no device was shown, or destroyed keys of a round that is erased again. A replaced leader cannot change
the list of members, as that takes a transaction in its term; so it answers no change that its copies lack. It comes
back as a standby, and copies everything anew.

Besides the leader, `needed` members must have a change. While fewer follow, no change is answered: no round begins, no
keys are shown, no ticket is redeemed, and no round is called erased. What adds to the keyring is refused before it is
written, so that no ticket is redeemed in vain. Rounds go on as far as they need no change.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from hubbub.protos.cluster import COPY_BYTES, FollowerPosition, KeyringChanges, KeyringRow
from hubbub.service.errors import StoreError, StoreFault
from hubbub.service.postgres.sessions import Connection, Sessions
from hubbub.service.postgres.threads import Threads
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.replication.secret_server import refused_for_now

AWAY_SECONDS = 5.0
"""How long a copy may be silent before the leader goes on without it, if it is not needed."""

WAIT_SECONDS = 8.0
"""How long a change waits for copies before it fails, to be repeated: less than the deadline of a call that asks for
it, so that the caller learns why."""

POLL_SECONDS = 1.0
"""How long a complete copy waits for a change before it asks again."""

MOST_COPIES = 16
"""Copies of which the leader takes note. Names are free to choose, so one caller could make up any number of them."""

_PART_ROWS = 100
"""Rows in one answer, each of at most three times 4 KiB."""

_LOG_CHANGES = 10_000
"""Changes that are kept for copies that are behind; a copy further behind copies everything anew."""

_LOG = structlog.get_logger(__name__)


class TooManyCopiesError(StoreError):
    """More copies ask than the leader takes note of, or one asks again while it waits for an answer."""

    fault = StoreFault.STANDBYS


class NotCopiedError(StoreError):
    """The keyring is new: it waits for a leader to copy, and nothing is wrong with it."""

    fault = StoreFault.STANDBYS


class StandbysAwayError(StoreError):
    """Fewer standbys have a change than `standbys` asks for. The change may be repeated."""

    fault = StoreFault.STANDBYS


@dataclass
class _FollowerProgress:
    """A copy: how many changes it has (-1: unknown), whether answers wait for it, and when it last asked.

    Answers wait for it even before the database lists it as a `member`; it counts as one of the needed copies only from
    then on.
    """

    seen: float
    counts: bool = False
    member: bool = False
    has: int = -1
    asks: bool = False
    part: tuple[int, list[KeyringRow]] = field(default=(0, []), repr=False)
    """A full copy that is being fetched, and how many changes are in it."""


class KeyringLeader:
    """The copies that replicate a leader's keyring (`keyring.KeyringReplication`, `ReplicationHandler`).

    Usable from any thread.
    """

    def __init__(
        self, keyring: ShufflerKeyring, sessions: Sessions, needed: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count every member that the database lists, and make the leader's own keyring one.

        Raises:
            StoreError: if the database could not be used.
        """
        self._keyring, self._sessions, self._needed, self._clock = keyring, sessions, needed, clock
        self._stream = os.urandom(COPY_BYTES)
        self._changed = threading.Condition()
        # Locked while the list of members changes, so that a copy that was just removed does not become one.
        self._membership = threading.Lock()
        self._position = 0
        self._recorded = 0
        self._log: deque[tuple[int, Sequence[KeyringRow]]] = deque(maxlen=_LOG_CHANGES)
        # Calls of copies wait in threads. Others wait for those of the event loop, which are few.
        self._threads = Threads(MOST_COPIES)
        members = sessions.change(lambda connection: _begin(connection, keyring.copy))
        self._copies = {
            copy: _FollowerProgress(clock(), counts=True, member=True) for copy in members if copy != keyring.copy
        }
        # Read first: a number that is too small only lets a copy take over that the next change would keep from it.
        self._before = keyring.changes
        keyring.replicate_to(self)

    def close(self) -> None:
        """End the threads in which copies wait."""
        self._threads.shutdown()

    def following(self) -> tuple[int, int]:
        """Return how many copies are needed, and how many members have asked for changes lately."""
        with self._changed:
            since = self._clock() - AWAY_SECONDS
            members = [each for each in self._copies.values() if each.member and each.counts]
            return self._needed, sum(each.seen >= since for each in members)

    # The keyring's side

    def tell(self, rows: Sequence[KeyringRow]) -> None:
        """Record a change."""
        with self._changed:
            self._position += 1
            self._log.append((self._position, rows))
            self._changed.notify_all()

    def check(self) -> None:
        """Return at once if as many members follow as are needed.

        Raises:
            StandbysAwayError: if fewer do.
        """
        needed, following = self.following()
        if following < needed:
            raise StandbysAwayError(
                f"{following} of the {needed} standbys that `standbys` requires follow; start those that are away, or "
                "lower `standbys` to go on without them"
            )

    def wait(self) -> None:
        """Return once every member has all changes so far, and the database has how many these are.

        Raises:
            StoreError: if a needed copy is away, or the database could not be used.
        """
        until = self._clock() + WAIT_SECONDS
        with self._changed:
            target = self._position
        while away := self._awaited(target, until):
            self._leave(away)
        self._record(target)

    def _record(self, target: int) -> None:
        """Have the database know that so many changes were answered; an older copy does not take over from then on."""
        with self._changed:
            if target <= self._recorded:
                return
        answered = self._before + target
        statement = "UPDATE keyring SET changes = %s WHERE changes < %s"
        self._sessions.change(lambda connection: connection.execute(statement, (answered, answered)))
        with self._changed:
            self._recorded = max(self._recorded, target)

    def _awaited(self, target: int, until: float) -> set[bytes]:
        """Return the copies to go on without, empty once every member has the `target` first changes."""
        with self._changed:
            while True:
                behind = {copy for copy, each in self._copies.items() if each.counts and each.has < target}
                enough = len(self._having(target)) >= self._needed
                if enough and not behind:
                    return set()
                now = self._clock()
                away = {copy for copy in behind if now - self._copies[copy].seen > AWAY_SECONDS}
                if enough and behind == away:
                    return away
                if now >= until or self.following()[1] < self._needed:
                    raise StandbysAwayError(self._lacking(target))
                self._changed.wait(min(until - now, POLL_SECONDS))

    def _having(self, target: int) -> list[_FollowerProgress]:
        return [each for each in self._copies.values() if each.counts and each.member and each.has >= target]

    def _lacking(self, target: int) -> str:
        return (
            f"{len(self._having(target))} of the {self._needed} standbys that `standbys` requires have the keyring's "
            "last change; start those that are away, or lower `standbys` to go on without them"
        )

    def _leave(self, away: set[bytes]) -> None:
        """Remove copies from the members; answers wait for them until the database has recorded this."""
        statement = "DELETE FROM member WHERE copy = ANY(%s)"
        with self._membership:
            self._sessions.change(lambda connection: connection.execute(statement, (list(away),)))
            with self._changed:
                for copy in away:
                    self._copies.pop(copy, None)
        _LOG.warning("a standby is left behind", copies=len(away))

    # The copies' side

    async def follow(self, asked: FollowerPosition) -> KeyringChanges:
        """Record what a copy has, and return the next changes; waits for a while if there are none yet.

        Raises:
            Refusal: NOT_READY, if the database could not record that a copy is complete, or too many copies ask.
        """
        with refused_for_now():
            with self._changed:
                copy = self._noted(asked.copy)
                copy.asks = True
            try:
                return await self._threads.do(lambda: self._answer(copy, asked))
            finally:
                copy.asks = False

    def _noted(self, name: bytes) -> _FollowerProgress:
        """Return a copy, and take note of it if it is new; forget one that is silent and never counted instead."""
        copy = self._copies.get(name)
        if copy is None and len(self._copies) >= MOST_COPIES:
            since = self._clock() - AWAY_SECONDS
            silent = [each for each, found in self._copies.items() if not found.counts and found.seen < since]
            for each in silent:
                del self._copies[each]
        if (copy is None and len(self._copies) >= MOST_COPIES) or (copy is not None and copy.asks):
            raise TooManyCopiesError(
                f"more than {MOST_COPIES} standbys ask for the keyring, or one asks twice at once; check which "
                "processes have the shuffler's TLS key"
            )
        return self._copies.setdefault(name, _FollowerProgress(self._clock()))

    def _answer(self, copy: _FollowerProgress, asked: FollowerPosition) -> KeyringChanges:
        with self._changed:
            copy.seen = self._clock()
            follows = asked.stream == self._stream and not asked.offset and self._reaches(asked.position)
            if follows:
                copy.has, copy.part = asked.position, (0, [])
                joins = not copy.member and (copy.counts or asked.position == self._position)
                copy.counts = copy.counts or joins
                self._changed.notify_all()
        if not follows:
            return self._part(copy, asked)
        if joins:
            self._join(asked.copy, copy)
        return self._next(asked.position)

    def _reaches(self, position: int) -> bool:
        first = self._log[0][0] if self._log else self._position + 1
        return first - 1 <= position <= self._position

    def _join(self, name: bytes, copy: _FollowerProgress) -> None:
        statement = "INSERT INTO member (copy) VALUES (%s) ON CONFLICT DO NOTHING"
        with self._membership:
            if self._copies.get(name) is not copy:
                return  # removed meanwhile; the copy asks again
            self._sessions.change(lambda connection: connection.execute(statement, (name,)))
            with self._changed:
                copy.member = True
                self._changed.notify_all()
        _LOG.info("a standby has everything")

    def _part(self, copy: _FollowerProgress, asked: FollowerPosition) -> KeyringChanges:
        """Return a part of all rows, from the beginning if the copy has no part of the rows that are being fetched."""
        offset = asked.offset
        if asked.stream != self._stream or asked.position != copy.part[0] or not 0 < offset < len(copy.part[1]):
            rows, position = self._keyring.whole(lambda: self._position)
            with self._changed:
                copy.part, offset = (position, rows), 0
        position, rows = copy.part
        part = tuple(rows[offset : offset + _PART_ROWS])
        return KeyringChanges(self._stream, position, part, self._keyring.id, len(rows))

    def _next(self, position: int) -> KeyringChanges:
        """Return the changes after a position, as many as fit, as soon as there are any."""
        with self._changed:
            if self._position == position:
                self._changed.wait(POLL_SECONDS)
            rows: list[KeyringRow] = []
            reached = position
            for at, change in self._log:
                if at > position and (not rows or len(rows) + len(change) <= _PART_ROWS):
                    rows.extend(change)
                    reached = at
                elif at > position:
                    break
        return KeyringChanges(self._stream, reached, tuple(rows))


def check_entitled(connection: Connection, keyring: ShufflerKeyring) -> None:
    """Return only if a copy of the keyring may take over; called while the term is raised.

    Raises:
        NotCopiedError: if it was never used, and the database has a keyring.
        StoreError: if the copy has missed changes, or is not a copy of the database's keyring.
    """
    row = connection.execute("SELECT id, changes FROM keyring").fetchone()
    members = _members(connection)
    if row is None:
        return
    if row[0] == keyring.id and (not members or keyring.copy in members):
        _check_progress(keyring, row[1])
        return
    if row[0] != keyring.id and keyring.is_new():
        raise NotCopiedError(
            f"the keyring {keyring.path} is new, and has nothing of the leader's yet; it copies that as soon as a "
            "leader runs"
        )
    if row[0] != keyring.id:
        raise StoreError(
            f"the database belongs to another keyring than {keyring.path}, which therefore does not take over; let it "
            "replicate the leader's (`leaders`), or name its own database in `store`"
        )
    raise StoreError(
        f"the keyring {keyring.path} does not have every change, so it does not take over; let it replicate from "
        "the leader that has. If that leader is lost, end the store's tasks, and start new ones in a new store"
    )


def _check_progress(keyring: ShufflerKeyring, answered: int) -> None:
    if (found := keyring.changes) < answered:
        raise StoreError(
            f"the keyring {keyring.path} is an old copy: it has {found} of the {answered} changes that were answered, "
            "so it does not take over. Start the leader that has all, or put the newest folder back; a standby is made "
            "with --create-store, and never by copying a folder"
        )


def _begin(connection: Connection, copy: bytes) -> set[bytes]:
    members = _members(connection)
    if members and copy not in members:
        raise StoreError("the keyring does not have every change; let it replicate from the leader that has")
    connection.execute("INSERT INTO member (copy) VALUES (%s) ON CONFLICT DO NOTHING", (copy,))
    return members


def _members(connection: Connection) -> set[bytes]:
    return {bytes(copy) for (copy,) in connection.execute("SELECT copy FROM member").fetchall()}
