"""Others are acknowledged meanwhile, no step is large, and what is left behind counts for nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import RoundState
from hubbub.protos.records.release_chain import Release
from hubbub.service.sqlite.release_table import insert_releases
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, Opened, Round, StoreError
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore, tables
from support.patience import CALL_SECONDS
from support.store_contents import store_in

TASK = bytes(32)
WIDTH = 50
SIGNED = SignedDocument(b"body", b"signature")
COLUMNS = {"arrived": "inners", "known": "entries", "released": "envelopes"}


class Counting(sqlite3.Connection):
    """Counts what each transaction writes of rounds' contents; refuses statements that begin with `refused`."""

    transactions: list[int]
    refused = ""
    _bytes = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if self.refused and sql.startswith(self.refused):
            raise sqlite3.OperationalError("database or disk is full")
        words = sql.split()
        if words[0] == "BEGIN":
            self._bytes = 0
        elif words[0] == "DELETE" and words[2] in COLUMNS:
            size = f"SELECT coalesce(sum(length({COLUMNS[words[2]]})), 0) {' '.join(words[1:])}"
            self._bytes += super().execute(size, *values).fetchone()[0]
        elif words[0] == "INSERT" and words[2] in COLUMNS:
            self._bytes += len(values[0][1])
        elif words[0] == "COMMIT":
            self.transactions.append(self._bytes)
        return super().execute(sql, *values)

    def executemany(self, sql: str, values: Iterable[Any]) -> sqlite3.Cursor:
        rows = list(values)
        self._bytes += sum(len(row[1]) for row in rows if "released" in sql)
        return super().executemany(sql, rows)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ShufflerSqliteStore]:
    with contextlib.closing(opened(tmp_path / "data")) as store:
        yield store


def opened(folder: Path) -> ShufflerSqliteStore:
    Counting.transactions, Counting.refused = [], ""
    return store_in(ShufflerSqliteStore, folder, connection=Counting)


def submissions(count: int) -> list[Opened]:
    return [Opened(os.urandom(16), os.urandom(16), os.urandom(WIDTH)) for _ in range(count)]


async def cut_round(store: ShufflerSqliteStore, held: Iterable[list[Opened]], number: int = 0) -> Round:
    round_ = await store.add_round(TASK, number)
    for each in held:
        await store.insert(round_, each)
    return await store.cut(round_, "schedule", 0)


def backwards(inners: RoundContents) -> None:
    """A permutation that can be told: the last come first."""
    for block, envelopes in enumerate(reversed(list(inners.arrived()))):
        inners.put_released(0, block, envelopes)
    inners.put_batch(0, bytes(32), SIGNED)


def rows(store: ShufflerSqliteStore, table: str, round_: Round) -> int:
    first, end = tables._key_range(round_)
    query = f"SELECT count(*) FROM {table} WHERE key >= ? AND key < ?"  # noqa: S608
    return int(store._database.reader.execute(query, (first, end)).fetchone()[0])


async def elsewhere(store: ShufflerSqliteStore, work: Callable[[RoundContents], None]) -> asyncio.Task[Round]:
    """Begin to mix a round of three submissions."""
    cut = await cut_round(store, [submissions(1) for _ in range(3)])
    return asyncio.create_task(store.mix(cut, work))


async def test_no_transaction_of_a_mix_or_an_erasure_is_large(
    store: ShufflerSqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "STEP_BYTES", 20_000)
    monkeypatch.setattr("hubbub.shuffler.stores.sqlite.staging.STEP_BYTES", 20_000)
    held = [submissions(100) for _ in range(80)]
    cut = await cut_round(store, held)
    longest = 100 * (WIDTH + 32)
    Counting.transactions.clear()
    mixed = await store.mix(cut, backwards)
    written, limit = list(Counting.transactions), 20_000 + longest
    assert max(written) <= limit
    assert sum(written) == 2 * 8000 * WIDTH  # staged once, swept once
    assert len(written) > 2 * 8000 * WIDTH / limit
    envelopes = await store.envelopes(mixed, 0, 0, WIDTH)
    assert envelopes == [each.inners for each in held[-1]]
    Counting.transactions.clear()
    await store.erase(mixed, RoundState.ERASED)
    assert max(Counting.transactions) <= limit
    assert sum(Counting.transactions) == 8000 * (WIDTH + 32)


async def test_other_rounds_are_acknowledged_while_one_is_mixed(store: ShufflerSqliteStore) -> None:
    other, loop = await store.add_round(TASK, 1), asyncio.get_running_loop()
    held: list[InsertOutcome] = []

    def work(inners: RoundContents) -> None:
        for block, envelopes in enumerate(inners.arrived()):
            inners.put_released(0, block, envelopes)
            # The mixing goes on only when the other round has its answer.
            holding = asyncio.run_coroutine_threadsafe(store.insert(other, submissions(1)), loop)
            held.extend(holding.result(60))
        inners.put_batch(0, bytes(32), SIGNED)

    assert (await (await elsewhere(store, work))).state is RoundState.MIXED
    assert held == [InsertOutcome.STORED] * 3


async def test_what_a_try_that_was_killed_has_staged_is_no_part_of_the_next(tmp_path: Path) -> None:
    with contextlib.closing(opened(tmp_path / "data")) as store:
        cut = await cut_round(store, [submissions(4) for _ in range(2)])

        def half(inners: RoundContents) -> None:
            for block in range(5):
                inners.put_released(0, block, bytes(tables.STEP_BYTES))
            inners.position()
            copied(tmp_path / "data", tmp_path / "copy")
            raise StoreError("killed")

        with pytest.raises(StoreError, match="killed"):
            await store.mix(cut, half)
        assert rows(store, "released", cut) == 0
    with contextlib.closing(opened(tmp_path / "copy")) as store:
        (found,) = await store.rounds()
        assert found == cut
        assert rows(store, "released", cut) >= 4
        assert await store.batches(found) == []
        await store.mix(found, backwards)
        assert rows(store, "released", cut) == 2


def copied(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*-shm", "lock"))


async def test_no_batch_is_given_out_while_something_is_left_of_the_order_of_arrival(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is mixed here is neither charged nor signed, and a start looks at that.
    for check in ("check_ledgers", "check_chains"):
        monkeypatch.setattr(f"hubbub.shuffler.stores.sqlite.store.{check}", lambda *_, **__: None)
    with contextlib.closing(opened(tmp_path / "data")) as store:
        Counting.refused = "DELETE FROM arrived"
        with caplog.at_level(logging.WARNING):
            mixed = await (await elsewhere(store, backwards))
        assert mixed.state is RoundState.MIXED
        assert "still to be deleted" in caplog.text
        assert rows(store, "arrived", mixed) == 3
        with pytest.raises(StoreError):
            await store.batches(mixed)
        copied(tmp_path / "data", tmp_path / "copy")
        # Mixing it again is to delete it, and no more.
        Counting.refused = ""
        assert await store.mix(mixed, backwards) == mixed
        assert rows(store, "arrived", mixed) == 0
    with contextlib.closing(opened(tmp_path / "copy")) as store:
        assert rows(store, "arrived", mixed) == 3
        (found,) = await store.rounds()
        assert [batch.record for batch in await store.batches(found)] == [SIGNED]
        assert rows(store, "arrived", mixed) == 0


async def test_a_round_whose_position_was_taken_meanwhile_is_mixed_anew_for_the_next(
    store: ShufflerSqliteStore,
) -> None:
    loop, positions = asyncio.get_running_loop(), []

    def work(inners: RoundContents) -> None:
        positions.append(inners.position())
        if len(positions) == 1:
            taken = store._writer.submit_from(
                loop,
                lambda transaction: insert_releases(transaction.connection, TASK, [Release(7, 1, 0, (bytes(32),))]),
            )
            taken.result(CALL_SECONDS)
        backwards(inners)
        inners.put_release(Release(0, 3, 0, (bytes(32),)))

    mixed = await (await elsewhere(store, work))
    assert mixed.state is RoundState.MIXED
    assert [position.number for position in positions] == [0, 1]
    assert [release.round for release in await store.releases(TASK)] == [7, 0]
    assert rows(store, "released", mixed) == 3


async def test_a_mixing_that_is_cancelled_ends_before_the_store_is_closed(store: ShufflerSqliteStore) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work(inners: RoundContents) -> None:
        try:
            begun.set()
            go_on.wait(CALL_SECONDS)
            backwards(inners)
        finally:
            ended.set()

    mixing = await elsewhere(store, work)
    await asyncio.to_thread(begun.wait, CALL_SECONDS)
    mixing.cancel()
    asyncio.get_running_loop().call_soon(go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await mixing
    assert ended.is_set()
    (found,) = await store.rounds()
    assert found.state is RoundState.CUT
    assert (await store.mix(found, backwards)).state is RoundState.MIXED
