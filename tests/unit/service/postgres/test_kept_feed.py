"""A store in PostgreSQL keeps what was taken of the feed; nobody changes it, and a replaced leader adds nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import psycopg
import pytest
from unit.service.runtime.test_feed_follower import PARTIES, TRUSTED, both, feed_of

from hubbub.protos.task.feed.entry import FeedEntry, FeedError
from hubbub.protos.task.feed.feed import Feed
from hubbub.service.errors import StoreError
from hubbub.service.postgres.kept_feed import documents_from
from hubbub.service.postgres.sessions import configure
from hubbub.shuffler.stores.postgres import open_store
from support import postgres
from support.samples import Parties, sample_task, signed


@pytest.mark.parametrize("kind", postgres.KINDS, ids=["shuffler", "analyzer"])
def test_entries_are_there_after_a_restart_once_and_in_order(kind: postgres.Kind[Any], tmp_path: Path) -> None:
    store = kind.store_in(tmp_path)
    assert store.kept_feed.read(TRUSTED) == Feed()
    for entry in (*feed_of(0, 1).entries, feed_of(0, 1).entries[1]):
        store.kept_feed.add(entry)
    store.close()
    store = kind.store_in(tmp_path)
    try:
        assert store.kept_feed.read(TRUSTED) == feed_of(0, 1)
        other = both(feed_of(0).ending(feed_of(0).entries[0].task_id, 0))
        with pytest.raises(FeedError, match="entry 2 of the feed is another one than the database has"):
            store.kept_feed.add(other)
        assert store.kept_feed.read(TRUSTED) == feed_of(0, 1)
    finally:
        store.close()


@pytest.mark.parametrize("kind", postgres.KINDS, ids=["shuffler", "analyzer"])
@pytest.mark.parametrize("statement", ["DELETE FROM feed", "UPDATE feed SET number = 2", "TRUNCATE feed"])
def test_the_database_refuses_changes(kind: postgres.Kind[Any], statement: str, tmp_path: Path) -> None:
    store = kind.store_in(tmp_path)
    try:
        store.kept_feed.add(feed_of(0).entries[0])
        address = (tmp_path / postgres.ADDRESS_FILE).read_text()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"SET search_path = {kind.schema.name}".encode())
            with pytest.raises(psycopg.errors.RaiseException, match="the feed only grows"):
                connection.execute(statement.encode())
    finally:
        store.close()


def test_a_front_end_reads_from_its_last_entry_on_which_is_empty_if_it_is_the_same(tmp_path: Path) -> None:
    store = postgres.SHUFFLER.store_in(tmp_path)
    first, second = feed_of(0, 1).entries
    known = hashlib.sha256(first.encode()).digest()
    try:
        for entry in (first, second):
            store.kept_feed.add(entry)
        with psycopg.connect((tmp_path / postgres.ADDRESS_FILE).read_text(), autocommit=True) as connection:
            configure(connection, postgres.SHUFFLER.schema.name)
            assert documents_from(connection, 0, b"") == [first.encode(), second.encode()]
            assert documents_from(connection, 1, known) == [b"", second.encode()]
            assert documents_from(connection, 2, known) == [second.encode()]
            assert documents_from(connection, 3, known) == []
    finally:
        store.close()


def _others() -> FeedEntry:
    others = Parties.generate()
    entry = Feed().publishing(signed(sample_task(others), others))
    return entry.signed_by(others.operator).signed_by(others.shuffler)


WRONG = [
    (_others(), "names another operator than the one that is trusted here"),
    (Feed().publishing(feed_of(0).entries[0].signed).signed_by(PARTIES.operator), "has not signed the feed entry"),  # type: ignore[arg-type]
    (feed_of(0, 1).entries[1], "entry 2 of the feed does not follow entry 0"),
]


@pytest.mark.parametrize(("entry", "says"), WRONG, ids=["others", "one signature", "a gap"])
def test_what_others_wrote_into_the_database_is_refused(entry: FeedEntry, says: str, tmp_path: Path) -> None:
    store = postgres.SHUFFLER.store_in(tmp_path)
    try:
        store.kept_feed.add(entry)
        with pytest.raises(FeedError, match=says):
            store.kept_feed.read(TRUSTED)
    finally:
        store.close()


def test_a_replaced_leader_adds_nothing_and_the_next_one_goes_on(tmp_path: Path) -> None:
    address = postgres.new_database()
    open_store.create_first(tmp_path, address)
    first = open_store.open_as_leader(tmp_path, address)
    first.kept_feed.add(feed_of(0, 1).entries[0])
    # As if the server had ended its connection, which it would learn of later.
    assert first._lease is not None
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE hubbub_shuffler.leader SET term = term + 1, holder = 'other'")
    with pytest.raises(StoreError, match=r"another leader|leads"):
        first.kept_feed.add(feed_of(0, 1).entries[1])
    first.close()
    assert open_store.taken_of_feed(address, TRUSTED) == feed_of(0)
    second = open_store.open_as_leader(tmp_path, address)
    try:
        second.kept_feed.add(feed_of(0, 1).entries[1])
    finally:
        second.close()
    assert open_store.taken_of_feed(address, TRUSTED) == feed_of(0, 1)
