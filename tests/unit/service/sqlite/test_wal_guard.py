"""A write-ahead log that was deleted or cut while nobody looked is noticed; one that is whole never is."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from hubbub.service.errors import StoreError
from hubbub.service.sqlite.maintenance import accept_lost_log, check_store_file
from hubbub.service.sqlite.wal_guard import WalPosition, position_file_of, what_is_lost
from hubbub.shuffler.records import ANY_ROUND
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME, LAYOUT
from support.patience import PATIENCE
from support.thoroughness import usually

TASK = bytes(32)

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore

async def work():
    for number in range(8):
        await store.add_round(bytes(32), number)
    print("acknowledged", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

store = ShufflerSqliteStore(Path(sys.argv[1]))
asyncio.run(work())
"""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a process that was killed left: eight rounds were acknowledged, and all of them are in the log."""
    folder = tmp_path_factory.mktemp("left")
    ShufflerSqliteStore.create(folder)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)], capture_output=True, check=False, timeout=PATIENCE
    )
    assert done.stdout == b"acknowledged\n"
    return folder


@pytest.fixture
def store(left: Path, tmp_path: Path) -> Path:
    """A copy of that: the store's file."""
    return Path(shutil.copytree(left, tmp_path / "data")) / FILE_NAME


def log_of(store: Path) -> Path:
    return store.with_name(f"{store.name}-wal")


def rounds(store: Path) -> int:
    """How many rounds a store holds that opens."""
    with closing(ShufflerSqliteStore(store.parent)) as opened:
        return len(opened._snapshot.rounds)


def contents(store: Path) -> dict[str, bytes]:
    """What is in the files that a store needs: the database, the log, the mark."""
    return {path.name: path.read_bytes() for path in (store, log_of(store), position_file_of(store))}


def refused(store: Path, words: str) -> None:
    with pytest.raises(StoreError, match=f"{words}.*was not closed before.*Restore the file.*--accept-lost-log"):
        ShufflerSqliteStore(store.parent)


def test_a_store_that_was_killed_holds_what_was_acknowledged(store: Path) -> None:
    assert what_is_lost(store) == ""
    assert rounds(store) == 8
    assert sorted(path.name for path in store.parent.iterdir()) == ["lock", FILE_NAME]  # it was closed


def test_a_store_that_is_refused_as_damaged_keeps_its_log_for_the_good_file(store: Path) -> None:
    good = store.read_bytes()
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'ledger'").fetchone()
    changed = good[: (root - 1) * 4096] + b"\xff" * 4096 + good[root * 4096 :]
    store.write_bytes(changed)
    kept = contents(store)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"shuffler\.db is damaged.*keep the folder"):
            ShufflerSqliteStore(store.parent)
        assert contents(store) == kept
    store.write_bytes(good)
    assert rounds(store) == 8


async def test_a_store_that_is_refused_for_what_it_holds_keeps_its_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ShufflerSqliteStore.create(data)
    with closing(ShufflerSqliteStore(data)) as opened:
        await opened.add_round(TASK, 0)
        opened._database.writer.execute("INSERT INTO ledger VALUES (?, 0, 'no entry', 'no digest')", (TASK,))
        await opened.add_round(TASK, 1)
        copy = Path(shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm", "lock")))
        kept = contents(copy / FILE_NAME)
        for _ in range(2):
            with pytest.raises(StoreError, match="ledger"):
                ShufflerSqliteStore(copy)
            assert contents(copy / FILE_NAME) == kept


@pytest.mark.parametrize("index", [True, False], ids=["index there", "index gone"])
def test_a_log_that_is_gone_is_missed_until_that_is_accepted(store: Path, index: bool) -> None:
    log_of(store).unlink()
    if not index:
        store.with_name(f"{store.name}-shm").unlink()
    for _ in range(2):  # being refused changes nothing
        refused(store, r"shuffler\.db-wal is missing")
        with pytest.raises(StoreError, match="is missing"):
            check_store_file(store.parent, FILE_NAME, LAYOUT)
    accept_lost_log(store.parent, FILE_NAME, LAYOUT)
    assert rounds(store) == 0
    with pytest.raises(StoreError, match=r"nothing of the log of .* is missing; start without --accept-lost-log"):
        accept_lost_log(store.parent, FILE_NAME, LAYOUT)


def test_a_log_that_is_put_back_is_whole_again(store: Path) -> None:
    log_of(store).rename(store.parent.with_name("elsewhere"))
    refused(store, "is missing")
    store.parent.with_name("elsewhere").rename(log_of(store))
    assert rounds(store) == 8


def test_a_log_that_is_cut_is_missed_at_any_length(store: Path) -> None:
    content, random = log_of(store).read_bytes(), Random(1)
    for length in (0, 1, 31, 32, 33, len(content) - 1, *(random.randrange(len(content)) for _ in range(40))):
        log_of(store).write_bytes(content[:length])
        refused(store, f"shuffler\\.db-wal was cut to {length} bytes" if length < 32 else "is cut or damaged")


def test_a_log_with_another_byte_is_missed_wherever_it_is(store: Path) -> None:
    """SQLite ends reading at the first page whose checksum is another, and goes on as if it were the last."""
    content, random = log_of(store).read_bytes(), Random(2)
    for place in (*range(32), *(random.randrange(len(content)) for _ in range(60))):
        changed = bytearray(content)
        changed[place] ^= random.randrange(1, 256)
        log_of(store).write_bytes(changed)
        refused(store, "damaged")


async def test_an_older_log_and_another_store_s_log_are_missed(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", []
    ShufflerSqliteStore.create(data)
    with closing(ShufflerSqliteStore(data)) as opened:
        opened._database.writer.execute("PRAGMA wal_autocheckpoint = 10").fetchall()
        for number in range(40):
            await opened.add_round(TASK, number)
            logs.append(log_of(data / FILE_NAME).read_bytes())
        copy = Path(shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm", "lock")))
    begun = {log[16:24]: log for log in logs}
    assert len(begun) >= 3
    for log in [*begun.values()][:-1]:
        log_of(copy / FILE_NAME).write_bytes(log)
        refused(copy / FILE_NAME, "is not the log that belongs to the store, but another one")
    log_of(copy / FILE_NAME).write_bytes(logs[-1])
    assert rounds(copy / FILE_NAME) == 40


async def test_a_foreign_log_is_moved_aside_and_not_played_into_the_store(left: Path, store: Path) -> None:
    """Its pages are of another database: they would take the place of the store's own."""
    other = store.parent.with_name("other")
    ShufflerSqliteStore.create(other)
    with closing(ShufflerSqliteStore(other)) as opened:
        for number in range(30):
            await opened.add_round(TASK, number)
        foreign = log_of(other / FILE_NAME).read_bytes()
    for number, log in enumerate((foreign, bytes(len(foreign)), foreign[:16])):
        folder = Path(shutil.copytree(left, store.parent.with_name(f"copy{number}")))
        log_of(folder / FILE_NAME).write_bytes(log)
        refused(folder / FILE_NAME, "another one|damaged at its beginning|was cut")
        accept_lost_log(folder, FILE_NAME, LAYOUT)
        assert (folder / f"{FILE_NAME}-wal.lost").read_bytes() == log
        assert rounds(folder / FILE_NAME) == 0  # none of the other's, and none of those in the log that is lost
    # A second one does not go over the first.
    again = Path(shutil.copytree(left, store.parent.with_name("again")))
    (again / f"{FILE_NAME}-wal.lost").write_bytes(b"the first")
    log_of(again / FILE_NAME).write_bytes(foreign)
    accept_lost_log(again, FILE_NAME, LAYOUT)
    assert (again / f"{FILE_NAME}-wal.lost").read_bytes() == b"the first"
    assert (again / f"{FILE_NAME}-wal.lost.2").read_bytes() == foreign


def test_what_is_left_of_the_stores_own_log_is_read_once_its_loss_is_accepted(store: Path) -> None:
    content = log_of(store).read_bytes()
    log_of(store).write_bytes(content[:-1])
    accept_lost_log(store.parent, FILE_NAME, LAYOUT)
    assert rounds(store) == 7


async def test_no_log_that_is_whole_is_ever_missed(tmp_path: Path) -> None:
    """Killed after any commit, while the log begins anew again and again by itself, and is cut now and then."""
    data, random = tmp_path / "data", Random(3)
    ShufflerSqliteStore.create(data)
    copies = []
    with closing(ShufflerSqliteStore(data)) as opened:
        opened._database.writer.execute("PRAGMA wal_autocheckpoint = 10").fetchall()
        for number in range(usually(40, 120)):
            await opened.add_round(TASK, number)
            if random.random() < 0.1:
                await opened._writer.submit_bare(lambda _unit: opened._database.cut_log())
            copies.append(tmp_path / f"copy{number}")
            shutil.copytree(data, copies[-1], ignore=shutil.ignore_patterns("*-shm", "lock"))
    for number, copy in enumerate(copies):
        assert rounds(copy / FILE_NAME) == number + 1


async def test_the_mark_is_synced_once_where_the_log_begins_and_not_with_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ShufflerSqliteStore.create(tmp_path)
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    with closing(ShufflerSqliteStore(tmp_path)) as opened:
        monkeypatch.setattr("hubbub.service.sqlite.wal_guard.os.fsync", fsync)
        for number in range(20):
            await opened.add_round(TASK, number)
        assert len(synced) == 1
        await opened._writer.submit_bare(lambda _unit: opened._database.cut_log())
        assert len(synced) == 2
        await opened.add_round(TASK, 20)
        assert len(synced) == 3


async def test_a_mark_that_cannot_be_written_fails_no_commit_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ShufflerSqliteStore.create(tmp_path)

    said: list[str] = []

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with closing(ShufflerSqliteStore(tmp_path)) as opened:
        monkeypatch.setattr(
            "hubbub.service.sqlite.wal_guard._LOG.warning", lambda text, *values: said.append(text % values)
        )
        monkeypatch.setattr("hubbub.service.sqlite.wal_guard.os.pwrite", full)
        for number in range(3):
            await opened.add_round(TASK, number)
        monkeypatch.undo()
        assert len(await opened.rounds()) == 3
    assert len(said) == 1
    assert "No space left on device" in said[0]


@pytest.mark.parametrize("failing", [("pwrite",), ("pwrite", "ftruncate"), ("fsync",)], ids="-".join)
async def test_a_mark_that_could_not_be_written_while_the_log_began_anew_is_no_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...]
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    data, copy = tmp_path / "data", tmp_path / "copy"
    ShufflerSqliteStore.create(data)
    with closing(ShufflerSqliteStore(data)) as opened:
        opened._database.writer.execute("PRAGMA wal_autocheckpoint = 10").fetchall()
        await opened.add_round(TASK, 0)
        begun = {log_of(data / FILE_NAME).read_bytes()[16:24]}
        for name in failing:
            monkeypatch.setattr(f"hubbub.service.sqlite.wal_guard.os.{name}", full)
        for number in range(1, 60):
            await opened.add_round(TASK, number)
            begun.add(log_of(data / FILE_NAME).read_bytes()[16:24])
        assert len(begun) > 3
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*-shm", "lock"))
        monkeypatch.undo()
        # Once it can be written, it says again how far the log goes.
        await opened.add_round(TASK, 60)
        later = Path(shutil.copytree(data, tmp_path / "later", ignore=shutil.ignore_patterns("*-shm", "lock")))
    assert rounds(copy / FILE_NAME) == 60
    log_of(later / FILE_NAME).unlink()
    refused(later / FILE_NAME, "is missing")


def test_a_mark_says_nothing_where_it_is_torn_or_of_another_form(store: Path) -> None:
    mark = WalPosition.decode(position_file_of(store).read_bytes())
    assert mark is not None
    assert mark.frames > 0
    assert mark.salts == log_of(store).read_bytes()[16:24]
    content = mark.encode()
    assert WalPosition.decode(content) == mark
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        assert WalPosition.decode(bytes(changed)) is None
    assert (
        WalPosition.decode(b"") is WalPosition.decode(content[:-1]) is WalPosition.decode(bytes(len(content))) is None
    )


def test_a_store_that_sqlite_opened_by_hand_misses_its_log(store: Path) -> None:
    """Its commits are in the database then; nothing tells that from a log that was thrown away."""
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT count(*) FROM round").fetchone() == (8,)
    refused(store, "is missing")
    accept_lost_log(store.parent, FILE_NAME, LAYOUT)
    assert rounds(store) == 8


def test_a_new_store_is_not_made_beside_the_mark_of_one_that_is_gone(store: Path) -> None:
    for path in (store, log_of(store), store.with_name(f"{store.name}-shm")):
        path.unlink()
    with pytest.raises(StoreError, match=r"is missing, but shuffler\.mark of it is there"):
        ShufflerSqliteStore(store.parent)
    with pytest.raises(StoreError, match=r"shuffler\.mark belongs to a store that is missing"):
        ShufflerSqliteStore.create(store.parent)


def test_counts_that_wait_are_in_the_store_that_was_closed(tmp_path: Path) -> None:
    ShufflerSqliteStore.create(tmp_path)

    async def work() -> None:
        with closing(ShufflerSqliteStore(tmp_path)) as opened:
            opened.count(TASK, ANY_ROUND, {"malformed": 3})

    asyncio.run(work())
    assert not position_file_of(tmp_path / FILE_NAME).exists()
    with closing(ShufflerSqliteStore(tmp_path)) as opened:
        assert asyncio.run(opened.tally(TASK, ANY_ROUND)) == {"malformed": 3}
