"""Keeping: a store is made, or opened by the keeper: whoever has the database's term and the keyring in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from hubbub.protos.transport.channels import TLS
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Troubles
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.postgres.binding import check_new, is_kept
from hubbub.service.postgres.schema import bring_forward
from hubbub.service.postgres.sessions import Connection, shown
from hubbub.shuffler.records import RoundId
from hubbub.shuffler.stores.postgres.keyring import Keyring
from hubbub.shuffler.stores.postgres.replication.frontend_store import ReplicaSessions, ReplicaStore
from hubbub.shuffler.stores.postgres.replication.leader_client import Asking
from hubbub.shuffler.stores.postgres.replication.leadership import Term
from hubbub.shuffler.stores.postgres.replication.replication import check_entitled
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from hubbub.shuffler.stores.postgres.store import PostgresStore


def create_kept(folder: Path, address: str) -> Path:
    """Make a new keyring in `folder` for a database without a store, and return its file.

    Raises:
        StoreError: where there is a keyring or a store already; nothing was made then.
    """
    bring_forward(address, SCHEMA)
    check_new(address, SCHEMA, "a shuffler's")
    path = Keyring.create(folder)
    PostgresStore(Keyring(folder), address).close()
    return path


def open_kept(
    folder: Path,
    address: str,
    observe: Observe = unobserved,
    *,
    troubles: Troubles | None = None,
    term: Term | None = None,
    standbys: int = 0,
) -> PostgresStore:
    """Open the store in a database with the keyring in `folder`, as the keeper; see `PostgresStore`.

    Without a `term` one is taken. Closing the store ends it. So many `standbys` must have each change of the keyring.

    Raises:
        StoreError: where another keeper acts on the database; or see `PostgresStore`. The term is closed then.
    """
    if term is None:
        term = take_term(folder, address, troubles)
        if term is None:
            raise StoreError(f"another shuffler keeps the rounds of {shown(address)}; stop it first")
    with contextlib.ExitStack() as failing:
        failing.callback(term.close)
        keyring = Keyring(folder, troubles=troubles)
        store = PostgresStore(keyring, address, observe, troubles=troubles, term=term)
        failing.callback(store.close)
        store.follow(standbys)
        failing.pop_all()
    return store


def open_replica(
    address: str,
    keepers: Sequence[str],
    tls: TLS,
    observe: Observe,
    troubles: Troubles,
    *,
    renewals: Callable[[], int],
    cut_of: Callable[[RoundId], float],
    clock: Callable[[], float],
) -> tuple[ReplicaStore, Asking]:
    """Connect to a keeper's database as a replica, and return its store, and what calls the keeper.

    Raises:
        StoreError: where the database cannot be used, or holds no store of this version.
        HubbubError: where a TLS file cannot be used.
    """
    bring_forward(address, SCHEMA)
    sessions = ReplicaSessions(address, SCHEMA.name, observe, troubles=troubles)
    keeper = Asking(keepers, tls, renewals, troubles)
    return ReplicaStore(sessions, keeper, cut_of, clock), keeper


def take_term(
    kept: Keyring | Path, address: str, troubles: Troubles | None = None, *, forward: bool = True
) -> Term | None:
    """Become the keeper of a database, whose tables are brought `forward` first; None where another is.

    `kept` is the keyring, or the folder that it is in, where no other process must have it open.

    Raises:
        StoreError: where the server cannot be used, or the keyring has missed changes.
    """
    if forward:
        bring_forward(address, SCHEMA)

    def entitled(connection: Connection) -> None:
        if isinstance(kept, Keyring):
            check_entitled(connection, kept)
            return
        with contextlib.closing(Keyring(kept)) as keyring:
            check_entitled(connection, keyring)

    return Term.take(address, entitled, troubles)


def create_copy(folder: Path, address: str) -> Path:
    """Make a keyring in `folder` that is to follow that of the database's keeper, or a store where there is none.

    Raises:
        StoreError: where there is a keyring already; nothing was made then.
    """
    bring_forward(address, SCHEMA)
    return Keyring.create(folder) if is_kept(address, SCHEMA) else create_kept(folder, address)
