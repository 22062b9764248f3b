"""A small SQLite file beside a store on PostgreSQL, with what must be erasable: the secrets of rounds.

None of it is ever in the database. A round's row stays when its secrets are destroyed, without them: so a round that is
being erased is told from one whose secrets were lost.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from hubbub.protos.sqlite_versions import Layout
from hubbub.service.errors import StoreError, as_store_error
from hubbub.service.observability.incidents import Incidents
from hubbub.service.sqlite.database import Database
from hubbub.service.sqlite.files import create

S = TypeVar("S")
T = TypeVar("T")

RoundId = tuple[bytes, int]
"""A task's id, and a round's number."""

FILE_NAME = "keyring.db"

KEYRING_TABLE = """
-- Which keyring this is, 16 random bytes: the database says which one it belongs to.
CREATE TABLE keyring (id BLOB NOT NULL) STRICT;
INSERT INTO keyring VALUES (randomblob(16));
"""
"""Part of the script of a keyring's layout."""


class KeyringFile(ABC, Generic[S]):
    """A keyring in a folder, for one process at a time, from any thread. What was answered is on disk.

    `lock` is held while what is on disk and what is known of it are changed together.
    """

    layout: ClassVar[Layout]

    @staticmethod
    @abstractmethod
    def _load(connection: sqlite3.Connection) -> dict[RoundId, S]:
        """Read the secrets of all rounds."""

    @classmethod
    def create(cls, folder: Path) -> Path:
        """Make a new keyring in `folder`, and return its file.

        Raises:
            StoreError: if there is one already, or something is left of one; nothing was made then.
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
        """Go on with the keyring, which belongs to the database; cut what a killed process left of its log."""
        self._database.accept()

    def close(self) -> None:
        """Close the file and let the folder go."""
        with self.lock:
            self._database.close()

    def of(self, round_: RoundId) -> S:
        """Return what is held of a round.

        Raises:
            StoreError: if the keyring never had anything of it.
        """
        found = self._secrets.get(round_)
        if found is None:
            raise StoreError(
                f"the keyring {self.path} knows nothing of round {round_[1]} of task {round_[0].hex()}, which the "
                "database has: one of them is an old copy; put the newest of both back, or end the store's tasks"
            )
        return found

    @property
    def rounds(self) -> list[RoundId]:
        """The rounds that something is held of, or was."""
        return list(self._secrets)

    def change(self, work: Callable[[sqlite3.Connection], T], *, everywhere: bool = True) -> T:
        """Do work in one transaction, and return what it returned once that is on disk.

        On the disks of those who follow, too, unless it need not be `everywhere` yet: with the next change that does.

        Raises:
            StoreError: if it could not be done; nothing was changed.
        """
        with self.lock:
            result = self._change(work)
        if everywhere:
            self._everywhere()
        return result

    def _gathered(self) -> Callable[[], None]:
        """Return what is to be done once the transaction that ends now is on disk, for those who follow changes."""
        return lambda: None

    def _everywhere(self) -> None:
        """Return once a change is wherever it must be besides. Without the lock: others go on meanwhile."""

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what is read on disk."""
        with self.lock, self._failing():
            return work(self._database.reader)

    def clean(self) -> None:
        """Leave nothing of what was deleted in any file.

        Raises:
            StoreError: if it could not be done; it may be called again.
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
