"""Opens the store that the settings name, in `data` or in a database; database code is loaded only if needed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.protos.sqlite_layout import Layout
from hubbub.protos.task.feed.entry import FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.service.extras import of_an_extra
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.rpc import LeaderHandler, ReplicationHandler
from hubbub.service.rpc.oblivious import ObliviousKeySource
from hubbub.service.runtime.kept_feed import KEPT, FolderFeed
from hubbub.shuffler.records import Round, RoundId
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME, LAYOUT

if TYPE_CHECKING:
    from hubbub.shuffler.settings import FrontendSettings, ShufflerSettings
    from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
    from hubbub.shuffler.stores.postgres.replication.frontend_store import FrontendStore
    from hubbub.shuffler.stores.postgres.replication.leader_client import LeaderClient
    from hubbub.shuffler.stores.postgres.replication.leadership import Lease
    from hubbub.shuffler.stores.postgres.replication.replication import KeyringLeader
    from hubbub.shuffler.stores.postgres.replication.secret_server import SecretServer


def open_store(
    settings: ShufflerSettings,
    observe: Observe = unobserved,
    incidents: Incidents | None = None,
    lease: Lease | None = None,
) -> ShufflerStore:
    """Open the store that the settings name; `observe` gets the seconds of each transaction.

    A store in a database is opened with a `lease`, which is taken if none is given.

    Raises:
        StoreError: if it cannot be used.
        HubbubError: if it is in a database, and the extra for databases is not installed.
    """
    if not settings.store:
        return ShufflerSqliteStore(settings.data, observe, incidents=incidents)
    with of_an_extra():
        from hubbub.shuffler.stores.postgres.open_store import open_as_leader

    return open_as_leader(
        settings.data, settings.store, observe, incidents=incidents, lease=lease, standbys=settings.standbys
    )


def open_frontend(
    settings: FrontendSettings,
    observe: Observe,
    incidents: Incidents,
    *,
    renewals: Callable[[], int],
    cut_of: Callable[[RoundId], float],
    clock: Callable[[], float],
) -> tuple[FrontendStore, LeaderClient]:
    """Connect a front end to the database of its leader; return its store, and the client of the leader.

    Raises:
        StoreError: if the database cannot be used, or has no store of this version.
        HubbubError: if the extra for databases is not installed, or a TLS file cannot be used.
    """
    with of_an_extra():
        from hubbub.shuffler.stores.postgres import open_store as opening

    return opening.open_frontend(
        settings.store,
        settings.leaders,
        settings.tls.paths(),
        observe,
        incidents,
        renewals=renewals,
        cut_of=cut_of,
        clock=clock,
    )


def create_store(settings: ShufflerSettings) -> Path:
    """Create the store that the settings name; return its file in `data`: the store, or the keyring of a database's.

    Raises:
        StoreError: if there is one already.
        HubbubError: if it is in a database, and the extra for databases is not installed.
    """
    if not settings.store:
        return ShufflerSqliteStore.create(settings.data)
    with of_an_extra():
        from hubbub.shuffler.stores.postgres.open_store import create_first, create_replicated

    # The first process creates the store; every other process of the same rounds creates a keyring that replicates.
    make = create_replicated if settings.leaders else create_first
    return make(settings.data, settings.store)


def take_lease(
    settings: ShufflerSettings,
    incidents: Incidents | None = None,
    kept: ShufflerKeyring | None = None,
    *,
    forward: bool = True,
) -> Lease | None:
    """Become the leader of the database that the settings name; return None if another process leads.

    Its tables are migrated first if `forward`. `kept` is the keyring, if it is open.

    Raises:
        StoreError: if the database cannot be used.
        HubbubError: if the extra for databases is not installed.
    """
    with of_an_extra():
        from hubbub.shuffler.stores.postgres import open_store as opening

    return opening.take_lease(kept or settings.data, settings.store, incidents, forward=forward)


def unfinished_rounds(settings: ShufflerSettings) -> list[Round]:
    """Return the rounds that are not over in the database that the settings name; for a process that does not lead.

    Raises:
        StoreError: if the database cannot be used, or has no store of this version.
        HubbubError: if the extra for databases is not installed.
    """
    with of_an_extra():
        from hubbub.shuffler.stores.postgres import open_store as opening

    return opening.unfinished_rounds(settings.store)


def taken_of_feed(settings: ShufflerSettings, parties: FeedParties) -> Feed:
    """Return what was taken of the feed until now; for a process that does not run the store.

    Raises:
        HubbubError: if it cannot be read, or is not as it was kept.
    """
    if not settings.store:
        return FolderFeed(settings.data / KEPT).read(parties) if (settings.data / KEPT).is_dir() else Feed()
    with of_an_extra():
        from hubbub.shuffler.stores.postgres import open_store as opening

    return opening.taken_of_feed(settings.store, parties)


def replication_of(store: ShufflerStore) -> ReplicationHandler | None:
    """Return the handler for standbys; None for a store that cannot have any."""
    found: ReplicationHandler | None = getattr(store, "standbys", None)
    return found


def standbys_of(store: ShufflerStore) -> Callable[[], tuple[int, int]]:
    """Return what returns how many standbys the settings ask for, and how many follow; none for a store without any."""
    found: KeyringLeader | None = getattr(store, "standbys", None)
    return (lambda: (0, 0)) if found is None else found.following


def secret_server_of(
    store: ShufflerStore, damaged: Collection[int], source: ObliviousKeySource
) -> LeaderHandler | None:
    """Return the handler for front ends; None for a store that cannot have any.

    `damaged` has the `Round.key` of each round whose private key is damaged; others add to it.
    `source` has the signed oblivious key.
    """
    found: SecretServer | None = getattr(store, "secret_server", None)
    if found is not None:
        found.damaged, found.oblivious_records = damaged, lambda: source.oblivious_records
    return found


def file_of(settings: ShufflerSettings) -> tuple[str, Layout]:
    """Return the name and the layout of the file in `data`.

    Raises:
        HubbubError: if the store is in a database, and the extra for databases is not installed.
    """
    if not settings.store:
        return FILE_NAME, LAYOUT
    with of_an_extra():
        from hubbub.service.postgres.keyring import FILE_NAME as KEYRING_FILE_NAME
        from hubbub.shuffler.stores.postgres.keyring import LAYOUT as KEYRING_LAYOUT

    return KEYRING_FILE_NAME, KEYRING_LAYOUT
