"""Stores: the one that settings name, in `data` or in a database; what a database needs is loaded only then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.analyzer.sqlite import SqliteStore
from hubbub.analyzer.sqlite.schema import FILE_NAME, LAYOUT
from hubbub.analyzer.store import Store
from hubbub.protos.sqlite_versions import Layout
from hubbub.service.extras import of_an_extra
from hubbub.service.observability.incidents import Troubles
from hubbub.service.observability.timing import Observe, unobserved

if TYPE_CHECKING:
    from hubbub.analyzer.settings import Settings


def open_store(settings: Settings, observe: Observe = unobserved, troubles: Troubles | None = None) -> Store:
    """Open the store that settings name; `observe` is told how many seconds each transaction took.

    Raises:
        StoreError: where it cannot be used.
        HubbubError: where it is in a database, and what that needs is not installed.
    """
    if not settings.store:
        return SqliteStore(settings.data, observe, troubles=troubles)
    with of_an_extra():
        from hubbub.analyzer.postgres import PostgresStore

    return PostgresStore.open(settings.data, settings.store, observe, troubles=troubles)


def create_store(settings: Settings) -> Path:
    """Make the store that settings name; return its file in `data`: the store, or the keyring of one in a database.

    Raises:
        StoreError: where there is one already.
        HubbubError: where it is in a database, and what that needs is not installed.
    """
    if not settings.store:
        return SqliteStore.create(settings.data)
    with of_an_extra():
        from hubbub.analyzer.postgres import PostgresStore

    return PostgresStore.create(settings.data, settings.store)


def file_of(settings: Settings) -> tuple[str, Layout]:
    """Return the name and the layout of the file in `data`.

    Raises:
        HubbubError: where the store is in a database, and what that needs is not installed.
    """
    if not settings.store:
        return FILE_NAME, LAYOUT
    with of_an_extra():
        from hubbub.analyzer.postgres.keyring import LAYOUT as KEYRING_LAYOUT
        from hubbub.service.postgres.keyring import FILE_NAME as KEYRING_FILE_NAME

    return KEYRING_FILE_NAME, KEYRING_LAYOUT
