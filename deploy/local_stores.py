"""Local stores: those of a pipeline that runs whole on one machine, made before its services start."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.analyzer.sqlite import SqliteStore as AnalyzerStore
from hubbub.deploy.initialise import Folder
from hubbub.protos.keys import Role
from hubbub.shuffler.hop.sqlite import SqliteStore as HopStore
from hubbub.shuffler.settings import load
from hubbub.shuffler.stores import create_store


def make_stores(folder: Folder, hops: Iterable[str]) -> None:
    """Make the store of each party; the shuffler's is where its settings say.

    Raises:
        StoreError: where there is one already.
    """
    create_store(load(folder.of(Role.SHUFFLER) / "shuffler.toml"))
    AnalyzerStore.create(folder.of(Role.ANALYZER) / "data")
    for name in hops:
        HopStore.create(folder.of(name) / "data")
