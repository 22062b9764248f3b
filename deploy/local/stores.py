"""Local stores: those of a pipeline that runs whole on one machine, made before its services start."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.analyzer import settings as analyzer
from hubbub.analyzer import store_factory as analyzer_stores
from hubbub.deploy.init.folders import Folder
from hubbub.protos.identity.keys import Role
from hubbub.shuffler import settings as shuffler
from hubbub.shuffler.hop.sqlite import SqliteStore as HopStore
from hubbub.shuffler.stores import factory as shuffler_stores


def make_stores(folder: Folder, hops: Iterable[str]) -> None:
    """Make the store of each party, where its settings say.

    Raises:
        StoreError: where there is one already.
    """
    shuffler_stores.create_store(shuffler.load(folder.of(Role.SHUFFLER) / "shuffler.toml"))
    analyzer_stores.create_store(analyzer.load(folder.of(Role.ANALYZER) / "analyzer.toml"))
    for name in hops:
        HopStore.create(folder.of(name) / "data")
