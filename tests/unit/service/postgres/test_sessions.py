"""How a server that is gone is noticed, and what sees which changes."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from hubbub.service.errors import StoreError
from hubbub.service.postgres.server_errors import as_store_error
from hubbub.service.postgres.sessions import Connection, Sessions, check_version, configure, lock
from hubbub.service.postgres.single_writer import SingleWriterSessions
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres


def given(parameter: str) -> str:
    """Return the address of a new database with a parameter."""
    address = postgres.new_database()
    return f"{address}{'&' if '?' in address else '?'}{parameter}"


@pytest.mark.parametrize(("version", "named"), [(90624, "9.6"), (100023, "10"), (130014, "13")])
def test_a_server_that_is_too_old_is_refused_by_its_version(version: int, named: str) -> None:
    address = "postgresql://user:secret@host/db"
    old = SimpleNamespace(info=SimpleNamespace(server_version=version))
    refused = rf"^the server of postgresql://user@host/db is PostgreSQL {named}; upgrade it to 14 or newer$"
    with pytest.raises(StoreError, match=refused):
        check_version(cast(Connection, old), address)
    check_version(cast(Connection, SimpleNamespace(info=SimpleNamespace(server_version=140000))), address)


def test_a_password_that_no_file_has_is_explained_by_its_file(tmp_path: Path) -> None:
    """libpq passes over a file that it cannot use, in silence, and then says that no password was supplied."""
    path = tmp_path / "passwords"
    address = f"postgresql://user@host/db?passfile={path}"
    error = psycopg.OperationalError("connection failed: fe_sendauth: no password supplied")

    def told() -> str:
        return str(as_store_error(error, address, running=False))

    assert told().endswith(f"; the password file {path} cannot be read: No such file or directory")
    path.write_text("other:5432:db:user:secret\n")
    path.chmod(0o644)
    assert told().endswith(f"is open to others (mode 0644), so it is passed over; run `chmod 600 {path}`")
    path.chmod(0o600)
    assert told().endswith("has no line for this server, database and account (host:port:database:user:password)")


def test_without_the_servers_authority_nobody_is_told_to_check_no_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq advises to disable the check, and looks for the file in the home of the account."""
    monkeypatch.setenv("HOME", str(tmp_path))
    told = {}
    for named in ("", f"&sslrootcert={tmp_path}/authority.pem"):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def agree(server: socket.socket = server) -> None:
                asking, _ = server.accept()
                with asking:
                    asking.recv(8)
                    asking.sendall(b"S")
                    asking.recv(1)

            answering = threading.Thread(target=agree)
            answering.start()
            port = server.getsockname()[1]
            with pytest.raises(StoreError) as caught:
                Sessions(f"postgresql://hubbub@127.0.0.1:{port}/db?sslmode=verify-full{named}", "hubbub_shuffler")
            answering.join()
        told[named] = str(caught.value)
    without, missing = told.values()
    for text in told.values():
        assert "root certificate file" in text
        assert "sslmode" not in text.partition("could not be used")[2]
    assert without.endswith(
        "; add `sslrootcert=FILE` to `store`: the file with the certificate of the authority that issued the server's"
    )
    assert missing.endswith(f" into {tmp_path}/authority.pem, or name its file in `sslrootcert` of `store`")


def test_only_a_service_that_runs_is_said_to_continue_by_itself() -> None:
    error = psycopg.OperationalError("connection refused")
    assert "continues by itself" in str(as_store_error(error, "postgresql://host/db"))
    assert str(as_store_error(error, "postgresql://host/db", running=False)).endswith("this account and its password")


def test_a_server_that_is_gone_is_given_up_soon_unless_the_address_says_otherwise() -> None:
    with contextlib.closing(Sessions(given("keepalives_idle=99"), SCHEMA.name)) as sessions:
        settled = conninfo_to_dict(sessions.settled)
    assert (settled["keepalives_idle"], settled["tcp_user_timeout"]) == ("99", "30000")


def test_statements_that_look_together_see_one_moment() -> None:
    address = postgres.new_database()
    with (
        contextlib.closing(SingleWriterSessions(address, SCHEMA.name, "shuffler")) as sessions,
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
    address = given("options=-c%20default_transaction_isolation%3Drepeatable%5C%20read")
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
