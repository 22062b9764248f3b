"""What stands between a store and its server: poolers, and ways that end idle connections."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Incidents
from hubbub.service.postgres.sessions import CONNECTIONS, Connection, Sessions
from hubbub.service.postgres.single_writer import SingleWriterSessions
from hubbub.shuffler.stores.postgres.replication import leadership
from hubbub.shuffler.stores.postgres.replication.leadership import Lease
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.patience import PATIENCE
from support.pgbouncer import IdleCutter, pgbouncer


@pytest.fixture
def cutter() -> Iterator[IdleCutter]:
    cutter = IdleCutter(postgres.new_database())
    yield cutter
    cutter.close()


def use_all(sessions: Sessions) -> list[tuple[int]]:
    """Have every connection of the pool used at the same time, so that there are as many as it may have."""
    together = threading.Barrier(CONNECTIONS)

    def look(connection: Connection) -> tuple[int]:
        found: tuple[int] = connection.execute("SELECT 1").fetchone()
        together.wait(PATIENCE)
        return found

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return list(threads.map(lambda _: sessions.read(look), range(CONNECTIONS)))


def test_calls_are_answered_however_often_all_idle_connections_are_cut(cutter: IdleCutter) -> None:
    incidents = Incidents()
    with contextlib.closing(Sessions(cutter.address, SCHEMA.name, incidents=incidents)) as sessions:
        for _ in range(3):
            use_all(sessions)
            assert cutter.cut() >= CONNECTIONS
            assert sessions.read(lambda connection: connection.execute("SELECT 7").fetchone()) == (7,)
            assert sessions.change(lambda connection: connection.execute("SELECT 8").fetchone()) == (8,)
    assert not incidents.now()


def test_after_a_cut_all_who_call_at_once_are_answered(cutter: IdleCutter) -> None:
    with contextlib.closing(Sessions(cutter.address, SCHEMA.name)) as sessions:
        use_all(sessions)
        cutter.cut()
        assert use_all(sessions) == [(1,)] * CONNECTIONS


def test_the_one_who_changes_takes_its_lock_again(cutter: IdleCutter) -> None:
    with contextlib.closing(SingleWriterSessions(cutter.address, SCHEMA.name, "analyzer")) as sessions:
        cutter.cut()
        assert sessions.change(lambda connection: connection.execute("SELECT 7").fetchone()) == (7,)


def test_a_leader_whose_connections_are_cut_goes_on_leading(
    cutter: IdleCutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.01)
    lease = Lease.take(cutter.address)
    assert lease is not None
    with contextlib.closing(lease):
        sessions = Sessions(cutter.address, SCHEMA.name, check=lease.check)
        with contextlib.closing(sessions):
            use_all(sessions)
            cutter.cut()
            assert sessions.change(lambda connection: connection.execute("SELECT 7").fetchone()) == (7,)
            assert not lease.lost


@pytest.mark.parametrize("kind", [Sessions, SingleWriterSessions])
def test_a_pooler_that_keeps_sessions_is_as_good_as_the_server(kind: type[Sessions]) -> None:
    more = ("analyzer",) if kind is SingleWriterSessions else ()
    with pgbouncer(postgres.new_database(), "session") as address:
        with contextlib.closing(kind(address, SCHEMA.name, *more)) as sessions:
            # The driver prepares a statement that it has run a few times, under a name of the connection.
            for number in range(20):

                def ask(connection: Connection, number: int = number) -> object:
                    return connection.execute("SELECT %s::int", (number,)).fetchone()

                assert sessions.read(ask) == sessions.change(ask) == (number,)
        if kind is SingleWriterSessions:
            with (
                contextlib.closing(kind(address, SCHEMA.name, *more)),
                pytest.raises(StoreError, match="is in use: by hubbub analyzer"),
            ):
                kind(address, SCHEMA.name, *more)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused_before_anything_is_changed(mode: str) -> None:
    with pgbouncer(postgres.new_database(), mode) as address:
        for _ in range(3):
            with pytest.raises(StoreError, match=r"is a pooler that lets connections share .*pool_mode = session"):
                Sessions(address, SCHEMA.name)
