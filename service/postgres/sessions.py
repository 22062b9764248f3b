"""Opens connections to the server, with the settings that the store's guarantees depend on, and runs transactions.

`synchronous_commit` is on, so that an answered commit is on the server's disk. A server with `fsync` off is refused,
since it answers before that. If a connection breaks at the commit, the transaction is done or not: the caller gets an
error, and repeats the call.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg
import structlog
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed

from hubbub.service.errors import StoreAwayError, StoreClosedError, StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.postgres.outage import WAIT_SECONDS, Outage, may_be_away
from hubbub.service.postgres.server_errors import UnusableError, as_store_error, shown

T = TypeVar("T")

_LOG = structlog.get_logger(__name__)

Connection = psycopg.Connection[tuple[Any, ...]]

CONNECTIONS = 8
"""Most connections of one process: one that has a lock, one that mixes, the others for reads and round steps."""

OLDEST = 14
"""The oldest supported major version of the server."""

TRIES = 5
"""How often a transaction is tried that the server rolled back because of concurrent ones."""

_NETWORK = {"tcp_user_timeout": 30_000, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4}
"""How soon a connection to a vanished server is given up: after half a minute; the system's own settings wait for a
quarter of an hour. Units: milliseconds, seconds, seconds, and a count. An address may override them."""

_EVENT = "a transaction failed"
_UNCHECKED = "the database has no checksums of its pages"


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
        """Connect to the store in an existing schema of the database.

        `observe` receives the seconds of each transaction; `connection` is the class of the connections.

        Every transaction that changes data begins with `check`, which raises if the change is not allowed.

        Raises:
            StoreError: if the server is unreachable, refuses, or does not keep committed data.
        """
        self.address = address
        self._observe = observe
        self.schema = schema
        self._incidents = incidents or Incidents()
        self._check = check
        self._closed = threading.Event()
        given = conninfo_to_dict(address)
        # Only defaults: the operator's address may set these itself.
        network = {name: value for name, value in _NETWORK.items() if name not in given}
        self.settled = make_conninfo(address, connect_timeout=int(WAIT_SECONDS), **network)
        # Outside of the pool, which would retry in the background and report a timeout instead of the cause.
        try:
            with psycopg.connect(self.settled, autocommit=True) as probe:
                _check_server(probe, address)
                _warn_of_unchecked(probe, address)
                _check_pooler(probe, self.settled, address)
        except psycopg.Error as error:
            raise as_store_error(error, address, running=False) from error
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self.settled,
            connection_class=connection,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=CONNECTIONS,
            timeout=WAIT_SECONDS,
            configure=self.configure,
            # The pool would pause twice as long after each failure, for minutes. `Outage` looks for the server instead,
            # and `_connection` for connections that are dead.
            reconnect_timeout=0,
            name="store",
            open=True,
        )
        self._emptied = time.monotonic()
        self._outage = Outage(address, self._cause, self._incidents)

    def configure(self, connection: Connection) -> None:
        """Configure a new connection like all others."""
        configure(connection, self.schema)

    def close(self) -> None:
        """Close all connections; later transactions raise `StoreError`."""
        self._closed.set()
        self._outage.close()
        self._pool.close()

    def change(self, work: Callable[[Connection], T]) -> T:
        """Do work in one transaction, and return its result once it is on the server's disk.

        `work` is called again if the server rolled the transaction back because of concurrent ones.

        Raises:
            StoreError: if the server cannot do it.
        """
        started = time.perf_counter()
        result = self._told(lambda: self._tried(work))
        self._incidents.resolve((self.address, _EVENT))
        self._observe(time.perf_counter() - started)
        return result

    def read(self, work: Callable[[Connection], T]) -> T:
        """Do read-only work; each of its statements sees the data committed before that statement.

        Raises:
            StoreError: if the server cannot do it.
        """

        def once() -> T:
            with self._connection() as connection:
                return work(connection)

        return self._told(once)

    def look(self, work: Callable[[Connection], T]) -> T:
        """Do read-only work; all of its statements see the data committed before the first one.

        Raises:
            StoreError: if the server cannot do it.
        """

        def once(connection: Connection) -> T:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                return work(connection)

        return self.read(once)

    def _told(self, work: Callable[[], T]) -> T:
        if self._closed.is_set():
            raise StoreClosedError()
        self._outage.check()
        try:
            return work()
        except (psycopg.Error, OSError, UnusableError) as error:
            away = self._away(error)
            if away is not None:
                raise away from error
            told = as_store_error(error, self.address)
            if not isinstance(error, PoolClosed):
                self._incidents.open((self.address, _EVENT), IncidentKind.STORE, _EVENT, str(told))
            if told is error:
                raise
            raise told from error

    def _away(self, error: Exception) -> StoreAwayError | None:
        """Return the error for a call that failed because the server does not answer; None if another cause failed."""
        return None if self._closed.is_set() or not may_be_away(error) else self._outage.found()

    def is_away(self) -> bool:
        """Ask the server whether it answers; if not, it is an incident until it does."""
        return self._outage.is_away()

    def _cause(self) -> str | None:
        """Try to reach the server; return in words why that failed, None if it did not."""
        try:
            psycopg.connect(self.settled, autocommit=True).close()
        except psycopg.Error as error:
            return None if self._has_connection() else str(as_store_error(error, self.address))
        return None

    def _has_connection(self) -> bool:
        """Return whether the pool has a connection that works: a server may refuse new ones and serve these."""
        try:
            with self._connection(0.01):
                return True
        except psycopg.Error:
            return False

    def _changing(self) -> contextlib.AbstractContextManager[Connection]:
        """Give the connection for one transaction that changes data."""
        return self._connection()

    @contextlib.contextmanager
    def _connection(self, seconds: float = WAIT_SECONDS) -> Iterator[Connection]:
        """Give a connection that answers. If one is dead, the others probably are, too: the pool is emptied at once.

        The pool's own check would pause after each dead connection, longer than a call waits.
        """
        end = time.monotonic() + seconds
        while True:
            taken = time.monotonic()
            connection = self._pool.getconn(max(end - taken, 0.0))
            if answers(connection):
                break
            connection.close()
            self._pool.putconn(connection)
            # Not again what another thread has emptied meanwhile: those connections are new.
            if self._emptied < taken:
                self._emptied = time.monotonic()
                self._pool.drain()
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

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
    """Configure a connection: durable commits, visible commits of others, and the tables of a schema."""
    connection.execute("SET synchronous_commit = on")
    # Each statement sees the commits before it, also if the server has another default. After waiting for a lock, a
    # transaction must see the changes of the lock's holder, such as a cut, and not the state when the wait began.
    connection.execute("SET default_transaction_isolation = 'read committed'")
    connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))


def answers(connection: Connection) -> bool:
    """Return whether a connection still reaches the server."""
    try:
        ConnectionPool.check_connection(connection)
    except psycopg.Error:
        return False
    return True


def _in_transaction(connection: Connection, work: Callable[[], T]) -> T:
    try:
        connection.execute("BEGIN")
        result = work()
        connection.execute("COMMIT")
    except BaseException:
        # A broken connection has lost its transaction.
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        raise
    return result


def check_version(connection: Connection, address: str) -> None:
    """Check that the server is new enough.

    Raises:
        StoreError: if it is older than `OLDEST`.
    """
    version = connection.info.server_version
    if version < 10_000 * OLDEST:
        # Before 10, a version had two parts.
        which = f"{version // 10_000}" if version >= 100_000 else f"{version // 10_000}.{version // 100 % 100}"
        raise StoreError(f"the server of {shown(address)} is PostgreSQL {which}; upgrade it to {OLDEST} or newer")


def _check_server(connection: Connection, address: str) -> None:
    check_version(connection, address)
    wanted: Sequence[tuple[str, str]] = (("fsync", "on"), ("full_page_writes", "on"))
    for name, value in wanted:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if row is None or row[0] != value:
            raise StoreError(
                f"the server of {shown(address)} runs with {name} = {row and row[0]}, so an answered commit can be "
                f"lost; set {name} = {value} in its settings and restart it"
            )


def _warn_of_unchecked(connection: Connection, address: str) -> None:
    """Log a warning if the server does not notice that a disk changed its pages."""
    row = connection.execute("SELECT current_setting('data_checksums')").fetchone()
    if row is not None and row[0] == "off":
        _LOG.warning(
            _UNCHECKED, store=shown(address), remedy="stop the server, and run `pg_checksums --enable` on its folder"
        )


def _check_pooler(connection: Connection, settled: str, address: str) -> None:
    """Check that each connection has a session of the server to itself, as its locks and its settings need.

    A pooler, such as PgBouncer, may stand in between. With `pool_mode = transaction` it gives a session to whoever
    begins a transaction next.

    Raises:
        StoreError: if another connection gets the session of this one.
    """
    mine = _backend(connection)
    if connection.info.backend_pid == mine:
        return
    with psycopg.connect(settled, autocommit=True) as other:
        try:
            other.execute("BEGIN")
            shared = _backend(other) == mine or _backend(connection) != mine
        except psycopg.Error:
            shared = True
    if shared:
        raise StoreError(
            f"{shown(address)} is a pooler that lets connections share sessions of the server, so the store's locks "
            "do not hold; set pool_mode = session there, or name the server itself"
        )


def _backend(connection: Connection) -> int:
    ((backend,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(backend)


def lock(connection: Connection, kind: str, name: str, *, shared: bool = False) -> None:
    """Wait for a lock of that name, and keep it until the transaction ends; `shared` allows other sharers."""
    # The schema is part of the name, since one database may have the stores of several services.
    statement = (
        "SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema() || %s, 0))"
        if shared
        else "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || %s, 0))"
    )
    connection.execute(statement, (f" {kind} {name}",))
