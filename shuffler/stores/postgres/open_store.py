"""Creates a store in a database, or opens it for the leader, which has the lease and the keyring in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import psycopg
from psycopg.conninfo import make_conninfo

from hubbub.protos.task.feed.entry import FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.transport.channels import TLS
from hubbub.service.errors import StoreError, damaged
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.postgres import kept_feed
from hubbub.service.postgres.binding import check_new, is_kept
from hubbub.service.postgres.outage import WAIT_SECONDS
from hubbub.service.postgres.schema import bring_forward
from hubbub.service.postgres.server_errors import as_store_error, shown
from hubbub.service.postgres.sessions import Connection, configure
from hubbub.shuffler.records import Round, RoundId
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.replication.frontend_store import FrontendSessions, FrontendStore
from hubbub.shuffler.stores.postgres.replication.leader_client import LeaderClient
from hubbub.shuffler.stores.postgres.replication.leadership import Lease
from hubbub.shuffler.stores.postgres.replication.replication import check_entitled
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from hubbub.shuffler.stores.postgres.store import ShufflerPostgresStore

T = TypeVar("T")


def create_first(folder: Path, address: str) -> Path:
    """Create a keyring in `folder` for a database without a store, and return its file.

    Raises:
        StoreError: if there is a keyring or a store already; then nothing was created.
    """
    bring_forward(address, SCHEMA)
    check_new(address, SCHEMA, "a shuffler's")
    path = ShufflerKeyring.create(folder)
    ShufflerPostgresStore(ShufflerKeyring(folder), address).close()
    return path


def open_as_leader(
    folder: Path,
    address: str,
    observe: Observe = unobserved,
    *,
    incidents: Incidents | None = None,
    lease: Lease | None = None,
    standbys: int = 0,
) -> ShufflerPostgresStore:
    """Open the store in a database with the keyring in `folder`, as the leader; see `ShufflerPostgresStore`.

    Without a `lease`, one is taken; closing the store ends it. That many `standbys` must have each change of the
    keyring.

    Raises:
        StoreError: if another leader acts on the database; or see `ShufflerPostgresStore`. The lease is closed then.
    """
    if lease is None:
        lease = take_lease(folder, address, incidents)
        if lease is None:
            raise StoreError(f"another shuffler leads the rounds of {shown(address)}; stop it first")
    with contextlib.ExitStack() as failing:
        failing.callback(lease.close)
        keyring = ShufflerKeyring(folder, incidents=incidents)
        store = ShufflerPostgresStore(keyring, address, observe, incidents=incidents, lease=lease)
        failing.callback(store.close)
        store.follow(standbys)
        failing.pop_all()
    return store


def open_frontend(
    address: str,
    leaders: Sequence[str],
    tls: TLS,
    observe: Observe,
    incidents: Incidents,
    *,
    renewals: Callable[[], int],
    cut_of: Callable[[RoundId], float],
    clock: Callable[[], float],
) -> tuple[FrontendStore, LeaderClient]:
    """Connect to a leader's database as a front end; return its store, and the client of the leader.

    Raises:
        StoreError: if the database cannot be used, or has no store of this version.
        HubbubError: if a TLS file cannot be used.
    """
    bring_forward(address, SCHEMA)
    sessions = FrontendSessions(address, SCHEMA.name, observe, incidents=incidents)
    leader = LeaderClient(leaders, tls, renewals, incidents)
    return FrontendStore(sessions, leader, cut_of, clock), leader


def take_lease(
    kept: ShufflerKeyring | Path, address: str, incidents: Incidents | None = None, *, forward: bool = True
) -> Lease | None:
    """Become the leader of a database, whose tables are migrated first if `forward`; None if another process leads.

    `kept` is the open keyring, or its folder if no other process has the keyring open.

    Raises:
        StoreError: if the server cannot be used, or the keyring has missed changes.
    """
    if forward:
        bring_forward(address, SCHEMA)

    def entitled(connection: Connection) -> None:
        if isinstance(kept, ShufflerKeyring):
            check_entitled(connection, kept)
            return
        with contextlib.closing(ShufflerKeyring(kept)) as keyring:
            check_entitled(connection, keyring)

    return Lease.take(address, entitled, incidents)


def unfinished_rounds(address: str) -> list[Round]:
    """Return the rounds in a database that are not over, without the keys that only the keyring has.

    Raises:
        StoreError: if the server cannot be used, or has no store of this version.
    """
    try:
        return _read(address, tables.unfinished)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged(error) from error


def taken_of_feed(address: str, parties: FeedParties | None = None) -> Feed:
    """Return what the leaders of a database took of the feed, and with `parties` with its signatures checked.

    Raises:
        StoreError: if the server cannot be used, or has no store of this version.
        FeedError: if the entries are not in order, or not signed by both.
    """
    return kept_feed.with_documents(Feed(), _read(address, kept_feed.documents), parties)


def _read(address: str, work: Callable[[Connection], T]) -> T:
    """Read from a database that another process may lead."""
    try:
        with psycopg.connect(make_conninfo(address, connect_timeout=int(WAIT_SECONDS)), autocommit=True) as connection:
            configure(connection, SCHEMA.name)
            return work(connection)
    except psycopg.Error as error:
        raise as_store_error(error, address) from error


def create_replicated(folder: Path, address: str) -> Path:
    """Create a keyring in `folder` that replicates the leader's, or a store if the database has none.

    Raises:
        StoreError: if there is a keyring already; then nothing was created.
    """
    bring_forward(address, SCHEMA)
    return ShufflerKeyring.create(folder) if is_kept(address, SCHEMA) else create_first(folder, address)
