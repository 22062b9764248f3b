"""The leader's side of the copies of its keyring. Nothing is answered that a copy which may act has not.

A keyring is never in the database, so whoever is to take over has a copy of it that follows. The database says which
copies may take over: the *members*, the leader's own among them. Three rules, from which it follows that nothing that
was answered is missing, and nothing that was destroyed comes back, whoever takes over, and whenever:

1. Every change is answered only once all members have it on disk; or whoever has not is no member any more, which the
   database says before the change is answered.
2. Who becomes a member has all changes by then, and from then on counts in the first rule. It counts before the
   database says so, and goes on counting where it is not known whether the database does.
3. Who takes over is a member, by what the database says in the transaction that raises the term (`leadership`): what an
   earlier leader says of its members is committed before, and then seen, or never.

Killed or cut off at any moment: what the leader has and its copies have not was not answered, and is done again by
whoever goes on: all these changes may be repeated. What copies have and the leader's next term does not know of is
keys of rounds that nobody was shown, or keys destroyed of a round that is erased again. A leader that was replaced
cannot change who is a member, as that takes a transaction in its term; so it answers nothing that its copies have not.
It comes back as one that stands by, and copies everything anew.

`needed` members beside the leader must have a change; while fewer are there, none is answered: no round begins, no
keys are shown, no ticket is redeemed, and no round is called erased. Rounds go on as far as they need none of it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from hubbub.protos.cluster import COPY_BYTES, FollowerPosition, KeyringChanges, KeyringRow
from hubbub.service.errors import StoreError
from hubbub.service.postgres.sessions import Connection, Sessions
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring

AWAY_SECONDS = 5.0
"""How long a copy may be silent before the leader goes on without it, where it is not needed."""

WAIT_SECONDS = 8.0
"""How long a change waits for copies before it fails, to be tried again."""

POLL_SECONDS = 1.0
"""How long a copy that has everything waits for a change before it asks again."""

_PART_ROWS = 100
"""Rows in one answer, each of three times 4 KiB at most."""

_LOG_CHANGES = 10_000
"""Changes that are kept for copies that are behind; one further behind copies everything anew."""

_LOG = structlog.get_logger(__name__)


@dataclass
class _FollowerProgress:
    """A copy: how many changes it has (-1: not known), whether answers wait for it, and when it last asked.

    Answers wait for it from before the database says that it is a `member`, and it is one of those that are needed only
    from then on.
    """

    seen: float
    counts: bool = False
    member: bool = False
    has: int = -1
    part: tuple[int, list[KeyringRow]] = field(default=(0, []), repr=False)
    """A whole copy that is being fetched, and how many changes are in it."""


class KeyringLeader:
    """The copies that follow a leader's keyring (`keyring.KeyringReplication`, `ReplicationHandler`).

    From any thread.
    """

    def __init__(
        self, keyring: ShufflerKeyring, sessions: Sessions, needed: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count every member that the database knows, and have the keyring's own be one.

        Raises:
            StoreError: if the database could not be used.
        """
        self._keyring, self._sessions, self._needed, self._clock = keyring, sessions, needed, clock
        self._stream = os.urandom(COPY_BYTES)
        self._changed = threading.Condition()
        # Held while the database is told who is a member, so that nobody becomes one who was just left behind.
        self._membership = threading.Lock()
        self._position = 0
        self._log: deque[tuple[int, Sequence[KeyringRow]]] = deque(maxlen=_LOG_CHANGES)
        members = sessions.change(lambda connection: _begin(connection, keyring.copy))
        self._copies = {
            copy: _FollowerProgress(clock(), counts=True, member=True) for copy in members if copy != keyring.copy
        }
        keyring.replicate_to(self)

    def missing(self) -> int:
        """Return how many copies that are needed are away or behind."""
        with self._changed:
            return max(0, self._needed - len(self._having(self._position)))

    # The keyring's side

    def tell(self, rows: Sequence[KeyringRow]) -> None:
        """Note a change."""
        with self._changed:
            self._position += 1
            self._log.append((self._position, rows))
            self._changed.notify_all()

    def wait(self) -> None:
        """Return once every member has all that was told.

        Raises:
            StoreError: if one is away that is needed.
        """
        with self._changed:
            target, until = self._position, self._clock() + WAIT_SECONDS
            while True:
                behind = {copy for copy, each in self._copies.items() if each.counts and each.has < target}
                enough = len(self._having(target)) >= self._needed
                if enough and not behind:
                    return
                now = self._clock()
                away = {copy for copy in behind if now - self._copies[copy].seen > AWAY_SECONDS}
                if enough and behind == away:
                    break
                if now >= until:
                    raise StoreError(self._lacking(target))
                self._changed.wait(min(until - now, POLL_SECONDS))
        self._leave(away)
        self.wait()

    def _having(self, target: int) -> list[_FollowerProgress]:
        return [each for each in self._copies.values() if each.counts and each.member and each.has >= target]

    def _lacking(self, target: int) -> str:
        return (
            f"{len(self._having(target))} of the {self._needed} standbys that settings count on have the keyring's "
            "last change; start those that are away, or lower `standbys` to go on without them"
        )

    def _leave(self, away: set[bytes]) -> None:
        """Have copies be no members any more; only once the database says so does nobody wait for them."""
        statement = "DELETE FROM member WHERE copy = ANY(%s)"
        with self._membership:
            self._sessions.change(lambda connection: connection.execute(statement, (list(away),)))
            with self._changed:
                for copy in away:
                    self._copies.pop(copy, None)
        _LOG.warning("a standby is left behind", copies=len(away))

    # The copies' side

    async def follow(self, asked: FollowerPosition) -> KeyringChanges:
        """Note what a copy has, and return what comes next; waits for a while where there is nothing yet.

        Raises:
            StoreError: if the database could not be told of a copy that has everything.
        """
        return await asyncio.to_thread(self._answer, asked)

    def _answer(self, asked: FollowerPosition) -> KeyringChanges:
        with self._changed:
            copy = self._copies.setdefault(asked.copy, _FollowerProgress(self._clock()))
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
                return  # left behind meanwhile; it is asked again
            self._sessions.change(lambda connection: connection.execute(statement, (name,)))
            with self._changed:
                copy.member = True
                self._changed.notify_all()
        _LOG.info("a standby has everything")

    def _part(self, copy: _FollowerProgress, asked: FollowerPosition) -> KeyringChanges:
        """Return a part of all rows, from the beginning where the copy has none of the ones that are being fetched."""
        offset = asked.offset
        if asked.stream != self._stream or asked.position != copy.part[0] or not 0 < offset < len(copy.part[1]):
            rows, position = self._keyring.whole(lambda: self._position)
            with self._changed:
                copy.part, offset = (position, rows), 0
        position, rows = copy.part
        part = tuple(rows[offset : offset + _PART_ROWS])
        return KeyringChanges(self._stream, position, part, self._keyring.id, len(rows))

    def _next(self, position: int) -> KeyringChanges:
        """Return the changes after a position, those that fit, as soon as there are any."""
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
    """Return only if a copy of the keyring may take over: asked while the term is raised.

    Raises:
        StoreError: if the copy has missed changes, or is none of the database's keyring.
    """
    row = connection.execute("SELECT id FROM keyring").fetchone()
    members = _members(connection)
    if row is None or (row[0] == keyring.id and (not members or keyring.copy in members)):
        return
    if row[0] != keyring.id:
        raise StoreError(
            f"the database is the store of another keyring than {keyring.path}, which does not take over: let it "
            "follow the leader (`leaders`), or name its own database in `store`"
        )
    raise StoreError(
        f"the keyring {keyring.path} has not every change, so it does not take over: let it follow the leader that "
        "has; where that one is lost, end the store's tasks, and start new ones in a new store"
    )


def _begin(connection: Connection, copy: bytes) -> set[bytes]:
    members = _members(connection)
    if members and copy not in members:
        raise StoreError("the keyring has not every change; let it follow the leader that has")
    connection.execute("INSERT INTO member (copy) VALUES (%s) ON CONFLICT DO NOTHING", (copy,))
    return members


def _members(connection: Connection) -> set[bytes]:
    return {bytes(copy) for (copy,) in connection.execute("SELECT copy FROM member").fetchall()}
