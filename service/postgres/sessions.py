"""Connections to the server, with the settings that the store's promises rest on, and transactions on them.

`synchronous_commit` is on, so that a commit that was answered is on the server's disk, and a server that runs with
`fsync` off is refused: it answers before. A transaction whose connection breaks at its commit is done or not; whoever
asked is told that it failed, and asks again.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.timing import Observe, unobserved

T = TypeVar("T")

Connection = psycopg.Connection[tuple[Any, ...]]

WAIT_SECONDS = 5.0
"""How long a call waits for a connection before it fails."""

CONNECTIONS = 8
"""Connections at most of one process: one that holds, one that mixes, the others for reads and steps of rounds."""

OLDEST = 14
"""The oldest server that a store works on, by its major version."""

TRIES = 5
"""How often a transaction is done anew that the server took back since others were in its way."""

_NETWORK = {"tcp_user_timeout": 30_000, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4}
"""How soon a server is given up whose machine is gone without a word: after half a minute, where the system's own
settings wait for a quarter of an hour. Milliseconds, seconds, seconds, and how often; an address may say otherwise."""

_EVENT = "a transaction failed"
_SERVER = "see that the server runs and can be reached, and the service goes on by itself"
_FULL = "make room on its disk, and the service goes on by itself"


def shown(address: str) -> str:
    """Return what an address is told as: user, host, port, database."""
    parts = conninfo_to_dict(address)
    where = f"{parts.get('host', '')}{':' if 'port' in parts else ''}{parts.get('port', '')}"
    user = f"{parts['user']}@" if "user" in parts else ""
    return f"postgresql://{user}{where}/{parts.get('dbname', '')}"


def as_store_error(error: Exception, address: str) -> StoreError:
    """Return what a failure of the server is told as: which, what went wrong, what to do."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        what: object = f"no connection within {WAIT_SECONDS:g} seconds"
    elif isinstance(error, PoolClosed):
        return StoreError("the store is closed; the service is stopping")
    else:
        what = " ".join(str(error).split()) or type(error).__name__
    return UnusableError(f"the store {shown(address)} could not be used: {what}; {_remedy(error)}")


def _remedy(error: Exception) -> str:
    if isinstance(error, psycopg.errors.DiskFull) or getattr(error, "errno", 0) == errno.ENOSPC:
        return _FULL
    if isinstance(error, (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
        return "see that its user may write there and the server is no standby; the service goes on by itself"
    if isinstance(error, (psycopg.OperationalError, PoolTimeout, TooManyRequests)):
        return _SERVER
    return "see the server's log; the service goes on by itself once the cause is gone"


class UnusableError(StoreError):
    """The server could not do now what was asked of it; nothing was changed."""


class Sessions:
    """Connections to a database; each transaction takes one. May be used from any thread."""

    def __init__(
        self,
        address: str,
        schema: str,
        observe: Observe = unobserved,
        *,
        connection: type[Connection] = psycopg.Connection,
        incidents: Incidents | None = None,
        check: Callable[[Connection], None] | None = None,
    ) -> None:
        """Connect to the store in a schema of the database that is there already.

        `observe` is told how many seconds each transaction took, `connection` is the connections' class.

        Every transaction that changes something begins with `check`, which raises where it must not be made.

        Raises:
            StoreError: if the server is away, refuses, or does not keep what it has committed.
        """
        self.address = address
        self._observe = observe
        self.schema = schema
        self._incidents = incidents or Incidents()
        self._check = check
        self._closed = threading.Event()
        given = conninfo_to_dict(address)
        network = {name: value for name, value in _NETWORK.items() if name not in given}
        self.settled = make_conninfo(address, connect_timeout=int(WAIT_SECONDS), **network)
        try:
            with psycopg.connect(self.settled, autocommit=True) as probe:
                _check_server(probe, address)
        except psycopg.Error as error:
            raise as_store_error(error, address) from error
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self.settled,
            connection_class=connection,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=CONNECTIONS,
            timeout=WAIT_SECONDS,
            configure=self.configure,
            check=ConnectionPool.check_connection,
            name="store",
            open=True,
        )

    def configure(self, connection: Connection) -> None:
        """Have a new connection be one of these."""
        configure(connection, self.schema)

    def close(self) -> None:
        """Close all connections; later transactions raise `StoreError`."""
        self._closed.set()
        self._pool.close()

    def change(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, and return what it returned once that is on the server's disk.

        `work` is called again where the server took the transaction back because others were in its way.

        Raises:
            StoreError: if the server could not do it.
        """
        started = time.perf_counter()
        result = self._told(lambda: self._tried(work))
        self._incidents.resolve((self.address, _EVENT))
        self._observe(time.perf_counter() - started)
        return result

    def read(self, work: Callable[[Connection], T]) -> T:
        """Do work that changes nothing; every statement of it sees what is committed then.

        Raises:
            StoreError: if the server could not do it.
        """

        def once() -> T:
            with self._pool.connection() as connection:
                return work(connection)

        return self._told(once)

    def look(self, work: Callable[[Connection], T]) -> T:
        """Do work that changes nothing, all of whose statements see what is committed as it begins.

        Raises:
            StoreError: if the server could not do it.
        """

        def once(connection: Connection) -> T:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                return work(connection)

        return self.read(once)

    def _told(self, work: Callable[[], T]) -> T:
        if self._closed.is_set():
            raise StoreError("the store is closed; the service is stopping")
        try:
            return work()
        except (psycopg.Error, OSError, UnusableError) as error:
            told = as_store_error(error, self.address)
            if not isinstance(error, PoolClosed):
                self._incidents.open((self.address, _EVENT), IncidentKind.STORE, _EVENT, str(told))
            if told is error:
                raise
            raise told from error

    def _changing(self) -> contextlib.AbstractContextManager[Connection]:
        """Give the connection for one transaction that changes something."""
        return self._pool.connection()

    def _tried(self, work: Callable[[Connection], T]) -> T:
        for left in reversed(range(TRIES)):
            try:
                with self._changing() as connection:
                    return _in_transaction(connection, lambda: self._checked(connection, work))
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                if not left:
                    raise
        raise AssertionError("the last try returned or raised")

    def _checked(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        if self._check is not None:
            self._check(connection)
        return work(connection)


def configure(connection: Connection, schema: str) -> None:
    """Have a connection keep what it commits, see what others have, and find the tables of a schema."""
    connection.execute("SET synchronous_commit = on")
    # Each statement sees what was committed before it, whatever the server's default: who waited for a lock must see
    # what its holder did, such as a cut, and not what there was when the transaction began to wait.
    connection.execute("SET default_transaction_isolation = 'read committed'")
    connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))


def _in_transaction(connection: Connection, work: Callable[[], T]) -> T:
    try:
        connection.execute("BEGIN")
        result = work()
        connection.execute("COMMIT")
    except BaseException:
        # A connection that is broken has lost its transaction with it.
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        raise
    return result


def check_version(connection: Connection, address: str) -> None:
    """Return only if the server is new enough.

    Raises:
        StoreError: if it is older than `OLDEST`.
    """
    version = connection.info.server_version
    if version < 10_000 * OLDEST:
        # A version's number before 10 had two parts.
        which = f"{version // 10_000}" if version >= 100_000 else f"{version // 10_000}.{version // 100 % 100}"
        raise StoreError(
            f"the server of {shown(address)} is PostgreSQL {which}; the store needs {OLDEST} or newer: upgrade it"
        )


def _check_server(connection: Connection, address: str) -> None:
    check_version(connection, address)
    wanted: Sequence[tuple[str, str]] = (("fsync", "on"), ("full_page_writes", "on"))
    for name, value in wanted:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if row is None or row[0] != value:
            raise StoreError(
                f"the server of {shown(address)} runs with {name} = {row and row[0]}, so a commit that it answered can "
                f"be lost; set {name} = {value} in its settings and start it anew"
            )


def lock(connection: Connection, kind: str, name: str, *, shared: bool = False) -> None:
    """Wait for a lock of that name, and hold it until the transaction ends; `shared`: with others who share it."""
    # The schema is in the name: one database may hold the stores of several services.
    statement = (
        "SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema() || %s, 0))"
        if shared
        else "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || %s, 0))"
    )
    connection.execute(statement, (f" {kind} {name}",))
