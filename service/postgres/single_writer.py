"""Runs the sessions of a service of which only one process at a time may change a store.

All changes go through one connection, which has a lock in the database. If the connection is lost, so is its
transaction, and the next connection must take the lock first. So nobody changes anything without the lock.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import psycopg

from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.postgres.server_errors import UnusableError, shown
from hubbub.service.postgres.sessions import Connection, Sessions, answers, configure

_LOCK = "hashtextextended(current_schema() || ' alone', 0)"
_RELEASE_SECONDS = 2
"""Most seconds to wait for a lock whose user has just ended."""

_HOLDER = f"""
SELECT application_name, coalesce(host(client_addr), 'the server''s machine'), backend_start
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pg_locks.database =
    (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32 | objid::bigint) = {_LOCK}
"""  # noqa: S608 - constants


class SingleWriterSessions(Sessions):
    """Sessions that make all changes on one connection, one after the other, and exclude other processes."""

    def __init__(
        self,
        address: str,
        schema: str,
        whose: str,
        observe: Observe = unobserved,
        *,
        connection: type[Connection] = psycopg.Connection,
        incidents: Incidents | None = None,
    ) -> None:
        """Connect, and take the lock; `whose` names the service in errors. See `Sessions`.

        Raises:
            StoreError: if another process has the lock, or the server cannot be used.
        """
        super().__init__(address, schema, observe, connection=connection, incidents=incidents)
        self._whose = whose
        self._kind = connection
        self._one: Connection | None = None
        self._guard = threading.Lock()
        try:
            self.change(lambda _connection: None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections, which releases the lock; later transactions raise `StoreError`."""
        super().close()
        with self._guard:
            self._let_go()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._guard:
            if self._one is None or not answers(self._one):
                self._let_go()
                self._one = self._locked()
            yield self._one

    def _let_go(self) -> None:
        if self._one is not None:
            self._one.close()
            self._one = None

    def _locked(self) -> Connection:
        name = f"hubbub {self._whose} {os.getpid()} on {socket.gethostname()}"[:63]
        connection = self._kind.connect(self.settled, autocommit=True, application_name=name)
        try:
            configure(connection, self.schema)
            if not _has_taken(connection):
                raise UnusableError(
                    f"the store {shown(self.address)} is in use: {_holder(connection)}. One {self._whose} at a time "
                    "may use it; stop that one, or name another database in `store`"
                )
        except BaseException:
            connection.close()
            raise
        return connection


def _has_taken(connection: Connection) -> bool:
    """Take the lock if nobody has it; return whether it was taken.

    A server releases it a moment after its user's connection was closed, and longer if it is busy.
    """
    row = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})").fetchone()
    if row is not None and row[0]:
        return True
    if connection.execute(_HOLDER).fetchone() is not None:
        return False
    try:
        connection.execute(f"SET lock_timeout = '{_RELEASE_SECONDS}s'")
        connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
        connection.execute("RESET lock_timeout")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _holder(connection: Connection) -> str:
    row = connection.execute(_HOLDER).fetchone()
    if row is None:
        return "its last user has just ended"
    name, where, since = row
    return f"by {name or 'a program without a name'}, from {where}, since {since:%Y-%m-%d %H:%M}"
