"""Stores that are cut short, overwritten or exchanged: a documented error, or a store that serves; no traceback."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hubbub.analyzer.server import check_store
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.client.errors import StateError
from hubbub.client.state.store import State
from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError
from hubbub.service.sqlite.integrity import check_whole
from hubbub.service.sqlite.maintenance import check_store_file
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopStore
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME, LAYOUT
from support.changed_stores import by_hand
from support.source_tree import ROOT

VECTORS = ROOT / "tests" / "vectors" / "stores"
NEWEST = {
    kind: max(VECTORS.glob(f"{kind}-*.db.gz"), key=lambda path: int(path.name.split("-")[1].split(".")[0]))
    for kind in ("shuffler", "hop", "analyzer", "state")
}
"""A store of each kind with something of everything in it, of the newest version."""


def spent(charges: Any, releases: Any) -> dict[str, Any]:
    return {
        "charges": {task.hex(): [each.digest for each in found] for task, found in charges.items()},
        "releases": {task.hex(): [release.content() for release, _ in chain] for task, chain in releases.items()},
    }


async def serve_shuffler(store: ShufflerStore) -> dict[str, Any]:
    for round_ in await store.rounds():
        await store.tally(round_.task_id, round_.number)
        for batch in await store.batches(round_):
            await store.envelopes(round_, batch.query, 0, 100)
    await store.revoked()
    charges = {round_.task_id: await store.charges(round_.task_id) for round_ in await store.rounds()}
    # A round whose task's id is damaged is of a task that has spent nothing.
    return {"charges": {task.hex(): [each.digest for each in found] for task, found in charges.items() if found}}


async def serve_analyzer(store: AnalyzerStore) -> dict[str, Any]:
    await check_store(store)
    for progress in await store.progress(None):
        for batch in await store.batches(progress.id.task_id, progress.id.round):
            b"".join(store.arrived(batch.id))
    return spent(await store.ledgers(), await store.chains())


async def serve_hop(store: HopStore) -> dict[str, Any]:
    for status in await store.statuses():
        await store.batches(status.task_id, status.round)
    return {}


SERVE: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "shuffler": (ShufflerStore, serve_shuffler),
    "hop": (HopStore, serve_hop),
    "analyzer": (AnalyzerStore, serve_analyzer),
}


def used(kind: str, folder: Path) -> dict[str, Any]:
    """Open a store and read all that its service reads; return what it says was spent."""
    if kind == "state":
        with closing(State(folder / "state.db")) as state:
            state.forget(0)
            state.waiting(bytes(32), "kiosk")
        return {}
    store, serve = SERVE[kind]
    with closing(store(folder)) as opened:
        found: dict[str, Any] = asyncio.run(serve(opened))
    return found


def damaged(content: bytes, random: Random) -> Iterator[bytes]:
    """Cut short at many lengths, then with one other byte at many places that are not zeros among zeros."""
    for length in (1, 16, 99, 100, 101, 4095, 4096, *(random.randrange(len(content)) for _ in range(10))):
        yield content[:length]
    places = [place for place in range(len(content)) if any(content[max(0, place - 4) : place + 4])]
    for place in random.sample(places, 60):
        changed = bytearray(content)
        changed[place] ^= random.randrange(1, 256)
        yield bytes(changed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", NEWEST)
def test_a_damaged_store_is_a_documented_error_or_serves_and_never_says_that_less_was_spent(
    kind: str, tmp_path: Path
) -> None:
    content = gzip.decompress(NEWEST[kind].read_bytes())
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / f"{kind}.db").write_bytes(content)
    right = used(kind, whole)
    refused: list[str] = []
    for number, changed in enumerate(damaged(content, Random(7))):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"{kind}.db").write_bytes(changed)
        try:
            assert used(kind, folder) == right
        except HubbubError as error:
            refused.append(str(error))
        shutil.rmtree(folder)
    assert len(refused) > 17  # all that were cut, and many of the others
    named = (f"{kind}.db", f"{kind}'s", "the store", "task")
    assert [said for said in refused if not any(name in said for name in named)] == []


@pytest.mark.parametrize("other", NEWEST)
@pytest.mark.parametrize("kind", NEWEST)
def test_a_store_in_the_place_of_another_is_told(kind: str, other: str, tmp_path: Path) -> None:
    (tmp_path / f"{kind}.db").write_bytes(gzip.decompress(NEWEST[other].read_bytes()))
    if kind == other:
        used(kind, tmp_path)
        return
    with pytest.raises((StoreError, StateError), match=r"is not the .* but the .*put each file in its place"):
        used(kind, tmp_path)


def test_a_page_that_was_overwritten_is_found_at_the_start(tmp_path: Path) -> None:
    """Before anything reads it: SQLite itself would say so only when it comes there."""
    path = ShufflerStore.create(tmp_path)
    with closing(ShufflerStore(tmp_path)) as store:
        asyncio.run(begun(store))
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'tally'").fetchone()[0]
    content[(page - 1) * 4096 : (page - 1) * 4096 + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"shuffler\.db is damaged \(.+\): keep the folder"):
        ShufflerStore(tmp_path)


async def begun(store: ShufflerStore) -> None:
    for number in range(3):
        await store.add_round(bytes(32), number)


def test_a_store_whose_tables_were_changed_is_refused_before_a_statement_fails(tmp_path: Path) -> None:
    path = ShufflerStore.create(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE tally RENAME COLUMN count TO counted")
    with pytest.raises(StoreError, match=r"is damaged \(tables differ from those of its version: tally\)"):
        ShufflerStore(tmp_path)


def test_a_store_too_large_for_the_time_opens_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ShufflerStore.create(tmp_path)
    said: list[str] = []
    monkeypatch.setattr(
        "hubbub.service.sqlite.integrity._LOG.warning", lambda text, *values: said.append(text % values)
    )
    monkeypatch.setattr("hubbub.service.sqlite.integrity._STEPS", 1)
    with closing(sqlite3.connect(path)) as connection:
        check_whole(connection, path, seconds=-1.0)
        assert connection.execute("SELECT count(*) FROM round").fetchone() == (0,)
    assert said == [f"the store was not looked over to its end: {path}, within -1 s"]


def test_a_store_too_large_to_walk_is_not_walked_since_nothing_interrupts_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ShufflerStore.create(tmp_path)
    said: list[str] = []
    monkeypatch.setattr(
        "hubbub.service.sqlite.integrity._LOG.warning", lambda text, *values: said.append(text % values)
    )
    size = path.stat().st_size
    with closing(sqlite3.connect(path)) as connection:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        check_whole(connection, path, largest=size)
        assert (said, asked) == ([], ["PRAGMA integrity_check(1)"])
        check_whole(connection, path, largest=size - 1)
    assert said == [f"the store was not looked over: {path}, {size} bytes, more than {size - 1}; --check-store does"]
    assert asked == ["PRAGMA integrity_check(1)"]


def test_all_of_a_store_is_looked_over_on_request(tmp_path: Path) -> None:
    ShufflerStore.create(tmp_path)
    assert check_store_file(tmp_path, FILE_NAME, LAYOUT) == tmp_path / FILE_NAME
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("CREATE TABLE other (a TEXT UNIQUE)")
        connection.execute("INSERT INTO other VALUES ('x')")
        connection.commit()
        # An index that says another thing than its table: the quick check does not compare them.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = 'CREATE TABLE other (b TEXT, a TEXT UNIQUE)' WHERE name = 'other'"
        )
        connection.commit()
    with pytest.raises(StoreError, match=r"shuffler\.db is damaged"):
        check_store_file(tmp_path, FILE_NAME, LAYOUT)


def test_what_a_row_holds_is_not_quoted(tmp_path: Path) -> None:
    path = ShufflerStore.create(tmp_path)
    with closing(by_hand(path)) as connection:
        connection.execute("INSERT INTO ledger VALUES (x'00', 0, 'private!', '')")
        connection.commit()
    path.write_bytes(path.read_bytes().replace(b"private!", b"private\xff"))
    with pytest.raises(StoreError, match=r"is damaged \(text that is not UTF-8\)") as refusal:
        ShufflerStore(tmp_path)
    assert "private" not in str(refusal.value)


def test_the_stores_hold_something_of_everything() -> None:
    """Otherwise the test of damage would say little."""
    for kind in ("shuffler", "analyzer"):
        described = json.loads(NEWEST[kind].with_name(NEWEST[kind].name.replace(".db.gz", ".json")).read_text())
        assert described["rounds"] != []
        assert described["charges"] != {}
