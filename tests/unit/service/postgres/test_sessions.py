"""Sessions: how a server that is gone is noticed, and what sees which changes."""

from __future__ import annotations

import contextlib

from psycopg.conninfo import conninfo_to_dict

from hubbub.service.postgres.lone import LoneSessions
from hubbub.service.postgres.sessions import Connection, Sessions
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
