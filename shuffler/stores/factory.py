"""Stores: the one that settings name, in `data` or in a database; what a database needs is loaded only then."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.protos.sqlite_versions import Layout
from hubbub.service.extras import of_an_extra
from hubbub.service.observability.incidents import Troubles
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.rpc import FollowHandler, KeeperHandler
from hubbub.shuffler.records import RoundId
from hubbub.shuffler.stores.protocol import Store
from hubbub.shuffler.stores.sqlite import SqliteStore
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME, LAYOUT

if TYPE_CHECKING:
    from hubbub.shuffler.settings import ReplicaSettings, Settings
    from hubbub.shuffler.stores.postgres.keyring import Keyring
    from hubbub.shuffler.stores.postgres.replication.frontend_store import ReplicaStore
    from hubbub.shuffler.stores.postgres.replication.leader_client import Asking
    from hubbub.shuffler.stores.postgres.replication.leadership import Term
    from hubbub.shuffler.stores.postgres.replication.secret_server import Sharing


def open_store(
    settings: Settings, observe: Observe = unobserved, troubles: Troubles | None = None, term: Term | None = None
) -> Store:
    """Open the store that settings name; `observe` is told how many seconds each transaction took.

    One in a database is opened in a `term`, which is taken where none is given.

    Raises:
        StoreError: where it cannot be used.
        HubbubError: where it is in a database, and what that needs is not installed.
    """
    if not settings.store:
        return SqliteStore(settings.data, observe, troubles=troubles)
    with of_an_extra():
        from hubbub.shuffler.stores.postgres.opening import open_kept

    return open_kept(settings.data, settings.store, observe, troubles=troubles, term=term, standbys=settings.standbys)


def open_replica(
    settings: ReplicaSettings,
    observe: Observe,
    troubles: Troubles,
    *,
    renewals: Callable[[], int],
    cut_of: Callable[[RoundId], float],
    clock: Callable[[], float],
) -> tuple[ReplicaStore, Asking]:
    """Connect a replica to the database of its keeper, and return its store, and what calls the keeper.

    Raises:
        StoreError: where the database cannot be used, or holds no store of this version.
        HubbubError: where what a database needs is not installed, or a TLS file cannot be used.
    """
    with of_an_extra():
        from hubbub.shuffler.stores.postgres import opening

    return opening.open_replica(
        settings.store,
        settings.keepers,
        settings.tls.paths(),
        observe,
        troubles,
        renewals=renewals,
        cut_of=cut_of,
        clock=clock,
    )


def create_store(settings: Settings) -> Path:
    """Make the store that settings name; return its file in `data`: the store, or the keyring of one in a database.

    Raises:
        StoreError: where there is one already.
        HubbubError: where it is in a database, and what that needs is not installed.
    """
    if not settings.store:
        return SqliteStore.create(settings.data)
    with of_an_extra():
        from hubbub.shuffler.stores.postgres.opening import create_copy, create_kept

    # The first of those that keep the same rounds makes the store, all others a keyring that follows.
    make = create_copy if settings.keepers else create_kept
    return make(settings.data, settings.store)


def take_term(
    settings: Settings, troubles: Troubles | None = None, kept: Keyring | None = None, *, forward: bool = True
) -> Term | None:
    """Become the keeper of the database that settings name; return None where another is.

    Its tables are brought `forward` first. `kept` is the keyring, where it is open.

    Raises:
        StoreError: where the database cannot be used.
        HubbubError: where what that needs is not installed.
    """
    with of_an_extra():
        from hubbub.shuffler.stores.postgres import opening

    return opening.take_term(kept or settings.data, settings.store, troubles, forward=forward)


def standbys_of(store: Store) -> FollowHandler | None:
    """Return what answers those who stand by; None for a store that nobody can."""
    found: FollowHandler | None = getattr(store, "standbys", None)
    return found


def sharing_of(store: Store, damaged: Collection[int]) -> KeeperHandler | None:
    """Return what answers replicas; None for a store that has none.

    `damaged` holds the `Round.key` of rounds whose private key opens nothing, as it grows.
    """
    found: Sharing | None = getattr(store, "sharing", None)
    if found is not None:
        found.damaged = damaged
    return found


def file_of(settings: Settings) -> tuple[str, Layout]:
    """Return the name and the layout of the file in `data`.

    Raises:
        HubbubError: where the store is in a database, and what that needs is not installed.
    """
    if not settings.store:
        return FILE_NAME, LAYOUT
    with of_an_extra():
        from hubbub.service.postgres.keyring import FILE_NAME as KEYRING_FILE_NAME
        from hubbub.shuffler.stores.postgres.keyring import LAYOUT as KEYRING_LAYOUT

    return KEYRING_FILE_NAME, KEYRING_LAYOUT
