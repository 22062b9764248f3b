"""Opens the store that the settings name, in `data` or in a database; database code is loaded only if needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore
from hubbub.analyzer.stores.sqlite.schema import FILE_NAME, LAYOUT
from hubbub.protos.sqlite_layout import Layout
from hubbub.service.extras import of_an_extra
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved

if TYPE_CHECKING:
    from hubbub.analyzer.settings import AnalyzerSettings


def open_store(
    settings: AnalyzerSettings, observe: Observe = unobserved, incidents: Incidents | None = None
) -> AnalyzerStore:
    """Open the store that the settings name; `observe` gets the seconds of each transaction.

    Raises:
        StoreError: if it cannot be used.
        HubbubError: if it is in a database, and the extra for databases is not installed.
    """
    if not settings.store:
        return AnalyzerSqliteStore(settings.data, observe, incidents=incidents)
    with of_an_extra():
        from hubbub.analyzer.stores.postgres import AnalyzerPostgresStore

    return AnalyzerPostgresStore.open(settings.data, settings.store, observe, incidents=incidents)


def create_store(settings: AnalyzerSettings) -> Path:
    """Create the store that the settings name; return its file in `data`: the store, or the keyring of a database's.

    Raises:
        StoreError: if there is one already.
        HubbubError: if it is in a database, and the extra for databases is not installed.
    """
    if not settings.store:
        return AnalyzerSqliteStore.create(settings.data)
    with of_an_extra():
        from hubbub.analyzer.stores.postgres import AnalyzerPostgresStore

    return AnalyzerPostgresStore.create(settings.data, settings.store)


def file_of(settings: AnalyzerSettings) -> tuple[str, Layout]:
    """Return the name and the layout of the file in `data`.

    Raises:
        HubbubError: if the store is in a database, and the extra for databases is not installed.
    """
    if not settings.store:
        return FILE_NAME, LAYOUT
    with of_an_extra():
        from hubbub.analyzer.stores.postgres.keyring import LAYOUT as KEYRING_LAYOUT
        from hubbub.service.postgres.keyring import FILE_NAME as KEYRING_FILE_NAME

    return KEYRING_FILE_NAME, KEYRING_LAYOUT
