from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from hubbub.analyzer.store import FILE_NAME, Store, StoreError
from hubbub.analyzer.tables import Tables
from hubbub.protos.refusals import Reason, Refusal


def add(tables: Tables, number: int) -> None:
    tables.add_task(number.to_bytes(32, "big"), f"task{number}", 1, b"document")


def has(store: Store, number: int) -> bool:
    return store.wait(lambda tables: tables.task(number.to_bytes(32, "big"))) is not None


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    store.wait(lambda tables: add(tables, 1))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in (tmp_path / "data").iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    store.close()
    for folder in (tmp_path / "data", copy):
        again = Store(folder)
        assert has(again, 1)
        again.close()


def test_an_operation_that_fails_takes_back_itself_and_nothing_else(tmp_path: Path) -> None:
    store, release = Store(tmp_path), threading.Event()

    def failing(tables: Tables) -> None:
        add(tables, 2)
        raise Refusal(Reason.BAD_RECORD, "no")

    # The first one holds the thread, so that the others share a transaction.
    held = store._submit(lambda _: release.wait(5))
    futures = [store._submit(lambda tables: add(tables, 1)), store._submit(failing)]
    futures.append(store._submit(lambda tables: add(tables, 3)))
    release.set()
    assert held.result() is True
    with pytest.raises(Refusal, match="no"):
        futures[1].result()
    assert [has(store, number) for number in (1, 2, 3)] == [True, False, True]
    store.close()


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    store.wait(lambda tables: add(tables, 1))
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()} == {0o600}
    store.close()


def test_two_stores_on_one_folder_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="another analyzer"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_another_version_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.execute("CREATE TABLE future (id INTEGER PRIMARY KEY)")
    connection.close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(StoreError, match="version 99, this hubbub knows 2; nothing was touched: install the newer"):
        Store(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\x00" + bytes(84)])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StoreError):
        Store(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_somebody_else_s_tables_are_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY)")
    connection.close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(StoreError, match="is no analyzer's store"):
        Store(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_full_disk_refuses_and_the_store_goes_on_when_there_is_room(tmp_path: Path) -> None:
    store = Store(tmp_path)
    pages = store.wait(lambda tables: tables._connection.execute("PRAGMA page_count").fetchone()[0])
    store.wait(lambda tables: tables._connection.execute(f"PRAGMA max_page_count = {pages}").fetchall())
    with pytest.raises(Refusal) as refusal:
        store.wait(lambda tables: tables.add_task(bytes(32), "big", 1, bytes(100_000)))
    assert refusal.value.reason is Reason.NOT_READY
    assert refusal.value.retry_after is not None
    store.wait(lambda tables: tables._connection.execute("PRAGMA max_page_count = 100000").fetchall())
    store.wait(lambda tables: add(tables, 1))
    assert has(store, 1)
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.wait(lambda _: None)
