"""Sessions: how a server that is gone is noticed, and what sees which changes."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hubbub.service.postgres.lone import LoneSessions
from hubbub.service.postgres.sessions import Connection, Sessions, configure, lock
from hubbub.shuffler.postgres.schema import SCHEMA
from support import postgres


def test_a_server_that_is_gone_is_given_up_soon_unless_the_address_says_otherwise() -> None:
    with contextlib.closing(Sessions(f"{postgres.new_database()}&keepalives_idle=99", SCHEMA.name)) as sessions:
        settled = conninfo_to_dict(sessions.settled)
    assert (settled["keepalives_idle"], settled["tcp_user_timeout"]) == ("99", "30000")


def test_statements_that_look_together_see_one_moment() -> None:
    address = postgres.new_database()
    with (
        contextlib.closing(LoneSessions(address, SCHEMA.name, "shuffler")) as sessions,
        contextlib.closing(Sessions(address, SCHEMA.name)) as others,
    ):

        def count(connection: Connection) -> int:
            return len(connection.execute("SELECT 1 FROM tally").fetchall())

        def look(connection: Connection) -> list[int]:
            before = count(connection)
            sessions.change(lambda one: one.execute("INSERT INTO tally VALUES ('x', 0, 'y', 1)"))
            return [before, count(connection)]

        assert others.look(look) == [0, 0]
        assert others.look(count) == 1


def test_who_waited_for_a_lock_sees_what_its_holder_committed_whatever_the_servers_default() -> None:
    address = f"{postgres.new_database()}&options=-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    waits = threading.Event()
    with (
        contextlib.closing(Sessions(address, SCHEMA.name)) as sessions,
        psycopg.connect(address, autocommit=True) as holder,
    ):
        assert holder.execute("SHOW default_transaction_isolation").fetchone() == ("repeatable read",)
        configure(holder, SCHEMA.name)
        holder.execute("CREATE TABLE cuts (number integer)")
        holder.execute("BEGIN")
        lock(holder, "round", "1")

        def look(connection: Connection) -> object:
            waits.set()
            lock(connection, "round", "1")
            return connection.execute("SELECT number FROM cuts").fetchall()

        with ThreadPoolExecutor(1) as other:
            seen = other.submit(sessions.change, look)
            waits.wait()
            while not holder.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'").fetchall():
                pass
            holder.execute("INSERT INTO cuts VALUES (7)")
            holder.execute("COMMIT")
            assert seen.result() == [(7,)]
