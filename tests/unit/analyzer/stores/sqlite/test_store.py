"""The analyzer's SQLite file; what every store promises is in tests/contract."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore
from hubbub.analyzer.stores.sqlite.schema import FILE_NAME
from hubbub.analyzer.stores.sqlite.tables import AnalyzerSqliteTables
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Incidents
from hubbub.service.receiving.round_keys import make_key
from hubbub.service.sqlite.database import Database
from support.messages import FOLDER_IN_USE, OTHER_KIND_OF_FILE
from support.samples import Parties, sample_task, signed
from support.store_contents import store_in

PARTIES = Parties.generate()


def task(name: str) -> SignedTask:
    return signed(sample_task(PARTIES, name=name), PARTIES)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnalyzerSqliteStore]:
    store = store_in(AnalyzerSqliteStore, tmp_path / "data")
    yield store
    store.close()


async def test_an_operation_that_fails_takes_back_itself_and_nothing_else(store: AnalyzerSqliteStore) -> None:
    def failing(unit: object) -> None:
        store._database.writer.execute("DELETE FROM task")
        raise Refusal(Reason.BAD_RECORD, "no")

    # Put together, so that they share a transaction.
    one, two = task("one"), task("two")
    outcomes = await asyncio.gather(
        store.add_tasks([one]), store._commits.submit(failing), store.add_tasks([two]), return_exceptions=True
    )
    assert [outcome is None for outcome in outcomes] == [True, False, True]
    assert [await store.task(each.task.id) for each in (one, two)] == [one, two]


async def test_files_are_for_their_owner_alone(store: AnalyzerSqliteStore, tmp_path: Path) -> None:
    await store.add_tasks([task("one")])
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()} == {0o600}


def test_two_stores_on_one_folder_are_refused(store: AnalyzerSqliteStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=rf"\(analyzer's store\) is {FOLDER_IN_USE}"):
        AnalyzerSqliteStore(tmp_path / "data")
    store.close()
    AnalyzerSqliteStore(tmp_path / "data").close()


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\x00" + bytes(84)])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StoreError):
        AnalyzerSqliteStore(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_somebody_else_s_tables_are_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    connection.close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(StoreError, match=rf"{OTHER_KIND_OF_FILE} \(analyzer's store\)"):
        AnalyzerSqliteStore(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


async def test_a_full_disk_refuses_and_the_store_goes_on_when_there_is_room(store: AnalyzerSqliteStore) -> None:
    connection, small = store._database.writer, task("small")
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    big = replace(small, task=replace(small.task, name="x" * 100_000))
    with pytest.raises(Refusal) as refusal:
        await store.add_tasks([big])
    assert refusal.value.reason is Reason.NOT_READY
    assert refusal.value.retry_after is not None
    connection.execute("PRAGMA max_page_count = 100000").fetchall()
    await store.add_tasks([small])
    assert await store.task(small.task.id) == small


async def test_acknowledgements_rest_on_full_synchronisation_and_secure_deletion(store: AnalyzerSqliteStore) -> None:
    connection = store._database.writer
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA secure_delete").fetchone() == (1,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)


async def test_a_closed_store_says_so(store: AnalyzerSqliteStore) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.uncertified()


async def test_what_was_erased_and_is_still_in_the_files_is_told_until_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    real = Database.clean

    def clean(database: Database) -> None:
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        real(database)

    one, incidents = task("one"), Incidents()
    with contextlib.closing(store_in(AnalyzerSqliteStore, tmp_path / "data", incidents=incidents)) as store:
        await store.add_tasks([one])
        monkeypatch.setattr(Database, "clean", clean)
        await store.add_key(one.task.id, 0, make_key(Role.ANALYZER, one.task, 0, PARTIES.analyzer))
        await store.abandon(one.task.id, 0)
        (incident,) = incidents.now()
        assert (incident.kind, "database or disk is full" in incident.text) == ("store", True)
        full = False
        await store.counted()
        assert incidents.now() == ()


async def test_damage_met_while_it_runs_is_not_told_as_a_full_disk(
    store: AnalyzerSqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def malformed(*_: object, **__: object) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(AnalyzerSqliteTables, "add_tasks", malformed)
    with pytest.raises(Refusal, match="the analyzer's store is damaged") as refusal:
        await store.add_tasks([task("one")])
    assert "full" not in str(refusal.value)
