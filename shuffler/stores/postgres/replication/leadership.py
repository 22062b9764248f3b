"""Ensures that one leader acts at a time, and that a replaced leader never changes anything again.

The database has two things for two purposes:

- *A lock*, in a session of its own, names the leader. It is only for order: while one process has it, no other tries.
  The session checks the database every `LOOK_SECONDS`, and the server ends it after `LEASE_SECONDS` of silence. So the
  lock of a process that died, was suspended, or lost the network is free by then.
- *A term*, a number that only rises, gives safety. A process that takes the lock raises it, and every transaction of a
  leader begins by sharing the term's own lock and comparing the term with its own (`Lease.check`).

Why no transaction of an earlier leader commits after a term was raised: raising takes the term's lock exclusively. So a
transaction that shares the lock is over by then, or its session was terminated, which rolls it back even if its process
is suspended in the middle. A later transaction waits, reads the new term, and fails. Every answered change was
committed before, and the next leader reads it. It does not matter when the earlier leader learns of this.

A leader that lost only the lock, for example when the server restarted, tries to get it back. Until then it goes on:
its term is still the last, or each of its transactions fails.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

import psycopg
import structlog
from psycopg.conninfo import make_conninfo

from hubbub.service.errors import StoreError, StoreFault
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.postgres.outage import WAIT_SECONDS
from hubbub.service.postgres.server_errors import as_store_error, shown
from hubbub.service.postgres.sessions import Connection, configure, lock
from hubbub.shuffler.stores.postgres.schema import SCHEMA

LEASE_SECONDS = 10
"""Seconds of silence after which the server frees the lock of a leader."""

LOOK_SECONDS = 1.0
"""How often the leader checks that its term is the last, and a standby tries to take the lock."""

_LOCK_SECONDS = 2
"""How long raising waits for transactions of an earlier leader before it ends those that have begun meanwhile."""

_TRIES = 5
_HOLDER_BYTES = 16

_LEADER_LOCK, _LEASE_LOCK = "leader", "term"
"""The kinds of the two locks."""

_LOST = "the leader's lock is lost"

_LOG = structlog.get_logger(__name__)

# pg_locks shows a 64-bit lock key in two halves.
_END_SHARING = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid() AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(%s, 0)
"""


class FencedError(StoreError):
    """Another leader has taken over: nothing was changed, and this leader cannot change anything."""

    fault = StoreFault.LEADER


class Lease:
    """The right to act as the leader, until another takes over or it is closed. `fencing_token` is the term.

    Random bytes accompany the term. So a database that lost its last changes, as a replica that was behind, never has
    the same term twice.
    """

    @classmethod
    def take(
        cls,
        address: str,
        entitled: Callable[[Connection], None] = lambda _connection: None,
        incidents: Incidents | None = None,
    ) -> Lease | None:
        """Become the leader of a database; return None if another process is.

        `entitled` returns only if this process may lead. It is called in the transaction that raises the term, under
        its lock, so it sees everything that any earlier leader has committed or ever will.

        Raises:
            StoreError: if the server could not be used, or `entitled` raises it; then nothing was changed.
        """
        try:
            connection = _session(address)
            with contextlib.ExitStack() as failing:
                failing.callback(connection.close)
                if not _locked(connection):
                    return None
                number, holder = _raise(connection, address, entitled)
                failing.pop_all()
        except psycopg.Error as error:
            raise as_store_error(error, address) from error
        _LOG.info("acting as the leader", term=number)
        return cls(connection, address, (number, holder), incidents or Incidents())

    def __init__(self, connection: Connection, address: str, row: tuple[int, bytes], incidents: Incidents) -> None:
        """See `take`, which has raised the term on the connection that has the lock."""
        self.fencing_token = row[0]
        self._row = row
        self._address = address
        self._incidents = incidents
        self._connection: Connection | None = connection
        self._guard = threading.Lock()
        self._lost = False
        self._tell: list[Callable[[], object]] = []
        self._is_away: Callable[[], bool] = lambda: False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="term", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether this process knows that another leader has taken over."""
        return self._lost

    def when_lost(self, tell: Callable[[], object]) -> None:
        """Call `tell`, from any thread, once another leader is known to have taken over."""
        with self._guard:
            self._tell.append(tell)
            told = self._lost
        if told:
            tell()

    def ask_before_telling(self, is_away: Callable[[], bool]) -> None:
        """Have `is_away` called, from any thread, when the lock is lost: if true, that is an incident already."""
        self._is_away = is_away

    def check(self, connection: Connection) -> None:
        """Return only if this is the last term, and keep it so until the transaction ends.

        Raises:
            FencedError: if another leader has taken over.
        """
        # Two statements: the second sees what was committed while the first one waited.
        lock(connection, _LEASE_LOCK, "", shared=True)
        self._compare(connection)
        if self._lost:
            raise self._fenced()

    def close(self) -> None:
        """Release the lock, so that another may take over at once. Nothing may be changed in this term afterwards."""
        self._closing.set()
        # Do not wait longer for a server that does not answer: it frees the lock by itself.
        self._thread.join(WAIT_SECONDS)
        self._drop()

    def _compare(self, connection: Connection) -> None:
        row = connection.execute("SELECT term, holder FROM leader").fetchone()
        if row != self._row:
            self._end()

    def _end(self) -> None:
        with self._guard:
            tell, self._lost = ([] if self._lost else self._tell), True
        for each in tell:
            each()

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another leader has taken over {shown(self._address)} since term {self.fencing_token}; nothing was "
            "changed, and this process ends or becomes a standby"
        )

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            if self._lost:
                return
            try:
                if self._connection is None:
                    self._regain()
                else:
                    self._compare(self._connection)
            except psycopg.Error as error:
                self._drop()
                if not self._is_away():
                    self._open(str(as_store_error(error, self._address)))

    def _regain(self) -> None:
        connection = _session(self._address)
        with contextlib.ExitStack() as failing:
            failing.callback(connection.close)
            self._compare(connection)
            # A process with the lock either raises the term next, or gives the lock back.
            if not self._lost and not _locked(connection):
                self._open(f"another process has the leader's lock of {shown(self._address)}")
            elif not self._lost:
                self._connection = connection
                failing.pop_all()
                self._incidents.resolve((self._address, _LOST))

    def _open(self, why: str) -> None:
        text = f"{why}; until this process has the lock again, a standby may take over"
        self._incidents.open((self._address, _LOST), IncidentKind.STORE, _LOST, text)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _session(address: str) -> Connection:
    """Connect so that either end soon notices that the other is gone."""
    settled = make_conninfo(
        address,
        connect_timeout=int(WAIT_SECONDS),
        keepalives_idle=2,
        keepalives_interval=2,
        keepalives_count=2,
        tcp_user_timeout=int(WAIT_SECONDS * 1000),
    )
    connection = psycopg.connect(settled, autocommit=True)
    try:
        configure(connection, SCHEMA.name)
        connection.execute(f"SET idle_session_timeout = '{LEASE_SECONDS}s'")
        connection.execute(f"SET statement_timeout = '{LEASE_SECONDS}s'")
    except BaseException:
        connection.close()
        raise
    return connection


def _named(kind: str) -> str:
    return f"{SCHEMA.name} {kind} "


def _locked(connection: Connection) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (_named(_LEADER_LOCK),)).fetchone()
    return row is not None and bool(row[0])


def _raise(connection: Connection, address: str, entitled: Callable[[Connection], None]) -> tuple[int, bytes]:
    """Raise the term once no transaction of an earlier one is in progress; return its row."""
    for _ in range(_TRIES):
        # A leader that is suspended or cut off in the middle of a transaction would keep the lock for ever.
        connection.execute(_END_SHARING, (_named(_LEASE_LOCK),))
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
                lock(connection, _LEASE_LOCK, "")
                entitled(connection)
                statement = "UPDATE leader SET term = term + 1, holder = %s RETURNING term, holder"
                row = connection.execute(statement, (os.urandom(_HOLDER_BYTES),)).fetchone()
        except psycopg.errors.LockNotAvailable:
            continue
        if row is None:
            raise StoreError(f"{shown(address)} has no term, so it may be an old copy; restore the newest copy")
        return int(row[0]), bytes(row[1])
    raise StoreError(f"a transaction of an earlier leader on {shown(address)} does not end; check the server")
