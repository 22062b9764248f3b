"""A result means on disk, and who fails takes nobody along but where the disk fails."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError
from hubbub.service.sqlite.group_commit import GroupCommit
from support.patience import CALL_SECONDS


class Page:
    """A transaction that keeps a diary of what is done with it."""

    def __init__(self, connection: sqlite3.Connection, diary: list[str]) -> None:
        self.connection = connection
        self._diary = diary
        diary.append("begin")

    def write(self, text: str) -> str:
        self.connection.execute("INSERT INTO line VALUES (?)", (text,))
        return text

    def flush(self) -> None:
        self._diary.append("flush")

    def settle(self) -> None:
        self._diary.append("settle")

    def abandon(self) -> None:
        self._diary.append("abandon")


class Book:
    """A file, what writes to it, and its diary."""

    def __init__(self, folder: Path, factory: type[sqlite3.Connection] = sqlite3.Connection, **options: Any) -> None:
        self.path = folder / "book.db"
        self.connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, factory=factory)
        self.connection.execute("CREATE TABLE IF NOT EXISTS line (text TEXT NOT NULL)")
        self.diary: list[str] = []
        self.timings: list[float] = []
        self.commits: GroupCommit[Page] = GroupCommit(
            self.connection, lambda: Page(self.connection, self.diary), observe=self.timings.append, **options
        )

    def lines(self) -> list[str]:
        """What another connection sees."""
        other = sqlite3.connect(self.path)
        found = [row[0] for row in other.execute("SELECT text FROM line ORDER BY rowid")]
        other.close()
        return found

    def close(self) -> None:
        self.commits.close()
        self.connection.close()


@pytest.fixture(params=[False, True], ids=["bare", "savepoints"])
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path, savepoints=request.param)
    yield book
    book.close()


def held(commits: GroupCommit[Page]) -> tuple[asyncio.Future[Any], threading.Event]:
    """Keep the thread that writes, so that what is submitted meanwhile shares the next transaction."""
    release = threading.Event()
    return commits.submit_bare(lambda _: release.wait(CALL_SECONDS)), release


async def test_a_result_is_given_out_when_others_can_read_it(book: Book) -> None:
    assert await book.commits.submit(lambda page: page.write("one")) == "one"
    assert book.lines() == ["one"]
    assert book.diary == ["begin", "flush", "settle"]
    assert len(book.timings) == 1


async def test_what_waits_together_shares_a_transaction_and_keeps_its_order(book: Book) -> None:
    holding, release = held(book.commits)
    futures = [book.commits.submit(lambda page, text=text: page.write(text)) for text in "abcde"]
    assert book.commits.waiting >= 5
    release.set()
    assert await asyncio.gather(holding, *futures) == [True, *"abcde"]
    assert book.lines() == list("abcde")
    assert book.diary.count("flush") == 1


async def test_a_job_alone_has_a_transaction_of_its_own_in_its_turn(book: Book) -> None:
    holding, release = held(book.commits)
    futures = [
        book.commits.submit(lambda page: page.write("a")),
        book.commits.submit(lambda page: page.write("b"), alone=True),
        book.commits.submit(lambda page: page.write("c")),
    ]
    release.set()
    await asyncio.gather(holding, *futures)
    assert book.lines() == ["a", "b", "c"]
    assert book.diary.count("flush") == 3


async def test_a_bare_job_runs_outside_of_any_transaction(book: Book) -> None:
    assert not await book.commits.submit_bare(lambda page: page.connection.in_transaction)
    assert await book.commits.submit(lambda page: page.connection.in_transaction)
    with pytest.raises(StoreError, match="broken"):
        await book.commits.submit_bare(_raise(StoreError("broken")))
    with pytest.raises(StoreError, match="could not be used: no room"):
        await book.commits.submit_bare(_raise(OSError("no room")))


def _raise(error: Exception) -> Callable[[Page], None]:
    def work(_page: Page) -> None:
        raise error

    return work


async def test_a_job_that_fails_for_a_named_reason_fails_alone(book: Book) -> None:
    holding, release = held(book.commits)
    futures = [
        book.commits.submit(lambda page: page.write("a")),
        book.commits.submit(_raise(HubbubError("not today"))),
        book.commits.submit(lambda page: page.write("c")),
    ]
    release.set()
    outcomes = await asyncio.gather(holding, *futures, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["True", "a", "not today", "c"]
    assert book.lines() == ["a", "c"]


async def test_in_a_savepoint_a_job_takes_back_what_it_wrote_whatever_its_error(tmp_path: Path) -> None:
    book = Book(tmp_path, savepoints=True)

    def wrong(page: Page) -> None:
        page.write("taken back")
        raise KeyError("a mistake")

    holding, release = held(book.commits)
    futures = [book.commits.submit(lambda page: page.write("a")), book.commits.submit(wrong)]
    futures.append(book.commits.submit(lambda page: page.connection.execute("INSERT INTO line VALUES (NULL)")))
    futures.append(book.commits.submit(lambda page: page.write("d")))
    release.set()
    _, first, second, third, last = await asyncio.gather(holding, *futures, return_exceptions=True)
    assert (first, last) == ("a", "d")
    assert isinstance(second, KeyError)
    assert isinstance(third, StoreError)
    assert book.lines() == ["a", "d"]
    book.close()


async def test_without_savepoints_an_unforeseen_error_takes_the_whole_transaction_back(tmp_path: Path) -> None:
    book = Book(tmp_path)
    holding, release = held(book.commits)
    futures = [book.commits.submit(lambda page: page.write("a")), book.commits.submit(_raise(KeyError("a mistake")))]
    release.set()
    outcomes = await asyncio.gather(holding, *futures, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [bool, StoreError, StoreError]
    assert book.lines() == []
    assert book.diary[-1] == "abandon"
    assert await book.commits.submit(lambda page: page.write("b")) == "b"
    book.close()


async def test_a_commit_that_fails_fails_all_its_jobs_in_the_words_that_were_handed_in(tmp_path: Path) -> None:
    class NoRoom(sqlite3.Connection):
        full = False

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if NoRoom.full and sql == "COMMIT":
                raise sqlite3.OperationalError("disk is full")
            return super().execute(sql, *values)

    book = Book(tmp_path, NoRoom, failed=lambda error: HubbubError(f"later: {error}"))
    NoRoom.full = True
    holding, release = held(book.commits)
    futures = [book.commits.submit(lambda page, text=text: page.write(text)) for text in "ab"]
    release.set()
    outcomes = await asyncio.gather(holding, *futures, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["True", *["later: disk is full"] * 2]
    NoRoom.full = False
    assert await book.commits.submit(lambda page: page.write("c")) == "c"
    assert book.lines() == ["c"]
    assert len(book.timings) == 1
    book.close()


async def test_closing_does_what_waits_and_takes_nothing_more(book: Book) -> None:
    holding, release = held(book.commits)
    last = book.commits.submit(lambda page: page.write("last"))
    closing = asyncio.create_task(asyncio.to_thread(book.commits.close))
    release.set()
    await closing
    assert (await holding, await last) == (True, "last")
    assert book.lines() == ["last"]
    with pytest.raises(StoreError, match="closed"):
        book.commits.submit(lambda page: page.write("too late"))
    book.commits.close()


async def test_whoever_gives_up_waiting_stops_nobody(book: Book) -> None:
    holding, release = held(book.commits)
    given_up = book.commits.submit(lambda page: page.write("a"))
    given_up.cancel()
    other = book.commits.submit(lambda page: page.write("b"))
    release.set()
    await holding
    assert await other == "b"
    assert book.lines() == ["a", "b"]


class Full(sqlite3.Connection):
    """A connection to a disk that is full while `full`: it takes no commit that wrote something."""

    full = False

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if self.full and (sql == "COMMIT" or sql.startswith("PRAGMA user_version =")):
            raise sqlite3.OperationalError("disk is full")
        return super().execute(sql, *values)


class Outcomes:
    """What was told of transactions, and when it was told that one wrote something."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.works = threading.Event()

    def __call__(self, error: Exception | None) -> None:
        self.told.append("" if error is None else str(error))
        if error is None:
            self.works.set()


async def test_what_the_disk_does_not_take_is_told_until_a_transaction_has_written_something(tmp_path: Path) -> None:
    outcomes = Outcomes()
    book = Book(tmp_path, Full, outcome=outcomes)
    book.connection.full = True  # type: ignore[attr-defined]
    with pytest.raises(StoreError):
        await book.commits.submit(lambda page: page.write("a"))
    book.connection.full = False  # type: ignore[attr-defined]
    await book.commits.submit(lambda page: page.connection.execute("SELECT 1").fetchone())
    assert outcomes.told == ["disk is full"]
    await book.commits.submit(lambda page: page.write("b"))
    assert outcomes.told == ["disk is full", ""]
    book.close()


async def test_a_disk_that_was_full_is_tried_again_though_nobody_asks(tmp_path: Path) -> None:
    outcomes = Outcomes()
    book = Book(tmp_path, Full, outcome=outcomes, probe=0.001)
    book.connection.full = True  # type: ignore[attr-defined]
    with pytest.raises(StoreError):
        await book.commits.submit(lambda page: page.write("a"))
    assert not outcomes.works.is_set()
    book.connection.full = False  # type: ignore[attr-defined]
    assert await asyncio.to_thread(outcomes.works.wait, 30)
    assert book.lines() == []
    book.close()


@pytest.mark.parametrize("broken", ["begin", "abandon"])
async def test_the_thread_that_writes_survives_whatever_is_raised(tmp_path: Path, broken: str) -> None:
    class Odd(Page):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            if broken == "begin" and armed:
                raise RuntimeError("a bug")

        def abandon(self) -> None:
            if broken == "abandon" and armed:
                raise RuntimeError("a bug")

    armed = False
    book = Book(tmp_path)
    book.commits._begin = lambda: Odd(book.connection, book.diary)  # type: ignore[method-assign]
    armed = True
    with pytest.raises(StoreError):
        await book.commits.submit(_raise(KeyError("a mistake")))
    armed = False
    assert await book.commits.submit(lambda page: page.write("on")) == "on"
    assert book.lines() == ["on"]
    book.close()


async def test_a_store_whose_memory_is_behind_its_disk_takes_nothing_more(tmp_path: Path) -> None:
    class Blind(Page):
        def settle(self) -> None:
            raise MemoryError

    book = Book(tmp_path)
    book.commits._begin = lambda: Blind(book.connection, book.diary)  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(StoreError, match="restart the service"):
            await book.commits.submit(lambda page: page.write("a"))
    assert book.lines() == ["a"]
    book.close()
