"""A database that is away: calls are refused at once, it is told once, and its return is noticed soon."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg
import pytest
from structlog.testing import capture_logs

from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.errors import StoreAwayError, StoreFault
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.postgres import outage
from hubbub.service.postgres.outage import WAIT_SECONDS, Outage, may_be_away
from hubbub.service.postgres.sessions import Connection, Sessions
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.patience import CALL_SECONDS


@contextlib.contextmanager
def away(address: str) -> Iterator[None]:
    """Have the server refuse this database, and end its connections, as long as the block runs."""
    name = postgres._name(address)
    with psycopg.connect(postgres.server(), autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))
        yield
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def look(sessions: Sessions) -> object:
    return sessions.read(lambda connection: connection.execute("SELECT 7").fetchone())


def test_a_database_that_is_away_is_told_once_and_is_used_again_once_it_is_back() -> None:
    address, incidents = postgres.new_database(), Incidents()
    with capture_logs() as lines, contextlib.closing(Sessions(address, SCHEMA.name, incidents=incidents)) as sessions:
        with away(address):
            for _ in range(5):
                with pytest.raises(StoreAwayError, match="is not currently accepting connections") as refused:
                    look(sessions)
                assert refused.value.fault is StoreFault.DATABASE
            (incident,) = incidents.now()
            assert (incident.kind, str(refused.value)) == (IncidentKind.STORE, incident.text)
            assert sessions.is_away()
        while incidents.now():
            pass
        assert look(sessions) == (7,)
        assert not sessions.is_away()
    first, last = lines
    assert (first["event"], first["error"]) == ("the database does not answer", incident.text)
    assert first["exc_info"] is None
    assert (last["event"], last["refused"]) == ("the database answers again", 5)
    assert last["seconds"] > 0


def test_its_return_is_noticed_within_ten_seconds_however_long_it_was_away() -> None:
    # A try takes `WAIT_SECONDS` at most, and the pause after it never grows.
    assert outage.LOOK_SECONDS + WAIT_SECONDS < 10


def test_while_it_is_away_nobody_asks_it_but_one_thread() -> None:
    answers, asked, tried = iter(["gone", "gone", None]), [], threading.Event()

    def cause() -> str | None:
        asked.append(threading.current_thread().name)
        answer = next(answers)
        if answer is None:
            tried.set()
        return answer

    incidents = Incidents()
    server = Outage("postgresql://db", cause, incidents)
    server.check()
    assert str(server.found()) == "gone"
    for _ in range(100):
        with pytest.raises(StoreAwayError, match=r"^gone$"):
            server.check()
    assert tried.wait(CALL_SECONDS)
    while incidents.now():
        pass
    server.check()
    assert asked == [threading.current_thread().name, "outage", "outage"]


def test_a_failed_call_is_no_outage_if_the_server_answers() -> None:
    server = Outage("postgresql://db", lambda: None, Incidents())
    assert server.found() is None
    server.check()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.CannotConnectNow(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (psycopg.errors.DiskFull(), False),
        (psycopg.errors.QueryCanceled(), False),
        (psycopg.errors.UndefinedTable(), False),
        (OSError(), False),
    ],
)
def test_only_errors_of_a_connection_make_it_ask_whether_the_server_is_away(error: Exception, expected: bool) -> None:
    assert may_be_away(error) is expected


def test_connections_that_work_are_used_although_the_server_takes_no_new_ones() -> None:
    address = postgres.new_database()
    name = postgres._name(address)
    with (
        contextlib.closing(Sessions(address, SCHEMA.name)) as sessions,
        psycopg.connect(postgres.server(), autocommit=True) as connection,
    ):
        assert look(sessions) == (7,)
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')

        def fails(_connection: Connection) -> None:
            raise psycopg.OperationalError("cut off")

        with pytest.raises(HubbubError) as failed:
            sessions.read(fails)
        assert not isinstance(failed.value, StoreAwayError)
        assert look(sessions) == (7,)
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_what_fails_because_a_database_is_away_is_an_incident_but_no_further_line() -> None:
    error = Refusal(Reason.NOT_READY, "the store takes nothing now", 5.0)
    error.__cause__ = StoreAwayError("gone")
    incidents = Incidents()
    with capture_logs() as lines:
        for _ in range(2):
            incidents.open("round", IncidentKind.ROUNDS, "a step failed", "another try: gone", StoreAwayError("gone"))
            incidents.open("batch", IncidentKind.ROUNDS, "commit failed", "another try: gone", error)
        assert [(each.kind, each.count) for each in incidents.now()] == [(IncidentKind.ROUNDS, 2)] * 2
        incidents.resolve("round")
        incidents.resolve("batch")
        assert lines == []
        # Another cause is another line.
        incidents.open("round", IncidentKind.ROUNDS, "a step failed", "no room", HubbubError("no room"))
    assert [line["event"] for line in lines] == ["a step failed"]


def test_whatever_is_raised_while_a_server_is_looked_for_its_return_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "LOOK_SECONDS", 0.01)
    answers = iter([ValueError("no number"), RuntimeError("no thread"), None])
    looks, checked = iter(range(3)), threading.Event()

    def cause() -> str | None:
        if next(looks) == 1:
            checked.wait()
        answer = next(answers)
        if answer is not None:
            raise answer
        return None

    incidents = Incidents()
    watched = Outage("a server", cause, incidents)
    assert watched.is_away()
    with pytest.raises(StoreAwayError, match="the server cannot be asked: ValueError: no number"):
        watched.check()
    checked.set()
    while incidents.now():
        pass
    watched.check()
