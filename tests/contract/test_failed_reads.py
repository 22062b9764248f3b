"""A SQLite store that cannot be read says so: it never answers that there is nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Release
from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.errors import StoreError
from hubbub.service.sqlite.release_table import insert_releases
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopStore
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from support.store_contents import store_in

ID = bytes(32)

OF_SHUFFLER: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "releases": lambda store: store.releases(ID),
    "masters": lambda store: store.masters(),
    "redeemed": lambda store: store.redeemed(),
    "revoked": lambda store: store.revoked(),
}
OF_ANALYZER: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "task": lambda store: store.task(ID),
    "key": lambda store: store.key(ID, 0),
    "known": lambda store: store.known(ID),
    "chains": lambda store: store.chains(),
    "records": lambda store: store.records(),
    "batches": lambda store: store.batches(ID, 0),
    "charges": lambda store: store.charges(ID),
    "ledgers": lambda store: store.ledgers(),
    "counted": lambda store: store.counted(),
    "uncertified": lambda store: store.uncertified(),
    "past": lambda store: store.past(ID, 0),
    "unerased": lambda store: store.unerased(),
    "certificate": lambda store: store.certificate(ID, 0),
    "certified": lambda store: store.certified(None),
    "progress": lambda store: store.progress(None),
}
OF_HOP: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "key": lambda store: store.key(ID, 0),
    "envelopes": lambda store: store.envelopes(BatchId(ID, 0, 0), 0, 48),
    "standings": lambda store: store.statuses(),
}
READS = [
    (kind, name, read)
    for kind, reads in ((ShufflerStore, OF_SHUFFLER), (AnalyzerStore, OF_ANALYZER), (HopStore, OF_HOP))
    for name, read in reads.items()
]


@contextlib.contextmanager
def failing(kind: Any, folder: Path) -> Iterator[tuple[Any, list[str]]]:
    """A new store, and the statements that it asked since something was put into that list."""
    asked: list[str] = []

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if asked and sql.lstrip().upper().startswith(("SELECT", "WITH")):
                asked.append(sql)
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error
            return super().execute(sql, *values)

    with contextlib.closing(store_in(kind, folder, connection=Failing)) as store:
        yield store, asked
        asked.clear()


@pytest.mark.parametrize(
    ("kind", "name", "read"), READS, ids=[f"{kind.__module__.split('.')[1]}-{name}" for kind, name, _ in READS]
)
async def test_a_read_that_fails_is_told_and_answers_nothing(
    tmp_path: Path, kind: Any, name: str, read: Callable[[Any], Awaitable[Any]]
) -> None:
    with failing(kind, tmp_path / "data") as (store, asked):
        if kind is AnalyzerStore:
            # The past of a round is read from the releases, of which it must be one.
            await store._change(lambda _: insert_releases(store._database.writer, ID, [Release(0, 6, 0, (ID,))]))
        await read(store)
        asked.append("from here on")
        with pytest.raises((StoreError, Refusal)) as told:
            await read(store)
        # To a caller, what a receiver's store cannot do now is a reason to come again.
        assert getattr(told.value, "reason", Reason.NOT_READY) is Reason.NOT_READY
        assert len(asked) > 1
