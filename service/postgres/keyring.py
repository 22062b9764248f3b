"""Keeps the secrets of rounds, which must be erasable, in a small SQLite file next to a store on PostgreSQL.

The secrets are never in the database. A round's row stays in the keyring after its secrets are destroyed. So an erased
round differs from one whose secrets were lost.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from hubbub.protos.sqlite_layout import Layout, checksum_column
from hubbub.service.errors import StoreError, as_store_error
from hubbub.service.observability.incidents import Incidents
from hubbub.service.sqlite.database import Database
from hubbub.service.sqlite.files import create

S = TypeVar("S")
T = TypeVar("T")

RoundId = tuple[bytes, int]
"""A task's id, and a round's number."""

FILE_NAME = "keyring.db"

KEYRING_TABLE = f"""
-- The id of this keyring, 16 random bytes: the database names the one that belongs to it.
CREATE TABLE keyring (id BLOB NOT NULL, {checksum_column("id")}) STRICT;
INSERT INTO keyring VALUES (randomblob(16));
"""  # noqa: S608 - names of columns
"""Part of the script of a keyring's layout."""


class KeyringFile(ABC, Generic[S]):
    """A keyring in a folder, for one process at a time, from any thread. Every result that it returned is on disk.

    `lock` is locked while the disk and the copy in memory are changed together.
    """

    layout: ClassVar[Layout]

    @staticmethod
    @abstractmethod
    def _load(connection: sqlite3.Connection) -> dict[RoundId, S]:
        """Read the secrets of all rounds."""

    @classmethod
    def create(cls, folder: Path) -> Path:
        """Create a new keyring in `folder`, and return its file.

        Raises:
            StoreError: if there is one already, or any file of one is left; then nothing was created.
        """
        return create(folder, FILE_NAME, cls.layout)

    def __init__(
        self,
        folder: Path,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the keyring in `folder`.

        Raises:
            StoreError: if there is none, another process uses it, or another version wrote it.
        """
        self.folder = folder
        self.lock = threading.RLock()
        self._database = Database(folder, FILE_NAME, self.layout, connection)
        self._told = (incidents or Incidents()).of_store(self._database.path, "the keyring could not be written")
        try:
            self.id: bytes = self._database.writer.execute("SELECT id FROM keyring").fetchone()[0]
            self._secrets = self._load(self._database.writer)
        except (sqlite3.Error, TypeError, ValueError) as error:
            self._database.close()
            raise as_store_error(error, self._database.path) from error

    @property
    def path(self) -> Path:
        """The keyring's file."""
        return self._database.path

    def accept(self) -> None:
        """Accept the keyring, which belongs to the database, and truncate the log that a killed process left."""
        self._database.accept()

    def close(self) -> None:
        """Close the file and release the folder."""
        with self.lock:
            self._database.close()

    def of(self, round_: RoundId) -> S:
        """Return the secrets of a round.

        Raises:
            StoreError: if the keyring never had secrets of it.
        """
        found = self._secrets.get(round_)
        if found is None:
            raise StoreError(
                f"the keyring {self.path} lacks round {round_[1]} of task {round_[0].hex()}, which the database has: "
                "one of them is an old copy. Restore the newest copy of both, or end the store's tasks"
            )
        return found

    @property
    def rounds(self) -> list[RoundId]:
        """The rounds that have or had secrets here."""
        return list(self._secrets)

    def change(self, work: Callable[[sqlite3.Connection], T], *, everywhere: bool = True) -> T:
        """Do work in one transaction, and return its result once it is on disk.

        With `everywhere`, it is then also on the disks of all standbys. Without, it reaches them with the next change
        that is.

        Raises:
            StoreError: if the transaction fails, or standbys are missing; nothing was changed. If one goes missing
                meanwhile, the change is here and not everywhere: it has to be repeated.
        """
        if everywhere:
            self.check_everywhere()
        with self.lock:
            result = self._change(work)
        if everywhere:
            self._everywhere()
        return result

    def _gathered(self) -> Callable[[], None]:
        """Return a function to call once the ending transaction is on disk; it announces the changes to standbys."""
        return lambda: None

    def check_everywhere(self) -> None:
        """Return at once if a change can reach as many standbys as it needs.

        Raises:
            StoreError: if it cannot; so the change is not begun.
        """

    def _everywhere(self) -> None:
        """Return once all standbys have a change. Called without the lock, so that other changes continue meanwhile."""

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work that only reads the disk, and return its result."""
        with self.lock, self._failing():
            return work(self._database.reader)

    def clean(self) -> None:
        """Remove all deleted data from every file.

        Raises:
            StoreError: if a step fails; the call may be repeated.
        """
        with self.lock, self._failing():
            self._database.clean()

    def _change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        writer = self._database.writer
        with self._failing():
            try:
                writer.execute("BEGIN IMMEDIATE")
                result = work(writer)
                tell = self._gathered()
                writer.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    writer.rollback()
                raise
            self._database.committed()
        tell()
        self._told(None)
        return result

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            self._told(error)
            raise as_store_error(error, self._database.path) from error
