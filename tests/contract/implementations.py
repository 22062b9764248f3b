"""The stores that are held to the contract. A new one is a line in its service's list: `SHUFFLER_STORES` and its like.

An implementation is opened in a folder, and can be opened such that a test is told before and after every change of
what it keeps: there it may take a copy of what a killed process would leave, or have the change fail.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import psycopg
from simulation.parties import named

from hubbub.analyzer.stores.protocol import AnalyzerStore as AnalyzerStore
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerSqlite
from hubbub.service.observability.incidents import Incidents
from hubbub.service.postgres.server_errors import shown
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopSqlite
from hubbub.shuffler.hop.store import HopStore as HopStore
from hubbub.shuffler.stores.protocol import ShufflerStore as ShufflerStore
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerSqlite
from support import postgres
from support.store_contents import store_in

S = TypeVar("S")

Watch = Callable[[str], None]
"""Is told the name of a change before it is made, and once more when it was; may raise what a full disk raises."""


@dataclass(frozen=True)
class Implementation(Generic[S]):
    """A store under test."""

    name: str
    open: Callable[[Path], S]
    """Opens or makes a store in a folder."""

    open_watched: Callable[[Path, Watch, Incidents], S]
    """Does so, and tells of every change, and of what the disk does not take."""

    copy: Callable[[Path, Path], None]
    """Copies what a process that is killed now leaves in a folder."""

    disk_error: Callable[[], Exception]
    """What the store's own driver raises where the disk is full."""

    cut_off: Callable[[Path], None] | None = None
    """Where a copy of the folder is not all that is left: ends what the killed process of that folder had under way
    elsewhere. Such a store is killed in a run of its own for each change, and goes on from the copy."""

    told: Callable[[Path], str] = str
    """What its errors name of the store in a folder."""

    def __str__(self) -> str:
        return self.name


def _watched(watch: Watch) -> type[sqlite3.Connection]:
    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return _between(sql, watch, lambda: super(Watched, self).execute(sql, *values))

        def executemany(self, sql: str, values: Iterable[Any]) -> sqlite3.Cursor:
            return _between(sql, watch, lambda: super(Watched, self).executemany(sql, values))

        def executescript(self, script: str) -> sqlite3.Cursor:
            return _between(script, watch, lambda: super(Watched, self).executescript(script))

    return Watched


def _between(sql: str, watch: Watch, work: Callable[[], sqlite3.Cursor]) -> sqlite3.Cursor:
    change = named(sql)
    if change is None:
        return work()
    watch(f"before {change}")
    done = work()
    watch(f"after {change}")
    return done


def _copy_files(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir():
        # The one is shared memory, which goes with the machine, the other is held by the process.
        if not path.name.endswith(("-shm", "lock")):
            shutil.copy(path, target / path.name)


def _full_server() -> Exception:
    return psycopg.errors.DiskFull("could not extend file: No space left on device")


def _postgres(kind: postgres.Kind[Any]) -> Implementation[Any]:
    def open_watched(folder: Path, watch: Watch, incidents: Incidents) -> Any:
        return _postgres_watched(kind, folder, watch, incidents)

    return Implementation(
        "postgres", kind.store_in, open_watched, _copy_files, _full_server, postgres.cut_off, _database_of
    )


def _postgres_watched(kind: postgres.Kind[Any], folder: Path, watch: Watch, incidents: Incidents) -> Any:
    """A store whose changes of the database and of its keyring are told."""

    def of_keyring(point: str) -> None:
        try:
            watch(f"{point} in the keyring")
        except psycopg.errors.DiskFull as error:
            raise _full_disk() from error

    return kind.store_in(folder, sqlite=_watched(of_keyring), connection=postgres.watched(watch), incidents=incidents)


def _database_of(folder: Path) -> str:
    """What its errors name: the database where that does not take a change, or else the keyring's folder."""
    return shown((folder / postgres.ADDRESS_FILE).read_text())


def _full_disk() -> Exception:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


SHUFFLER_STORES: tuple[Implementation[ShufflerStore], ...] = (
    Implementation(
        "sqlite",
        lambda folder: store_in(ShufflerSqlite, folder),
        lambda folder, watch, incidents: store_in(
            ShufflerSqlite, folder, connection=_watched(watch), incidents=incidents
        ),
        _copy_files,
        _full_disk,
    ),
    _postgres(postgres.SHUFFLER),
)

ANALYZER_STORES: tuple[Implementation[AnalyzerStore], ...] = (
    Implementation(
        "sqlite",
        lambda folder: store_in(AnalyzerSqlite, folder),
        lambda folder, watch, incidents: store_in(
            AnalyzerSqlite, folder, connection=_watched(watch), incidents=incidents
        ),
        _copy_files,
        _full_disk,
    ),
    _postgres(postgres.ANALYZER),
)

HOP_STORES: tuple[Implementation[HopStore], ...] = (
    Implementation(
        "sqlite",
        lambda folder: store_in(HopSqlite, folder),
        lambda folder, watch, incidents: store_in(HopSqlite, folder, connection=_watched(watch), incidents=incidents),
        _copy_files,
        _full_disk,
    ),
)
